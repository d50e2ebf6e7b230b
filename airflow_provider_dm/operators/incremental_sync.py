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

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys (str | dict,
        required, templated)
    :param until: ``"caught-up"``: up to where the sources' binlogs end when the run starts; ``"forever"``; or a
        location ``FILE:POSITION`` (str, default 'caught-up', templated)
    :param sources: source-ids, paths of ``source.yaml`` files, or dictionaries with their keys; None: all sources of
        the task (list[str | dict] | None, default None, templated)
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id (dict[str, str]
        | None, default None, templated)
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task (str | None, default
        None, templated)
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, default
        None, templated)
    :param spark_conn_id: Airflow connection of type ``spark``; ``[dm] spark_master`` is the master where it does not
        exist (str, default 'spark_default', templated)
    :param spark_conf: Spark configuration, which goes before the provider's own; it must not hold secrets (dict[str,
        str] | None, default None, templated)
    :param driver_memory: memory of the Spark driver, as Spark writes sizes (str, default '1g', templated)

    Where nothing else is left to do than to wait for the DDL that other shards of a merged table have not made, the
    task succeeds with the status ``waiting for lock``. Rows are held back then, and the next run goes on;
    :class:`~airflow_provider_dm.sensors.shard_ddl.ShardDdlLockSensor` waits until none are.

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
