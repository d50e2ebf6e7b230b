"""Snapshots of several readers of one source, all at one location, opened under one momentary lock.

    driver     holds `driver`, `go` │ waits for ready │ lock · releases go · waits for done · reads L · unlock │ shut
    reader i   takes `ready-i` │ waits for go │ START TRANSACTION WITH CONSISTENT SNAPSHOT │ takes `done-i` │ waits

Readers are processes on other machines. They and the driver communicate by user locks on the source (GET_LOCK), which
need no privilege and no other channel, and which the server releases when the session of their holder ends:
- A reader that finds `driver` free ends: the driver has ended.
- A reader takes part if the driver holds `member-<its connection>`. The driver takes that lock if it has seen, under
  the read lock, that this connection holds a `done-i`. So the snapshot of a reader that is late, or of a repeated
  Spark task (another connection), is ignored, whenever it is opened.
- The driver itself takes the `ready-i` of a late reader: that reader ends immediately.

This module implements the driver, `snapshot_reader` the readers.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy.errors import NotGathered, ReadLockNotPermitted
from airflow_provider_dm.engine.copy.snapshot import HeldLock, SourceLock, read_under_lock
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import (
    BinlogSize,
    binlog_end,
    current_location,
    end_if_shown,
    location_if_shown,
    location_of_end,
)
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.reading.source_session import READ_TIMEOUT_SECONDS, source_error
from airflow_provider_dm.engine.schema.catalogue import list_tables

log = logging.getLogger(__name__)

LOCKLESS: Final = frozenset({Consistency.SNAPSHOT, Consistency.NONE})
FIRST_SECONDS: Final = 120.0
"""How long the driver waits for the first reader."""
READY_SECONDS: Final = 2.0
"""A reader that is not ready this long after the first one does not take part."""
DONE_SECONDS: Final = 0.3
"""How long the read lock waits for the snapshots of readers that were ready."""
LOCATED_SECONDS: Final = 30.0
"""The same limit if no read lock is held."""
POLL_SECONDS: Final = 0.02
POSITION_BITS: Final = 64
_BITS: Final = 96
"""A file's number and a position in it."""


@dataclass(frozen=True)
class ReaderGroup:
    """The readers of one gather, and the names of their user locks."""

    token: str
    readers: int
    """Readers have the numbers from 0 to `readers` - 1."""

    def name(self, word: str) -> str:
        return f"dm-{self.token}-{word}"

    def bits(self, number: int) -> list[str]:
        """Return the names by which a reader reports a location: one for each bit of the file's number and position."""
        return [self.name(f"bit-{number}-{bit}") for bit in range(_BITS)]


@dataclass(frozen=True)
class Gathered:
    """The opened snapshots. `blocked_seconds`: the longest time that one request for the lock, or the lock, blocked
    writers of the source; `attempts`: the number of such requests.
    """

    location: Location
    """The location of all snapshots, in a sub-directory with the suffix 1."""
    readers: frozenset[int]
    tables: frozenset[TableName]
    """The existing requested tables, which the snapshots show exactly at the location."""
    blocked_seconds: float
    attempts: int


def take_user_lock(connection: Connection, name: str) -> bool:
    """Take a user lock if no other session holds it. Return True if this session holds it now."""
    return query(connection, "SELECT GET_LOCK(%s, 0)", (name,)) == [(1,)]


def lock_holders(connection: Connection, names: Collection[str]) -> list[int | None]:
    """Return the connection that holds each of these user locks; None for a free one."""
    if not names:
        return []
    asked = ", ".join(["IS_USED_LOCK(%s)"] * len(names))
    (row,) = query(connection, f"SELECT {asked}", tuple(names))
    return [None if value is None else int(value) for value in row]


@contextmanager
def source_errors(source: Endpoint) -> Iterator[None]:
    """Translate pymysql's errors inside the block by `source_error`."""
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise source_error(source, error) from error


@contextmanager
def gathering(
    source: Endpoint, consistency: Consistency, readers: int, *, reads_log: bool = True
) -> Iterator[Gathering]:
    """Hold the user locks of one gather on the source. When the block, or this process, ends, all readers end.

    With `consistency` snapshot and none no lock is taken, which requires a server that locates snapshots (MariaDB).

    Raises NotSupportedYet, ServerUnreachable, AccessDenied.
    """
    with connected(source, read_timeout=READ_TIMEOUT_SECONDS) as connection:
        if consistency in LOCKLESS and not server_info(connection).capabilities.snapshots_are_located:
            raise NotSupportedYet(f"consistency: {consistency} on MySQL", source.name, "Choose auto, lock or flush.")
        group = ReaderGroup(secrets.token_hex(8), readers)
        for word in ("driver", "go"):
            take_user_lock(connection, group.name(word))
        ((me,),) = query(connection, "SELECT CONNECTION_ID()")
        yield Gathering(source, group, consistency, connection, int(me), reads_log)


@dataclass(frozen=True)
class _Opened:
    """The snapshots that were opened under a lock. `readers`: reader -> its connection."""

    at: Location
    readers: dict[int, int]
    tables: frozenset[TableName]


@dataclass
class Gathering:
    """The driver's side of one gather. After an error, another gather with other readers may succeed."""

    source: Endpoint
    group: ReaderGroup
    consistency: Consistency
    connection: Connection
    me: int
    """The number of `connection`."""
    reads_log: bool
    """False: the location is only reported. It is NOT_SHOWN if the account lacks the privilege."""
    _go_released: bool = field(default=False, init=False)
    """`go` was released: readers open snapshots, which cannot be undone."""

    def gather(self, tables: Collection[TableName], have_ended: Callable[[], bool] = lambda: False) -> Gathered:
        """Open the snapshots of all ready readers at one location. Their tasks must have been started. `have_ended`
        returns True if all of these tasks have ended: then no reader is waited for.

        Raises NotGathered, ReadLockNotGranted (both: retry), ReadLockNotPermitted, and the `source_error` of a lost
        connection. Then all readers end.
        """
        try:
            with source_errors(self.source):
                self._wait_for_readers(have_ended)
                if self.consistency in LOCKLESS:
                    return self._without_lock(tables)
                return self._under_lock(tables)
        except BaseException:
            with suppress(DmError):
                self.close()
            raise

    def _under_lock(self, tables: Collection[TableName]) -> Gathered:
        try:
            gathered = read_under_lock(self.source, tables, self._open, self.consistency)
        except ReadLockNotPermitted as missing:
            if self.consistency is not Consistency.AUTO or not self._server.snapshots_are_located:
                raise
            log.warning("%s: snapshots are opened without a lock: %s", self.source.name, missing.happened())
            return self._without_lock(tables)
        opened = gathered.value
        self._admit(opened.readers)
        at = opened.at
        if not at.gtid_set:
            at = location_of_end(self.connection, BinlogSize(at.file, at.position))
        return Gathered(at, frozenset(opened.readers), opened.tables, gathered.blocked_seconds, gathered.attempts)

    def _without_lock(self, tables: Collection[TableName]) -> Gathered:
        """Use the readers whose snapshots happen to be at the same location: all of them at an idle source."""
        existing = frozenset(list_tables(self.connection)).intersection(tables)
        readers = self._released("placed", LOCATED_SECONDS)
        places = dict(zip(readers, self._places(readers), strict=True))
        ((place, _),) = Counter(places.values()).most_common(1)
        chosen = {number: readers[number] for number, one in places.items() if one == place}
        self._admit(chosen)
        number, position = divmod(place, 1 << POSITION_BITS)
        base = BinlogFile.parse(self._end(self.connection).name).base
        at = location_of_end(self.connection, BinlogSize(str(BinlogFile(base, number)), position))
        return Gathered(at, frozenset(chosen), existing, 0.0, 0)

    def _places(self, readers: Collection[int]) -> list[int]:
        """Return the locations that the readers report for their snapshots."""
        held = lock_holders(self.connection, [name for number in readers for name in self.group.bits(number)])
        starts = range(0, len(held), _BITS)
        return [sum(1 << bit for bit in range(_BITS) if held[start + bit] is not None) for start in starts]

    @property
    def _server(self) -> Capabilities:
        return server_info(self.connection).capabilities

    def open(self) -> None:
        """Allow the readers to write pages."""
        self._take("open")

    def close(self) -> None:
        """Ask the readers to end after their pages."""
        self._take("close")

    def _take(self, word: str) -> None:
        with source_errors(self.source):
            take_user_lock(self.connection, self.group.name(word))

    def _holders(self, word: str) -> dict[int, int]:
        """Return the readers that hold such a lock, and their connections."""
        found = lock_holders(
            self.connection, [self.group.name(f"{word}-{number}") for number in range(self.group.readers)]
        )
        return {number: one for number, one in enumerate(found) if one not in (None, self.me)}

    def _wait_for_readers(self, have_ended: Callable[[], bool]) -> None:
        """Wait for the first reader, then for the others; exclude late ones. Raises NotGathered."""
        until, seen = time.monotonic() + FIRST_SECONDS, False
        while len(ready := self._holders("ready")) < self.group.readers and time.monotonic() < until:
            if have_ended():
                raise NotGathered(self.source.name, "all readers have ended")
            if ready and not seen:
                seen, until = True, time.monotonic() + READY_SECONDS
            time.sleep(POLL_SECONDS)
        if not ready:
            raise NotGathered(self.source.name, f"no reader was ready in {FIRST_SECONDS:.0f} s")
        for number in set(range(self.group.readers)) - ready.keys():
            self._take(f"ready-{number}")
        log.info("%s: readers that are ready: %d of %d", self.source.name, len(ready), self.group.readers)

    def _open(self, held: HeldLock) -> _Opened:
        """Open the snapshots under the lock. Raises NotGathered, ReadLockNotGranted."""
        if self._go_released:
            raise NotGathered(self.source.name, "the read lock was lost")
        before = self._end(held.connection)
        readers = self._released("done", DONE_SECONDS)
        at = self._place(held)
        if not _is_steady(before, at, held.lock):
            reason = f"under a lock, the binlog moved from {before.name}:{before.size} to {at}"
            raise NotGathered(self.source.name, reason)
        return _Opened(at, readers, held.tables)

    def _released(self, word: str, seconds: float) -> dict[int, int]:
        """Release `go`, and return the readers that take such a lock in time. Raises NotGathered."""
        expected = self._holders("ready").keys()
        self._go_released = True
        query(self.connection, "SELECT RELEASE_LOCK(%s)", (self.group.name("go"),))
        until = time.monotonic() + seconds
        while not (expected <= (done := self._holders(word)).keys() or time.monotonic() > until):
            time.sleep(0.001)
        if not done:
            raise NotGathered(self.source.name, f"none of {len(expected)} readers was done in {seconds} s")
        return done

    def _place(self, held: HeldLock) -> Location:
        """Return the end of the binlog; without its GTID set if the server would have to compute it, which may take
        long, while the log moves.
        """
        if self._server.gtids_at is None or held.lock is SourceLock.GLOBAL:
            return current_location(held.connection) if self.reads_log else location_if_shown(held.connection)
        return Location(*self._end(held.connection))

    def _end(self, connection: Connection) -> BinlogSize:
        return binlog_end(connection) if self.reads_log else end_if_shown(connection)

    def _admit(self, readers: dict[int, int]) -> None:
        for connection in readers.values():
            self._take(f"member-{connection}")
        self._take("shut")


def _is_steady(before: BinlogSize, at: Location, lock: SourceLock | None) -> bool:
    """Return True if the binlog has not moved under a global lock, or has only moved forward with locked tables."""
    if lock is SourceLock.GLOBAL:
        return before == (at.file, at.position)
    first, last = (BinlogFile.parse(one) for one in (before.name, at.file))
    return first.base == last.base and (first.number, before.size) <= (last.number, at.position)
