"""A whole migration of one DM task as a task group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup

from airflow_provider_dm.operators.full_migration import DmFullMigrationOperator
from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.precheck import DmPrecheckOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator

if TYPE_CHECKING:
    from airflow_provider_dm.operators.inputs import Document


class DmMigrationTaskGroup(TaskGroup):
    """A task group that checks a task, copies its rows, applies what was written meanwhile, and compares every row.

    Its tasks are ``precheck``, ``full_migration``, ``incremental_sync`` and ``verify``, one after another. The
    comparison fails if a source is written to after the sync: stop the writes, or leave the comparison out.

    :param group_id: id of the group, which its tasks' ids begin with
    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param sources: source-ids, paths of ``source.yaml`` files, or dictionaries with their keys; None: all sources of
        the task
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param spark_conn_id: Airflow connection of type ``spark``; if it does not exist, ``[dm] spark_master`` is the
        master
    :param spark_conf: Spark configuration, which overrides the provider's own; it must not hold secrets
    :param driver_memory: memory of the Spark driver, as Spark writes sizes
    :param verify: compare every row at the end

    Other arguments are those of Airflow's ``TaskGroup``.
    """

    def __init__(
        self,
        group_id: str = "migration",
        *,
        task: Document,
        sources: Sequence[Document] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str = "1g",
        verify: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(group_id=group_id, **kwargs)
        common: dict[str, Any] = {
            "task": task,
            "sources": sources,
            "source_conn_ids": source_conn_ids,
            "target_conn_id": target_conn_id,
            "dm_meta_conn_id": dm_meta_conn_id,
        }
        spark = {
            **common,
            "spark_conn_id": spark_conn_id,
            "spark_conf": spark_conf,
            "driver_memory": driver_memory,
        }
        with self:
            precheck = DmPrecheckOperator(task_id="precheck", **common)
            copy = DmFullMigrationOperator(task_id="full_migration", **spark)
            sync = DmIncrementalSyncOperator(task_id="incremental_sync", until="caught-up", **spark)
            precheck >> copy >> sync
            if verify:
                sync >> DmVerifyOperator(task_id="verify", **spark)
