"""A trigger that waits until DDL of merged tables is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_dm.launch.awaited import Awaited, Broken, NotYet
from airflow_provider_dm.triggers.base import AwaitTrigger

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.store import MetaStore


@dataclass(kw_only=True, eq=False, repr=False)
class ShardDdlLockTrigger(AwaitTrigger):
    """A trigger that fires when no DDL of merged tables is unresolved, when a user must decide, and at the deadline.

    :param task_name: the task's name; None: the task of the lock
    :param lock_id: the lock to wait for; None: all locks of the task
    :param fail_on_conflict: fire when sources have executed different DDL, or a source has executed DDL out of order
    :param deadline: when to give up, in seconds since the epoch
    :param end_from_trigger: end the task here when all DDL is resolved, instead of resuming it on a worker
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"status": "met", "value"}``, ``{"status": "broken" | "timeout", "message", "locks"}``, ``{"status":
    "error", "message"}``.
    """

    task_name: str | None
    lock_id: str | None
    fail_on_conflict: bool

    def state(self, store: MetaStore) -> Awaited:
        """Return the state of the DDL."""
        from airflow_provider_dm.launch.ddl_state import ddl_state_in

        found = ddl_state_in(store, self.task_name, self.lock_id)
        if isinstance(found, Broken) and not self.fail_on_conflict:
            return NotYet(found.why, found.locks)
        return found
