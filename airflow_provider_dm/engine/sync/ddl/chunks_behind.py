"""The chunks of a load behind a DDL statement: what it leaves covered of the tables that it drops, renames or alters.

Coverage belongs to the table's name, and ends with the table. If the key changes by which a table is copied, the
covered rows cannot be expressed by the new key: an unmerged target table is emptied and copied again, in one chunk.
That is not possible in a merged table, which has rows of others. A key whose columns become larger integers keeps its
order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.keyset import INTEGERS, KeyOrder
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, Coverage, coverages
from airflow_provider_dm.engine.sync.ddl.subtask_tables import CannotFollow, SchemaChange, SubtaskTables


@dataclass(frozen=True)
class ChunksBehind:
    """The chunks behind a statement. `reset`: the tables that have a new one; `emptied`: the target tables that are to
    be emptied behind its statements: should one of these be refused, its rows are still there.
    """

    chunks: tuple[ChunkProgress, ...]
    reset: tuple[TableName, ...] = ()
    emptied: tuple[TableName, ...] = ()


def chunks_behind(
    chunks: Sequence[ChunkProgress], before: SubtaskTables, change: SchemaChange, shared: Collection[TableName]
) -> ChunksBehind:
    """Return the chunks of a subtask behind a statement. `shared`: target tables that other source tables feed as well.

    Raises CannotFollow for a table of a merged one whose key changes while some of its rows are copied.
    """
    if not chunks:
        return ChunksBehind(())
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
    emptied = tuple(one.target for one in change.tables.schemas if one.table.name in begun)
    for target in emptied:
        if target in shared:
            raise CannotFollow(
                f"it changes the key of a table that is copied in part into {target}, which has other rows as well. "
                "Migrate this target table again, with another task, into an empty table"
            )
    kept = [replace(one, table=names[one.table]) for one in chunks if one.table in names]
    last = max(one.number for one in chunks)
    anew = [ChunkProgress(last + 1 + place, name) for place, name in enumerate(sorted(reset))]
    return ChunksBehind((*(one for one in kept if one.table not in reset), *anew), tuple(sorted(reset)), emptied)


def _names(tables: Iterable[TableName], change: SchemaChange) -> dict[TableName, TableName]:
    """Return the tables that are there behind the statement, with their new names."""
    now = {name: name for name in tables if name not in change.ended}
    for old, new in change.renamed:
        now = {first: new if last == old else last for first, last in now.items()}
    return now


def copied_by(table: Table) -> object:
    """Return the order and the identity of a table's rows; None if they cannot be copied in such an order."""
    order = KeyOrder.of(table)
    if order is None:
        return None
    return [(column.name.lower(), *_type(column)) for column in order.columns]


def _type(column: Column) -> tuple[str, str | None]:
    return "integer" if column.data_type.lower() in INTEGERS else column.column_type, column.collation
