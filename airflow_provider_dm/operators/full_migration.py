"""The full migration of a DM task: every chosen table of every source, copied into the target while writes go on."""

from __future__ import annotations

from airflow_provider_dm.operators.base import DmSparkAppOperator


class DmFullMigrationOperator(DmSparkAppOperator):
    """An operator that copies all rows of a task's tables from its sources into its target.

    No table is locked, and writes may go on: the copy remembers from which binlog location on the incremental sync has
    to follow. It is resumable: a retry, or the same task in a later DAG run, goes on with the chunks that are missing;
    when all are done it returns at once. Relays run beside it, so that no binlog is lost while it copies.

    Arguments: see :class:`~airflow_provider_dm.operators.base.DmTaskOperator` and
    :class:`~airflow_provider_dm.operators.base.DmSparkAppOperator`.

    Returns ``{"rows", "seconds", "sources": {source-id: …}, "dm_run_id"}``.
    """

    app = "full_migration"
