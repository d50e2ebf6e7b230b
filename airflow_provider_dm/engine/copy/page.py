"""One page of a chunk: the next rows in key order of a snapshot, limited in rows and in bytes.

A result with fewer rows than requested does not end the chunk: the rows after its last row are queried again, until a
result is empty. So a server that truncates results makes a copy slow, but no row is lost.

A page ends after `limit` rows, or when its rows exceed `most_bytes`: then the rest of the result is read and discarded,
because the snapshot ends with its connection. So the memory does not depend on the size of a table's rows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.row_statements import MAX_TRANSACTION_BYTES
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.blocks import RowBlock, blocks
from airflow_provider_dm.engine.reading.keyset import KeyOrder, PageKey, read_key, write_key
from airflow_provider_dm.engine.schema.codec import RowReader, row_reader
from airflow_provider_dm.engine.schema.model import Table

FIRST_ROWS: Final = 1_000
MOST_ROWS: Final = 20_000
PAGE_BYTES: Final = 4 << 20
"""The intended size of a page in bytes: one target transaction of some hundred milliseconds."""
PAGE_SECONDS: Final = 1.0
"""Longer transactions hold locks for longer, and lose more work after a failure."""
GROWTH: Final = 4.0


@dataclass(frozen=True)
class Page:
    """The cells of rows, and the key of the last row. `last`: the chunk has no further rows."""

    cells: Cells
    bytes: int
    last: bool
    last_key: str | None


@dataclass(frozen=True)
class PageReader:
    """Reads pages of a table in the order of its key, `order`."""

    table: Table
    order: KeyOrder
    columns: str
    to_row: RowReader

    @classmethod
    def of(cls, table: Table, order: KeyOrder) -> PageReader:
        return cls(table, order, *row_reader(table))

    def page(
        self, snapshot: Connection, progress: ChunkProgress, limit: int, most_bytes: int = MAX_TRANSACTION_BYTES
    ) -> Page:
        """Return the next rows of the chunk. Raises pymysql's errors."""
        after = None if progress.last_key is None else read_key(progress.last_key)
        found: list[Cells] = []
        rows = weight = 0
        while rows < limit and weight < most_bytes:
            before = rows
            with closing(self._behind(snapshot, after, progress, limit - before)) as some:
                for block in some:
                    if weight < most_bytes:
                        found.append(block.cells)
                        rows += len(block.cells)
                        weight += block.bytes
            if rows == before:
                return self._made(found, weight, last=True)
            after = self._last_key(found)
        return self._made(found, weight, last=False)

    def _behind(
        self, snapshot: Connection, after: PageKey | None, progress: ChunkProgress, limit: int
    ) -> Generator[RowBlock, None, None]:
        """Yield the rows after a key: the result of the first condition that returns rows."""
        for step in self.order.steps(after, progress.low, progress.high):
            with closing(self._select(snapshot, step, limit)) as some:
                first = next(some, None)
                if first is not None:
                    yield first
                    yield from some
                    return

    def _select(self, snapshot: Connection, condition: bytes, limit: int) -> Generator[RowBlock, None, None]:
        sql = b"SELECT %b FROM %b %b WHERE %b ORDER BY %b LIMIT %d" % (
            *(self.columns.encode(), self.table.name.quoted().encode(), self.order.hint().encode(), condition),
            *(self.order.order_by().encode(), limit),
        )
        return blocks(snapshot, sql, self.to_row)

    def _made(self, cells: list[Cells], weight: int, *, last: bool) -> Page:
        if not cells:
            return Page(Cells.none(len(self.table.columns)), weight, last, None)
        return Page(Cells.joined(cells), weight, last, write_key(self._last_key(cells)))

    def _last_key(self, found: list[Cells]) -> PageKey:
        cells = found[-1]
        (row,) = cells.some_rows(np.array([len(cells) - 1]))
        return tuple(row[position] or b"" for position in self.order.positions)


@dataclass(frozen=True)
class PageSizes:
    """The page size, in rows, of each table, as one reader has learned it from previous pages."""

    _rows: dict[TableName, int] = field(default_factory=dict)

    def rows(self, table: TableName) -> int:
        return self._rows.get(table, FIRST_ROWS)

    def learn(self, table: TableName, page: Page, seconds: float, most_bytes: int) -> None:
        """Update the page size by the bytes of a page and the time to read and write it.

        >>> sizes, table = PageSizes(), TableName("shop", "orders")
        >>> page = Page(Cells.of([(b"1",)] * 1000), 100_000, last=False, last_key=None)
        >>> sizes.learn(table, page, seconds=0.05, most_bytes=PAGE_BYTES)
        >>> sizes.rows(table)
        4000
        """
        if not len(page.cells):
            return
        room = min(min(PAGE_BYTES, most_bytes) / max(page.bytes, 1), PAGE_SECONDS / max(seconds, 0.001), GROWTH)
        self._rows[table] = max(1, min(MOST_ROWS, int(len(page.cells) * room)))
