"""The errors of tables that take the rows of several source tables."""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.errors import Reaction, UpstreamError

_ROWS_WAIT: Final = (
    "{rows} rows of {source} wait for their keys in merged tables, as rows of other source tables hold them:"
)


class TooManyContested(UpstreamError):
    """Too many rows wait for keys that rows of other source tables hold."""

    source: str
    table: str
    target: str
    most: int

    code = "DM-6023"
    reaction = Reaction.RETRY
    what = (
        "{source}: more than {most} rows of {table} wait, because {target} has rows of other source tables with the "
        "same keys."
    )
    hint = (
        "If rows were moved between the tables, let the other sources catch up first. If the tables share keys, make "
        "the keys distinct, or route to different tables."
    )


class RowsCollide(UpstreamError):
    """Two source tables have rows that cannot both be in the target. The message has their key, to find the rows."""

    source: str
    table: str
    other_source: str
    other_table: str
    target: str
    key: str
    columns: tuple[str, ...]
    values: tuple[str, ...]

    code = "DM-6027"
    what = (
        "{source} has rows in {table}, and {other_source} in {other_table}, that share values of the unique key {key} "
        "({columns}) of their target table {target}: {values}. The rows of {source} wait; nothing was overwritten."
    )
    hint = (
        "Delete or renumber one of the two rows at its source (then resume), give the target table another key, or "
        "route the two tables to different target tables. If rows are meant to overwrite each other, set `safe-mode: "
        "true` in the syncers of all sources of the table."
    )


class OtherSourcesNeeded(UpstreamError):
    """A source whose log may free the keys is not part of this run."""

    source: str
    rows: int

    code = "DM-6029"
    reaction = Reaction.RETRY
    what = (
        f"{_ROWS_WAIT} a source that may have them is not part of this run, or its table now lacks a column of the key."
    )
    hint = "They are in dm_contested_row and nothing is lost. Run the task with all sources of the merged tables."


class RowWaitsForHeldRow(UpstreamError):
    """Two rows of shards need one key; one shard is held at a DDL, and the DDL waits for the other row."""

    source: str
    rows: int
    table: str
    row: str
    target: str
    holder: str
    held: str

    code = "DM-6057"
    what = (
        "{rows} rows of {source} wait for their keys in merged tables, among them the row {row} of {table}, whose "
        "unique value the row {holder} of {target} has. Rows of {held} are held until all shards have executed a DDL, "
        "probably including the event that frees the key, and the DDL waits for the waiting rows."
    )
    hint = (
        "Nothing is lost. 1. Keep a copy of each waiting row of {table}, and delete it at {source}. 2. Execute the DDL "
        "on the remaining shards, and resume the task until `dmctl shard-ddl-lock` lists no lock of {target}. 3. "
        "Insert the rows again at {source}. If the DDL changes the key and {table} has already executed it, step 1 is "
        "too late: load the tables again, as another task."
    )


class WrittenDuringCopy(UpstreamError):
    """Rows were written while task-mode `full` copied; without a log the waiting rows cannot get their keys."""

    source: str
    rows: int

    code = "DM-7021"
    what = f"{_ROWS_WAIT} rows were moved between the source tables or deleted there while they were copied."
    hint = (
        "Use task-mode all for sources with concurrent writes, or stop the writes, empty the target tables and copy "
        "again under another task name."
    )


class ColumnDropped(Exception):
    """A source table lacks a column of the queried values: it has executed a DDL for which others wait."""
