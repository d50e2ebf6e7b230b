"""The engine's typed errors as Airflow's: retry, or fail.

Reaction.RETRY   AirflowException        Airflow's retries decide
Reaction.STOP    AirflowFailException    a user has to act; a retry would fail in the same way
Reaction.FENCED  AirflowFailException    a newer run works on this; a retry would compete with it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow_provider_dm.engine.errors import DmError


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the engine in this block to Airflow's, with code, what happened and what to do.

    The cause is dropped (`from None`): Airflow would print its text and frames too, so the log would have the error
    twice.
    """
    from airflow_provider_dm.engine.errors import DmError

    try:
        yield
    except DmError as error:
        raise as_airflow(error) from None


def as_airflow(error: DmError) -> AirflowException:
    """Return the Airflow exception for the error's reaction."""
    from airflow_provider_dm.engine.errors import Reaction

    again = error.reacts() is Reaction.RETRY
    return AirflowException(str(error)) if again else AirflowFailException(str(error))
