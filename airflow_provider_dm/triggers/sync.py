"""The trigger that waits until the sync of a task meets a condition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_provider_dm.triggers.base import MetadataTrigger, TriggerData

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.launch.sync_state import SyncState


@dataclass(kw_only=True, eq=False, repr=False)
class SyncStateTrigger(MetadataTrigger):
    """A trigger that fires when a sync meets a condition, when an error has ended the sync, and at the deadline.

    :param task_name: the task's name (str, required)
    :param sources: the sources to wait for; empty: all that a run has reported (list[str], required)
    :param condition: the condition, from `launch.sync_state.condition_json` (dict[str, Any], required)
    :param began_at: when the task began to wait, in seconds since the epoch: earlier errors do not count (float,
        required)
    :param deadline: when to give up, in seconds since the epoch (float, required)
    :param end_from_trigger: end the task here when the condition is met, instead of resuming it on a worker (bool,
        required)
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, required)
    :param poll_interval: seconds between two polls (float, required)
    :param first_delay: seconds before the first poll (float, default 10.0)

    Events: ``{"status": "met", "value"}``, ``{"status": "broken" | "timeout" | "error", "message"}``.
    """

    task_name: str
    sources: list[str]
    condition: dict[str, Any]
    began_at: float
    deadline: float
    end_from_trigger: bool

    async def _wait(self) -> TriggerData:
        from airflow_provider_dm.launch.sync_state import Met, NotYet, SyncEnded, condition_of, state_in

        condition = condition_of(self.condition)

        def read(store: MetaStore) -> SyncState:
            waited = time.time() - self.began_at
            return state_in(store, self.task_name, self.sources, condition, waited_seconds=waited)

        async for state in self._polls(read, deadline=self.deadline):
            match state or NotYet("the metadata DB does not answer"):
                case Met(value):
                    return {"status": "met", "value": value}
                case SyncEnded(why):
                    return {"status": "broken", "message": why}
                case NotYet(why) if time.time() >= self.deadline:
                    return {"status": "timeout", "message": why}
                case NotYet(why):
                    self.log.info("%s", why)
        raise AssertionError("the loop has no end")

    def _as_event(self, event: TriggerData) -> TriggerEvent:
        # A failure is raised by a worker, where Airflow's retries apply.
        if self.end_from_trigger and event["status"] == "met":
            return TaskSuccessEvent(xcoms={"return_value": event["value"]})
        return TriggerEvent(event)
