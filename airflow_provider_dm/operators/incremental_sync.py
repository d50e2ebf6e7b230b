"""The incremental sync of a DM task: what the sources' binlogs say, applied to the target exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.operators.base import DmSparkAppOperator

if TYPE_CHECKING:
    from airflow_provider_dm.operators.inputs import Document


class DmIncrementalSyncOperator(DmSparkAppOperator):
    """An operator that applies the changes of a task's sources to its target, from the checkpoint on.

    The checkpoint is in the target and moves with the rows; there is nothing to configure for a restart. A relay runs
    beside the sync for every source whose relay log nobody else writes (see
    :class:`~airflow_provider_dm.operators.relay.DmRelayOperator`).

    :param until: ``"caught-up"`` (to where the sources' binlogs end when the app starts), ``"forever"``, or a location
        ``FILE:POSITION`` (templated)

    Where nothing else is left to do than to wait for the DDL that other shards of a merged table have not made, the
    task succeeds with the status ``waiting for lock``. Rows are held back then, and the next run goes on;
    :class:`~airflow_provider_dm.sensors.shard_ddl.ShardDdlLockSensor` waits until none are.

    Other arguments: see :class:`~airflow_provider_dm.operators.base.DmTaskOperator` and
    :class:`~airflow_provider_dm.operators.base.DmSparkAppOperator`.

    Returns ``{"status", "changes_applied", "transactions", "seconds", "unresolved_groups", "sources": {source-id:
    {"location", …}}, "dm_run_id"}``; ``status`` is ``finished`` or ``waiting for lock``.
    """

    app = "incremental_sync"
    template_fields: Sequence[str] = (*DmSparkAppOperator.template_fields, "until")

    def __init__(
        self,
        *,
        task: Document,
        until: str = "caught-up",
        sources: Sequence[Document] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str = "1g",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            task=task,
            sources=sources,
            source_conn_ids=source_conn_ids,
            target_conn_id=target_conn_id,
            dm_meta_conn_id=dm_meta_conn_id,
            spark_conn_id=spark_conn_id,
            spark_conf=spark_conf,
            driver_memory=driver_memory,
            **kwargs,
        )
        self.until = until

    def accept(self, result: dict[str, Any]) -> dict[str, Any]:
        """Say for what the sync waits, if it does."""
        for source, groups in result.get("unresolved_groups", {}).items():
            for one in groups:
                self.log.warning(
                    "%s: %s holds rows of %s back: %s", result["status"], source, one["target"], one["waits"]
                )
        return result
