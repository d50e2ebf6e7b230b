"""The chunks of a load after a DDL statement that drops, renames or alters tables.

Coverage follows the table's name, and ends with the table. If the key by which a table is copied changes, its covered
rows cannot be expressed by the new key: an unmerged target table is emptied and copied again, in one chunk. A merged
table cannot be emptied, as it has rows of others. A key whose columns become larger integers keeps its order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.keyset import INTEGERS, KeyOrder
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, Coverage, coverages
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.errors import CannotFollow


@dataclass(frozen=True)
class ChunksAfter:
    """The chunks after a statement. `reset`: the tables whose chunks are replaced by a new one. `emptied`: the target
    tables to be truncated, after the statement's own statements, so that rows are kept if the target rejects those.
    """

    chunks: tuple[ChunkProgress, ...]
    reset: tuple[TableName, ...] = ()
    emptied: tuple[TableName, ...] = ()


def chunks_after(
    chunks: Sequence[ChunkProgress], before: SubtaskTables, change: SchemaChange, shared: Collection[TableName]
) -> ChunksAfter:
    """Return the chunks of a subtask after a statement. `shared`: target tables with rows of several source tables.

    Raises CannotFollow for a shard whose key changes while it is copied in part.
    """
    if not chunks:
        return ChunksAfter(())
    covered = coverages(chunks)
    names = _names(covered, change)
    reset: dict[TableName, Coverage] = {}
    for old, new in names.items():
        was, now = before.schema(old), change.tables.schema(new)
        if (
            was is not None
            and now is not None
            and covered[old] is not ALL
            and copied_by(was.table) != copied_by(now.table)
        ):
            reset[new] = covered[old]
    begun = {name for name, was in reset.items() if was is not NONE}
    emptied = tuple(schema.target for schema in change.tables.schemas if schema.table.name in begun)
    for target in emptied:
        if target in shared:
            raise CannotFollow(
                f"it changes the key of a table that is copied in part into {target}, which has other rows as well. "
                "Migrate this target table again, with another task, into an empty table"
            )
    kept = [replace(chunk, table=names[chunk.table]) for chunk in chunks if chunk.table in names]
    last = max(chunk.number for chunk in chunks)
    fresh = [ChunkProgress(last + 1 + index, name) for index, name in enumerate(sorted(reset))]
    return ChunksAfter((*(chunk for chunk in kept if chunk.table not in reset), *fresh), tuple(sorted(reset)), emptied)


def _names(tables: Iterable[TableName], change: SchemaChange) -> dict[TableName, TableName]:
    """Return the new names of the tables that still exist after the statement, by old name."""
    now = {name: name for name in tables if name not in change.ended}
    for old, new in change.renamed:
        now = {first: new if last == old else last for first, last in now.items()}
    return now


def copied_by(table: Table) -> object:
    """Return a value that is equal for tables whose rows have the same key and key order; None: no usable key."""
    order = KeyOrder.of(table)
    if order is None:
        return None
    return [(column.name.lower(), *_type(column)) for column in order.columns]


def _type(column: Column) -> tuple[str, str | None]:
    return "integer" if column.data_type.lower() in INTEGERS else column.column_type, column.collation
