"""The full migration of a DM task: copies every selected table of every source while the sources are written to."""

from __future__ import annotations

from airflow_provider_dm.operators.base import DmSparkAppOperator


class DmFullMigrationOperator(DmSparkAppOperator):
    """An operator that copies all rows of a task's tables from its sources into its target.

    The sources may be written to: snapshots are opened under a momentary read lock (docs/how-to/consistency.md), and
    between two rounds of copying the binlog is applied, DDL included. The operator is resumable: a retry, or the same
    task in a later DAG run, continues with the missing chunks; if all are done it returns at once. Relays run at the
    same time, so that no binlog is lost during the copy.

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

    An ``AssetAlias`` among the ``outlets`` gets an event of the asset of each target table, ``mysql://HOST:PORT/SCHEMA/
    TABLE``, with its source tables; OpenLineage gets the same tables as inputs and outputs.

    Returns ``{"rows", "seconds", "sources": {source-id: …}, "dm_run_id"}``.
    """

    app = "full_migration"
