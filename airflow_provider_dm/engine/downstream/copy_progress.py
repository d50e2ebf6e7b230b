"""dm_copy_chunk: the progress of each chunk of a full load, in the target, with its rows.

A page of rows and the progress of its chunk commit together or not at all. The progress is a compare-and-set and the
first statement of the transaction: it locks the chunk, checks the generation, and refuses a page that was read from a
state which is no longer the stored one. A second attempt of the same work, a task that Spark started twice, a driver
that was suspended for a time: each either continues from the stored key or ends.

The compared value is `rows_copied`. It grows with every page, so it identifies states without comparing keys, whose
equality depends on collations. `done` closes the chunk permanently. `round` refuses a page of a closed round
(rounds.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows, name_of
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName

CHUNKS: Final = MetaRows("dm_copy_chunk")
OF_SOURCE_TABLE: Final = "source_schema = %s AND source_table = %s"
_COLUMNS: Final = "chunk, source_schema, source_table, low, high, last_key, done, rows_copied, round, birth"


@dataclass(frozen=True)
class ChunkProgress:
    """A chunk and its progress. `low`, `high`: inclusive bounds of the first key column, None is unbounded.

    `last_key`: in the format of reading.keyset; None: no page yet."""

    number: int
    table: TableName
    low: int | None = None
    high: int | None = None
    last_key: str | None = None
    done: bool = False
    rows_copied: int = 0
    round: int = 0
    """The round in which pages may be written (rounds.py); 0: none."""
    birth: str = ""
    """The identity of its table in that round."""

    @property
    def is_unresumable(self) -> bool:
        """True if it has rows but no key to continue from (copy/keyless.py): it is being copied, or has to restart."""
        return not self.done and self.last_key is None and self.rows_copied > 0


def insert_chunks(connection: Connection, fence: Fence, chunks: Sequence[ChunkProgress]) -> None:
    """Write the plan of a new load, inside a transaction whose first statement has checked the generation."""
    CHUNKS.delete(connection, fence.ref)
    add_chunks(connection, fence, chunks)


def add_chunks(connection: Connection, fence: Fence, chunks: Sequence[ChunkProgress]) -> None:
    """Write the chunks of tables that are copied again, inside a transaction that has checked the generation.

    Their numbers are new in this generation: a task that still holds a page of a removed chunk must not write it to
    another one.
    """
    columns = "chunk, source_schema, source_table, low, high, generation"
    rows = [(chunk.number, *chunk.table, _digits(chunk.low), _digits(chunk.high), fence.generation) for chunk in chunks]
    CHUNKS.put(connection, fence.ref, columns, rows, verb="INSERT")


def load_chunks(connection: Connection, ref: SubtaskRef) -> list[ChunkProgress]:
    """Return all chunks of a subtask by number; empty if no load was planned. Raises IncompleteResult."""
    return [_progress(row) for row in CHUNKS.read(connection, ref, _COLUMNS, tail="ORDER BY chunk")]


def rename_chunks(connection: Connection, ref: SubtaskRef, old: TableName, new: TableName) -> None:
    """Change the table of chunks to its new name, in a transaction that has checked the generation."""
    CHUNKS.update(connection, ref, "source_schema = %s, source_table = %s", new, OF_SOURCE_TABLE, old)


def forget_chunks(connection: Connection, ref: SubtaskRef, table: TableName) -> None:
    """Remove the chunks of a table that was dropped at the source, in a transaction that has checked the generation."""
    CHUNKS.delete(connection, ref, OF_SOURCE_TABLE, table)


def load_chunk(connection: Connection, fence: Fence, known: ChunkProgress) -> ChunkProgress:
    """Return the current state of a chunk. If DDL has removed it with its table, it is in no round.

    Raises Fenced or TargetWentBack if the subtask has another generation.
    """
    rows = CHUNKS.select(connection, fence.ref, f"{_COLUMNS}, generation", "chunk = %s", (known.number,))
    if not rows:
        fence.check(connection)
        return replace(known, round=0)
    found = int(rows[0][-1])
    if found != fence.generation:
        raise fence.refused(found)
    return _progress(rows[0][:-1])


def advance_chunk(
    connection: Connection, fence: Fence, seen: ChunkProgress, *, rows: int, last_key: str | None, done: bool
) -> bool:
    """Advance a chunk from the state `seen` by `rows` rows: the first statement of a page's transaction.

    Return False if the chunk has another state: then the page must not be written. Raises Fenced or TargetWentBack.
    """
    matched = CHUNKS.update(
        connection,
        fence.ref,
        "last_key = %s, done = %s, rows_copied = rows_copied + %s",
        (last_key, int(done), rows),
        "chunk = %s AND generation = %s AND done = 0 AND round = %s AND rows_copied = %s",
        (seen.number, fence.generation, seen.round, seen.rows_copied),
    )
    if matched == 1:
        return True
    load_chunk(connection, fence, seen)
    return False


def count_chunk_rows(connection: Connection, ref: SubtaskRef, number: int, rows: int) -> None:
    """Set the number of a chunk's rows, later in a transaction that has advanced it with `rows=0`."""
    CHUNKS.update(connection, ref, "rows_copied = %s", (rows,), "chunk = %s", (number,))


def _progress(row: tuple[Any, ...]) -> ChunkProgress:
    number, schema, table, low, high, last_key, done, rows_copied, of_round, birth = row
    return ChunkProgress(
        int(number),
        name_of(schema, table),
        None if low is None else int(low),
        None if high is None else int(high),
        None if last_key is None else text(last_key),
        bool(done),
        int(rows_copied),
        int(of_round),
        text(birth),
    )


def _digits(bound: int | None) -> bytes | None:
    return None if bound is None else b"%d" % bound
