"""The engine's typed errors as what Airflow acts on: try again, or stop.

Reaction.RETRY   AirflowException        Airflow's retries decide
Reaction.STOP    AirflowFailException    a person has to look; a retry would repeat it
Reaction.FENCED  AirflowFailException    somebody newer works on this; a retry would fight him
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
    """Let errors of the engine leave this block as Airflow's, with code, what happened and what to do."""
    from airflow_provider_dm.engine.errors import DmError

    try:
        yield
    except DmError as error:
        raise as_airflow(error) from error


def as_airflow(error: DmError) -> AirflowException:
    """Return the exception that makes Airflow react as the error asks."""
    from airflow_provider_dm.engine.errors import Reaction

    again = error.reacts() is Reaction.RETRY
    return AirflowException(str(error)) if again else AirflowFailException(str(error))
