"""Plans chunks: how the tables of a source are divided for a copy. Pure: sizes in, chunks out.

A chunk is a unit of work with recorded progress: a range of the first column of the identity key (integers, computed
from MIN and MAX), or a whole table. The first chunk has no lower and the last no upper limit, so together they cover
every row, also rows inserted later. Ranges may have very different numbers of rows; that affects balance but not
correctness, so no scan is made to plan better ranges. Within a chunk rows are paged by key; each free reader takes the
next chunk.

The estimate of rows comes from the server's statistics and may be far off, or zero just after a load. It decides only
the number of chunks, never what is copied. A table with a wide range of key values counts as having at least
SMALLEST_CHUNK_ROWS for each slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.mysql.identifiers import TableName

SMALLEST_CHUNK_ROWS: Final = 25_000
CHUNKS_PER_SLOT: Final = 16
"""Many, so that little work is left for the last slot while the others are idle."""
MOST_CHUNKS: Final = 256
"""The maximum number of chunks of one table: each is a row in dm_copy_chunk."""

Range = tuple[int | None, int | None]


@dataclass(frozen=True)
class TableSize:
    """The size of a table before it is copied. `span`: MIN and MAX of the first key column, None if that column is not
    an integer or the table is empty; `rows` is an estimate."""

    table: TableName
    rows: int
    span: tuple[int, int] | None = None


def plan_chunks(sizes: Iterable[TableSize], *, slots: int, chunk_rows: int | None = None) -> list[ChunkProgress]:
    """Cut a source into chunks without progress. `slots`: concurrent readers; `chunk_rows`: DM's `mydumpers.rows`.

    >>> size = TableSize(TableName("a", "t"), rows=30, span=(1, 40))
    >>> [(chunk.low, chunk.high) for chunk in plan_chunks([size], slots=1, chunk_rows=10)]
    [(None, 10), (11, 20), (21, 30), (31, None)]
    """
    ranges = [(size.table, low, high) for size in sizes for low, high in _ranges(size, slots, chunk_rows)]
    return [ChunkProgress(number, table, low, high) for number, (table, low, high) in enumerate(ranges)]


def _ranges(size: TableSize, slots: int, chunk_rows: int | None) -> list[Range]:
    if size.span is None:
        return [(None, None)]
    low, high = size.span
    width = high - low + 1
    likely_rows = min(width, max(size.rows, SMALLEST_CHUNK_ROWS * slots))
    wanted_rows = chunk_rows or max(SMALLEST_CHUNK_ROWS, likely_rows // (slots * CHUNKS_PER_SLOT))
    count = max(1, min(MOST_CHUNKS, -(-likely_rows // wanted_rows), width))
    edges = [low + width * number // count for number in range(1, count)]
    starts, ends = [None, *edges], [*(edge - 1 for edge in edges), None]
    return list(zip(starts, ends, strict=True))
