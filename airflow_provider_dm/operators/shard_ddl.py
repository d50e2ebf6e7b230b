"""A user's decision about DDL on which the shards of a merged table do not agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context


class DmShardDdlLockOperator(DmOperator):
    """An operator that decides about a DDL lock, as ``dmctl shard-ddl-lock unlock`` does.

    The decision is stored; the sync of the lock's owner carries it out when it next reads the lock, or in its next run.
    If several DDL are pending for one merged table, the decision applies to the oldest. If the lock does not exist any
    more, its DDL has been executed, or another DDL than ``number`` is the oldest, the task fails without a retry.

    :param lock_id: the lock, as ``dmctl shard-ddl-lock`` and the XCom ``dm_ddl_locks`` of
        :class:`~airflow_provider_dm.sensors.shard_ddl.ShardDdlLockSensor` name it
    :param number: the lock's ``number``, of the DDL that was shown to the user who decides: all DDL of a table have the
        same id, so leave it out only if no other user can have decided since
    :param action: ``"exec"``: the target executes the DDL of the owner; ``"skip"``: you have made the change in the
        target yourself
    :param lock_owner: the source whose DDL is executed; None: the first source that reported
    :param force: decide even if a source has not reached the DDL
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns the lock with the decision: ``{"ID", "task", "owner", "DDLs", "synced", "unsynced", "number",
    "decision"}``.
    """

    template_fields: Sequence[str] = ("lock_id", "number", "action", "lock_owner", "dm_meta_conn_id")

    def __init__(
        self,
        *,
        lock_id: str,
        number: int | str | None = None,
        action: str = "exec",
        lock_owner: str | None = None,
        force: bool = False,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lock_id = lock_id
        self.number = number
        self.action = action
        self.lock_owner = lock_owner
        self.force = force
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Store the decision. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.shard.errors import LockRefuses
        from airflow_provider_dm.engine.shard.lock import Action
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.ddl_locks import lock_json, unlock

        with translated():
            push_dm_page(context, task=self.lock_id.partition("-`")[0])  # the id is TASK-`SCHEMA`.`TABLE`
            if self.action not in list(Action):
                raise LockRefuses(self.lock_id, f"{self.action!r} is neither exec nor skip")
            if self.number is not None and not str(self.number).isdecimal():
                raise LockRefuses(self.lock_id, f"{self.number!r} is not the number of a DDL")
            number = None if self.number is None else int(self.number)
            with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                action = Action(self.action)
                owner = self.lock_owner or None
                lock = unlock(store, self.lock_id, owner=owner, action=action, force=self.force, number=number)
        self.log.info("%s carries out %s when it next reads the lock, or in its next run", lock.owner, action.value)
        shown = lock_json(lock, 0.0)
        return {key: shown[key] for key in ("ID", "task", "owner", "DDLs", "synced", "unsynced", "number", "decision")}
