"""The result of a plan (planner.py): an epoch of complete transactions as byte ranges, a DDL statement, or nothing.

Ranges are decoded independently, so each names all tables of its rows. A range begins at a transaction or, if one is
larger than a range, at a seam inside it: after the last rows event of a statement (marked by a flag), because the next
statement names its tables again. Statements and compressed transactions are never cut. An epoch always ends with a
transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.session_variables import Session
from airflow_provider_dm.engine.binlog.transaction import Seam
from airflow_provider_dm.engine.binlog.window import MemoryWindow, Window
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.mysql.location import Location

UNLIMITED: Final = sys.maxsize


@dataclass(frozen=True)
class EpochLimits:
    """The limits at which an epoch and its ranges end. Sizes count bytes without compression."""

    goal: Location | None = None
    """The epoch ends at the first boundary at or after it."""
    max_bytes: int = UNLIMITED
    """The epoch ends with the transaction that exceeds it."""
    range_bytes: int = UNLIMITED
    """A range ends before the first transaction or statement after so many bytes."""
    until_time: int | None = None
    """The epoch ends with the first transaction committed at or after this time, in seconds since 1970."""


NO_LIMITS: Final = EpochLimits()


@dataclass(frozen=True)
class ByteRange:
    """Bytes `start` to `end` of a file, to be decoded without earlier bytes: complete transactions, or statements.

    `data`: those bytes, if they are sent with the range; otherwise they are read from `path`. `inside`: `start` is a
    seam, and the first rows belong to a transaction that began before. `closes`: the end of the last transaction if
    `end` is a seam; 0 if `end` is a boundary. There is no boundary between `end` and `closes`. `counts_at`: the sort
    key of the location at which these rows count, if that is another one: the commit of a prepared transaction.
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
        """The end of the last transaction of the range, inside or after it."""
        return self.closes or self.end

    @contextmanager
    def opened(self) -> Iterator[Window | MemoryWindow]:
        """Open the bytes, which are read by their positions in the file."""
        if self.data is not None:
            yield MemoryWindow(self.data, self.start)
            return
        with Window(self.path, self.end) as window:
            yield window

    def cut(self, seams: Sequence[Seam]) -> tuple[ByteRange, ...]:
        """Return the same bytes as several ranges, cut at the seams that are inside this range."""
        closes = {seam.position: seam.closes for seam in seams if self.start < seam.position < self.end}
        return tuple(
            replace(self, start=start, end=end, inside=start in closes, closes=closes.get(end, 0))
            for start, end in pairwise((self.start, *closes, self.end))
        )


@dataclass(frozen=True)
class Epoch:
    """Transactions between two locations. `newest_timestamp`: time of the newest commit, in seconds since 1970.

    `bytes`: of its ranges and between them; `unpacked`: additional bytes without compression. `prepared`: XA
    transactions that are prepared at `hi`; None: the same as at `lo`.
    """

    lo: Location
    hi: Location
    ranges: tuple[ByteRange, ...]
    transactions: int
    bytes: int
    newest_timestamp: int
    prepared: tuple[PreparedXa, ...] | None = None
    unpacked: int = 0

    @property
    def size(self) -> int:
        """Bytes of the log without compression, which applying the epoch must hold in memory."""
        return self.bytes + self.unpacked


@dataclass(frozen=True)
class DdlStatement:
    """A statement that does not change rows. `at` is the beginning of its transaction, `end` its end.

    `sql`: with UNSURE (client_charsets) for unknown characters.
    `undecoded`: the statement's bytes, if its charset could not be decoded; `sql` is then for display only.
    `rows`: its transaction, if that has rows too, possibly of other tables (CREATE TABLE … SELECT, or DROP TEMPORARY
    TABLE between changes): then executing or skipping the statement is not sufficient. `seams`: where `rows` may be
    cut. `session`: the session variables of the statement that are in its event.
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
        """Return the rows of its transaction, to be applied as usual; None if it has none."""
        if self.rows is None:
            return None
        size = self.rows.end - self.rows.start
        return Epoch(self.at, self.end, self.rows.cut(self.seams), 1, size, self.timestamp)


@dataclass(frozen=True)
class UpToDate:
    """There is nothing complete after `at`, which may be after `lo` because of events without changes."""

    at: Location


Planned: TypeAlias = Epoch | DdlStatement | UpToDate
