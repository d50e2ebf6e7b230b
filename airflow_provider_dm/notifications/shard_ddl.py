"""A notification about DDL of merged tables that has been waiting for too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context

LOCKS: Final = "dm_ddl_locks"
TEXT: Final = "dm_ddl_locks_text"
Notify = Callable[[Any], Any]


class DmDdlLockNotifier(BaseNotifier):
    """A notifier about the DDL locks of a task that wait too long or are in conflict.

    It is a callback of a task, for example ``on_failure_callback`` of a ``ShardDdlLockSensor``, after its
    ``timeout``, or ``on_success_callback`` of a ``DmIncrementalSyncOperator`` that ends as ``waiting for lock``. It
    reads the metadata DB. If there are such locks, it calls other notifiers (mail, chat), whose templates may use
    ``{{ dm_ddl_locks_text }}``, one line for each lock, and ``{{ dm_ddl_locks }}``, a list of dictionaries as
    ``dmctl shard-ddl-lock`` shows them. It always logs that text as a warning.

    :param task: name of the DM task; None: all tasks
    :param waits_longer_than: the age from which a lock is reported, in seconds if it is a number; a conflict is
        reported at once
    :param notifiers: callbacks that take the context, such as notifiers
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    """

    template_fields: Sequence[str] = ("task", "dm_meta_conn_id")

    def __init__(
        self,
        *,
        task: str | None = None,
        waits_longer_than: timedelta | float = 600.0,
        notifiers: Sequence[Notify] | None = None,
        dm_meta_conn_id: str | None = None,
    ) -> None:
        super().__init__()
        self.task = task
        self.waits_longer_than = waits_longer_than
        self.notifiers = notifiers
        self.dm_meta_conn_id = dm_meta_conn_id

    def notify(self, context: Context) -> None:
        """Check the locks, and notify if one waits too long. Raises DmError, and the errors of the notifiers."""
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.ddl_locks import lock_json, lock_text, overdue_locks

        limit = self.waits_longer_than
        seconds = limit.total_seconds() if isinstance(limit, timedelta) else float(limit)
        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            locks = overdue_locks(store, self.task, seconds)
        if not locks:
            return
        text = "\n".join(f"{lock_text(lock, age)}; its owner's DDL: {', '.join(lock.ddls)}" for lock, age in locks)
        self.log.warning("%s", text)
        for notifier in self.notifiers or ():
            notifier({**context, LOCKS: [lock_json(lock, age) for lock, age in locks], TEXT: text})
