"""A trigger that waits until DDL of merged tables is resolved."""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_provider_dm.triggers.base import MetadataTrigger, TriggerData


@dataclass(kw_only=True, eq=False, repr=False)
class ShardDdlLockTrigger(MetadataTrigger):
    """A trigger that fires when no DDL of merged tables is unresolved, when a user must decide, and at the deadline.

    :param task_name: the task's name; None: the task of the lock (str | None, required)
    :param lock_id: the lock to wait for; None: all locks of the task (str | None, required)
    :param fail_on_conflict: fire when sources have executed different DDL, or a source has executed DDL out of order
        (bool, required)
    :param deadline: when to give up, in seconds since the epoch (float, required)
    :param end_from_trigger: end the task here when all DDL is resolved, instead of resuming it on a worker (bool,
        required)
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, required)
    :param poll_interval: seconds between two polls (float, required)
    :param first_delay: seconds before the first poll (float, default 10.0)

    Events: ``{"status": "resolved"}``, ``{"status": "conflict" | "timeout", "message", "locks"}``, ``{"status":
    "error", "message"}``.
    """

    task_name: str | None
    lock_id: str | None
    fail_on_conflict: bool
    deadline: float
    end_from_trigger: bool

    async def _wait(self) -> TriggerData:
        from airflow_provider_dm.launch.ddl_state import DdlDiffers, DdlResolved, DdlWaits, ddl_state_in

        async for state in self._polls(
            lambda store: ddl_state_in(store, self.task_name, self.lock_id), deadline=self.deadline
        ):
            match state or DdlWaits("the metadata DB does not answer"):
                case DdlResolved():
                    return {"status": "resolved"}
                case DdlDiffers(why, locks) if self.fail_on_conflict:
                    return {"status": "conflict", "message": why, "locks": list(locks)}
                case DdlWaits(why, locks) | DdlDiffers(why, locks) if time.time() >= self.deadline:
                    return {"status": "timeout", "message": why, "locks": list(locks)}
                case DdlWaits(why) | DdlDiffers(why):
                    self.log.info("%s", why)
        raise AssertionError("the loop has no end")

    def _as_event(self, event: TriggerData) -> TriggerEvent:
        # A failure is raised by a worker, because the kind of the error decides about retries.
        ends = self.end_from_trigger and event["status"] == "resolved"
        return TaskSuccessEvent() if ends else TriggerEvent(event)
