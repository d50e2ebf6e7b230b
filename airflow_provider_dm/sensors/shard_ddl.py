"""A sensor that waits until the shards of merged tables have agreed on their DDL and the target has executed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dm.sensors.base import MetadataSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.operators.inputs import Document
    from airflow_provider_dm.triggers.base import AwaitTrigger

LOCKS_KEY: Final = "dm_ddl_locks"
"""XCom with the unresolved locks when the sensor has failed, in the format of `dmctl shard-ddl-lock`."""
LONGEST_DDL: Final = 2000
"""Characters of one statement in an XCom."""


class ShardDdlDiffers(AirflowFailException):
    """Shards have executed different DDL: a user has to decide, and a retry would fail in the same way."""


class ShardDdlLockSensor(MetadataSensor):
    """A sensor that waits until no DDL of a task's merged tables, or the DDL of one lock, is unresolved.

    A DDL is resolved when all shards of all sources have executed it, the target has executed it, and every source has
    applied its held-back rows. Meanwhile the log shows the missing shards or sources, and for how long. The sensor
    resolves nothing: a sync of the task must run at the same time or afterwards (a sync with ``caught-up`` ends
    meanwhile with the status ``waiting for lock``). While deferred, it uses no worker slot.

    If the sync of the task has not reported to the metadata DB yet, the sensor waits for its report.

    :param task: name of the task, path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param lock_id: the one lock to wait for, an ID that ``dmctl shard-ddl-lock`` shows; None: all locks of the task
    :param fail_on_conflict: fail at once, without a retry, when sources have executed different DDL, or a source has
        executed DDL out of order; both sides are in the message, and the locks in the XCom ``dm_ddl_locks``, as after a
        timeout
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too; not used with
        ``outlets``, which only a worker handles
    :param poke_interval: seconds between two polls
    """

    broken = ShardDdlDiffers
    template_fields: Sequence[str] = ("task", "lock_id", "dm_meta_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json"}

    def __init__(
        self,
        *,
        task: Document | None = None,
        lock_id: str | None = None,
        fail_on_conflict: bool = True,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.task = task
        self.lock_id = lock_id
        self.fail_on_conflict = fail_on_conflict

    def _page_parameters(self, context: Context) -> dict[str, str]:
        task = self._task_name(context) or str(self.lock_id).partition("-`")[0]
        return {"task": task}

    def _trigger(self, context: Context, **common: Any) -> AwaitTrigger:
        from airflow_provider_dm.triggers.shard_ddl import ShardDdlLockTrigger

        return ShardDdlLockTrigger(
            task_name=self._task_name(context),
            lock_id=self.lock_id or None,
            fail_on_conflict=self.fail_on_conflict,
            **common,
        )

    def _before_failure(self, context: Context, locks: Sequence[Mapping[str, Any]]) -> None:
        """Push the locks as XCom, so that later tasks can show them."""
        shown = [
            {
                **one,
                "DDLs": [_short(ddl) for ddl in one["DDLs"]],
                "conflict": {source: [_short(ddl) for ddl in ddls] for source, ddls in one["conflict"].items()},
            }
            for one in locks
        ]
        context["ti"].xcom_push(key=LOCKS_KEY, value=shown)

    def _task_name(self, context: Context) -> str | None:
        """Return the name of the task. Raises AirflowFailException, ConfigError, InvalidInput."""
        name = self._name_of(self.task, context) if self.task else None
        if name is None and not self.lock_id:
            raise AirflowFailException("the sensor has neither `task` nor `lock_id`: set one of them")
        if name is not None and self.lock_id and not self.lock_id.startswith(f"{name}-`"):
            raise AirflowFailException(
                f"the lock {self.lock_id} does not belong to task {name}: correct `lock_id` or `task`"
            )
        return name


def _short(ddl: str) -> str:
    return ddl if len(ddl) <= LONGEST_DDL else f"{ddl[:LONGEST_DDL]}…"
