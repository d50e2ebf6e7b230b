"""What the sensors have in common that wait for something in the metadata DB, in a worker or in the triggerer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.sdk import BaseSensorOperator, conf
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

if TYPE_CHECKING:
    from airflow.sdk import Context, PokeReturnValue

    from airflow_provider_dm.triggers.base import MetadataTrigger


class MetadataSensor(BaseSensorOperator):
    """The base of those sensors, each with its trigger.

    :param dm_meta_conn_id: connection of the metadata DB; by default ``[dm] metadata_conn_id`` (templated)
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too. Not used with
        ``outlets``, which only a worker handles
    """

    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        dm_meta_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        end_from_trigger: bool = True,
        poke_interval: timedelta | float = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.dm_meta_conn_id = dm_meta_conn_id
        self.deferrable = deferrable
        self.end_from_trigger = end_from_trigger

    def _first_look(self, context: Context) -> PokeReturnValue:
        """Look before deferring: what fails then is skipped where the base would skip it of one that pokes."""
        try:
            return cast("PokeReturnValue", self.poke(context))
        except AirflowException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise

    def _defer(self, trigger: Callable[..., MetadataTrigger], *, ends: bool, **wanted: Any) -> NoReturn:
        """Go on in the triggerer, and at its event in `execute_complete`. `ends`: the trigger may end the task."""
        poll = max(float(self.poke_interval), 1.0)
        self.defer(
            trigger=trigger(
                dm_meta_conn_id=self.dm_meta_conn_id,
                poll_interval=poll,
                deadline=time.time() + self.timeout,
                end_from_trigger=self.end_from_trigger and ends,
                **wanted,
            ),
            method_name="execute_complete",
            # A deferral that times out bypasses execute_complete, so the trigger's own deadline has to come first.
            timeout=timedelta(seconds=self.timeout + 2 * poll + 60),
        )
        raise AssertionError("defer raises")


def event_of(event: Mapping[str, Any] | str, good: str) -> Mapping[str, Any]:
    """Return what the trigger has seen. `dag.test()` hands over the state in which a trigger has ended its task."""
    if isinstance(event, str):
        return {"status": good if event == "success" else event, "message": "see the trigger's log"}
    return event
