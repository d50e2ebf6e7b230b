"""Errors of a comparison, and its results that are not equality."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DownstreamError, Reaction, UpstreamError


class DataDiffers(DownstreamError):
    """At least one target table has other rows than its source tables. The run's result has their keys."""

    tables: tuple[str, ...]
    """`schema.table (rows in sources / rows in target)`."""

    code = "DM-7201"
    what = "the target differs from its sources in: {tables}."
    hint = (
        "If nothing was written meanwhile and all changes were applied, `dmctl run --json`, and `result` of this run "
        "in the metadata DB (table dm_run), list the keys of rows that differ."
    )


class ComparedTableMissing(DownstreamError):
    target: str

    code = "DM-7202"
    what = "the target table {target} does not exist."
    hint = "Run the full migration first."


class SourceAltered(UpstreamError):
    reason: str

    code = "DM-7203"
    reaction = Reaction.RETRY
    what = "tables were altered during the comparison: {reason}"
    hint = "Compare again when no DDL is under way and the sync has caught up."


class RowsHeldBack(UpstreamError):
    tables: tuple[str, ...]
    """`schema.table (DDL lock)`."""

    code = "DM-7204"
    what = "rows are held back by DDL locks, and these tables are not compared: {tables}. No other table differs."
    hint = "`dmctl shard-ddl-lock TASK` lists the missing shards; compare again after the lock is resolved."
