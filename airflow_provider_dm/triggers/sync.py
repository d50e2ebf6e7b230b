"""The trigger that waits until the sync of a task meets a condition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.launch.awaited import Awaited
from airflow_provider_dm.triggers.base import AwaitTrigger

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.store import MetaStore


@dataclass(kw_only=True, eq=False, repr=False)
class SyncStateTrigger(AwaitTrigger):
    """A trigger that fires when a sync meets a condition, when an error has ended the sync, and at the deadline.

    :param task_name: the task's name
    :param sources: the sources to wait for; empty: all that a run has reported
    :param condition: the condition, from `launch.sync_state.condition_json`
    :param began_at: when the task began to wait, in seconds since the epoch: earlier errors do not count
    :param deadline: when to give up, in seconds since the epoch
    :param end_from_trigger: end the task here when the condition is met, instead of resuming it on a worker
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"status": "met", "value"}``, ``{"status": "broken" | "timeout", "message", "locks"}``, ``{"status":
    "error", "message"}``.
    """

    task_name: str
    sources: list[str]
    condition: dict[str, Any]
    began_at: float

    def state(self, store: MetaStore) -> Awaited:
        """Return the state of the sync."""
        from airflow_provider_dm.launch.sync_state import condition_of, state_in

        waited = time.time() - self.began_at
        return state_in(store, self.task_name, self.sources, condition_of(self.condition), waited_seconds=waited)
