"""dm_copy_chunk: how far each chunk of a full load is copied, in the target, beside its rows.

A page of rows and the step of its chunk commit together or not at all. The step is a compare-and-set and the first
statement of the transaction: it locks the chunk, fences by generation, and refuses a page that was read from a state
which is no longer the stored one. A second attempt of the same work, a task that Spark started twice, a driver that
came back from the dead: each either continues from the stored key or ends.

What is compared is `rows_copied`. It grows with every page, so it tells states apart without comparing keys, whose
equality would be a matter of collations. `done` closes the chunk for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef

_TABLE: Final = "dm_copy_chunk"
_COLUMNS: Final = "chunk, source_schema, source_table, low, high, last_key, done, rows_copied"


@dataclass(frozen=True)
class ChunkProgress:
    """A chunk and how far it is. `low`, `high`: inclusive limits of the first key column, None is open.

    `last_key` is as reading.keyset writes it; None: no page yet."""

    number: int
    table: TableName
    low: int | None = None
    high: int | None = None
    last_key: str | None = None
    done: bool = False
    rows_copied: int = 0


def insert_chunks(connection: Connection, fence: Fence, chunks: Sequence[ChunkProgress]) -> None:
    """Write the plan of a new load, inside a transaction whose first statement has checked the generation."""
    ref = fence.ref
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s", ref.key)
    add_chunks(connection, fence, chunks)


def add_chunks(connection: Connection, fence: Fence, chunks: Sequence[ChunkProgress]) -> None:
    """Write the chunks of tables that are copied again, inside a transaction that has checked the generation.

    Their numbers are such as no chunk of this generation has had: whoever still has a page of one that is gone must not
    take another one for it.
    """
    ref = fence.ref
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {ref.table(_TABLE)} (task, source, chunk, source_schema, source_table, low, high, "
            "generation) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (*ref.key, one.number, *one.table, _digits(one.low), _digits(one.high), fence.generation)
                for one in chunks
            ],
        )


def renumber_chunks(connection: Connection, ref: SubtaskRef, numbers: Mapping[int, int]) -> None:
    """Give chunks other numbers, in a transaction that has checked the generation: whoever still has a page of one is
    refused. The new ones are as those of `add_chunks`.
    """
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {ref.table(_TABLE)} SET chunk = %s WHERE task = %s AND source = %s AND chunk = %s",
            [(new, *ref.key, old) for old, new in numbers.items()],
        )


def load_chunks(connection: Connection, ref: SubtaskRef) -> list[ChunkProgress]:
    """Return all chunks of a subtask by number; empty where no load was ever planned. Raises AnswerCut."""
    rows = query_whole(
        connection,
        _COLUMNS,
        f"FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s",
        ref.key,
        tail="ORDER BY chunk",
    )
    return [_progress(row) for row in rows]


def lock_chunks(connection: Connection, ref: SubtaskRef, table: TableName) -> list[ChunkProgress]:
    """Return a table's chunks as they stand, none of which moves until the transaction ends."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS} FROM {ref.table(_TABLE)} "
        "WHERE task = %s AND source = %s AND source_schema = %s AND source_table = %s FOR UPDATE",
        (*ref.key, *table),
    )
    return [_progress(row) for row in rows]


def rename_chunks(connection: Connection, ref: SubtaskRef, old: TableName, new: TableName) -> None:
    """Let, in a transaction that has checked the generation, the chunks of a table be those of its new name."""
    query(
        connection,
        f"UPDATE {ref.table(_TABLE)} SET source_schema = %s, source_table = %s "
        "WHERE task = %s AND source = %s AND source_schema = %s AND source_table = %s",
        (*new, *ref.key, *old),
    )


def forget_chunks(connection: Connection, ref: SubtaskRef, table: TableName) -> None:
    """Remove, in a transaction that has checked the generation, the chunks of a table that is gone at the source."""
    query(
        connection,
        f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND source_schema = %s AND source_table = %s",
        (*ref.key, *table),
    )


def load_chunk(connection: Connection, fence: Fence, number: int) -> ChunkProgress:
    """Return one chunk as it stands. Raises Fenced or TargetWentBack when it is another generation's, or nobody's."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS}, generation FROM {fence.ref.table(_TABLE)} WHERE task = %s AND source = %s AND chunk = %s",
        (*fence.ref.key, number),
    )
    found = int(rows[0][-1]) if rows else 0
    if found != fence.generation:
        raise fence.refused(found)
    return _progress(rows[0][:-1])


def advance_chunk(
    connection: Connection, fence: Fence, seen: ChunkProgress, *, rows: int, last_key: str | None, done: bool
) -> bool:
    """Advance a chunk from the state `seen` on by `rows` rows: the first statement of a page's transaction.

    False: the chunk no longer stands there, so this page must not be written. Raises Fenced or TargetWentBack.
    """
    with connection.cursor() as cursor:
        matched = cursor.execute(
            f"UPDATE {fence.ref.table(_TABLE)} SET last_key = %s, done = %s, rows_copied = rows_copied + %s "
            "WHERE task = %s AND source = %s AND chunk = %s AND generation = %s AND done = 0 AND rows_copied = %s",
            (
                *(last_key, int(done), rows),
                *(*fence.ref.key, seen.number, fence.generation, seen.rows_copied),
            ),
        )
    if matched == 1:
        return True
    load_chunk(connection, fence, seen.number)
    return False


def count_chunk_rows(connection: Connection, ref: SubtaskRef, number: int, rows: int) -> None:
    """Set how many rows a chunk turned out to be, later in a transaction that has advanced it with `rows=0`."""
    query(
        connection,
        f"UPDATE {ref.table(_TABLE)} SET rows_copied = %s WHERE task = %s AND source = %s AND chunk = %s",
        (rows, *ref.key, number),
    )


def _progress(row: tuple[Any, ...]) -> ChunkProgress:
    number, schema, table, low, high, last_key, done, rows_copied = row
    return ChunkProgress(
        int(number),
        TableName(text(schema), text(table)),
        None if low is None else int(low),
        None if high is None else int(high),
        None if last_key is None else text(last_key),
        bool(done),
        int(rows_copied),
    )


def _digits(bound: int | None) -> bytes | None:
    return None if bound is None else b"%d" % bound
