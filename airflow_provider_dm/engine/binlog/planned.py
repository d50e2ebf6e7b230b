"""What a plan is (planner.py): an epoch of complete transactions as byte ranges, or a DDL statement, or nothing.

Ranges are decoded apart from each other, so each names every table that it has rows of. A range starts at a transaction
or, where one is larger than a range, at a seam inside it: behind the last rows event of a statement (its flag says so),
as the next statement names its tables anew. What is not cut is a statement and a compressed transaction. An epoch
always ends with a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.session_variables import Session
from airflow_provider_dm.engine.binlog.transaction import Seam
from airflow_provider_dm.engine.binlog.window import MemoryWindow, Window
from airflow_provider_dm.engine.binlog.xa import Prepared
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class ByteRange:
    """Bytes `start` to `end` of a file, to be decoded without anything before them: whole transactions, or statements.

    `data`: those bytes, where they travel with the range; else they are read from `path`. `inside`: `start` is a seam,
    the first rows belong to a transaction that began before. `closes`: where the last transaction ends when that is
    behind `end`, which then is a seam; 0 when `end` is a boundary. There is no boundary between `end` and `closes`.
    `counts_at`: the sort key of the place where these rows count, if that is another one: the commit of a prepared
    transaction.
    """

    path: str
    file: str
    suffix: int
    start: int
    end: int
    format: BinlogFormat
    data: bytes | None = None
    inside: bool = False
    closes: int = 0
    counts_at: str = ""

    @property
    def last_boundary(self) -> int:
        """The place where the last transaction of the range ends, in it or behind it."""
        return self.closes or self.end

    @contextmanager
    def opened(self) -> Iterator[Window | MemoryWindow]:
        """Open the bytes, to be read at their places in the file."""
        if self.data is not None:
            yield MemoryWindow(self.data, self.start)
            return
        with Window(self.path, self.end) as window:
            yield window

    def cut(self, seams: Sequence[Seam]) -> tuple[ByteRange, ...]:
        """Return the same bytes as several ranges, cut at those of these seams that lie inside it."""
        closes = {seam.position: seam.closes for seam in seams if self.start < seam.position < self.end}
        return tuple(
            replace(self, start=start, end=end, inside=start in closes, closes=closes.get(end, 0))
            for start, end in pairwise((self.start, *closes, self.end))
        )


@dataclass(frozen=True)
class Epoch:
    """Transactions between two locations. `newest_timestamp`: seconds since 1970, of the newest commit in it.

    `bytes`: of its ranges and between them; `unpacked`: how many more they are without compression. `prepared`: what is
    prepared and has not ended at `hi`; None: what was so at `lo`.
    """

    lo: Location
    hi: Location
    ranges: tuple[ByteRange, ...]
    transactions: int
    bytes: int
    newest_timestamp: int
    prepared: tuple[Prepared, ...] | None = None
    unpacked: int = 0

    @property
    def size(self) -> int:
        """The bytes that applying it has to hold: those of the log, without compression."""
        return self.bytes + self.unpacked


@dataclass(frozen=True)
class DdlStatement:
    """A statement that is not about rows. `at` is where its transaction begins, `end` where it ends.

    `sql`: with UNSURE (client_charsets) for characters that are not known.
    `undecoded`: the statement's bytes, where its charset could not be read; `sql` is then only for people.
    `rows`: its transaction, if that holds rows as well, maybe of other tables (CREATE TABLE … SELECT, or DROP TEMPORARY
    TABLE between changes): executing it, or passing over it, is not all of it. `seams`: where `rows` may be cut.
    `session`: what the statement ran with, as far as its event says.
    """

    at: Location
    end: Location
    schema: str
    sql: str
    timestamp: int
    undecoded: bytes | None = None
    rows: ByteRange | None = None
    sql_mode: int = 0
    session: Session = field(default_factory=Session)
    seams: tuple[Seam, ...] = ()

    def rows_epoch(self) -> Epoch | None:
        """Return the rows of its transaction, to be applied like any others; None where it has none."""
        if self.rows is None:
            return None
        size = self.rows.end - self.rows.start
        return Epoch(self.at, self.end, self.rows.cut(self.seams), 1, size, self.timestamp)


@dataclass(frozen=True)
class UpToDate:
    """Nothing complete lies behind `at`, which may be past `lo` by events that change nothing."""

    at: Location


Planned: TypeAlias = Epoch | DdlStatement | UpToDate
