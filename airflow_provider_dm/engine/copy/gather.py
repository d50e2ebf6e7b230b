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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy.errors import NotGathered
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
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.reading.source_session import READ_TIMEOUT_SECONDS, source_error

log = logging.getLogger(__name__)

LOCKLESS: Final = frozenset({Consistency.SNAPSHOT, Consistency.NONE})
FIRST_SECONDS: Final = 120.0
"""How long the driver waits for the first reader."""
READY_SECONDS: Final = 2.0
"""A reader that is not ready this long after the first one does not take part."""
DONE_SECONDS: Final = 0.3
"""How long the read lock waits for the snapshots of readers that were ready."""
POLL_SECONDS: Final = 0.02


@dataclass(frozen=True)
class ReaderGroup:
    """The readers of one gather, and the names of their user locks."""

    token: str
    readers: int
    """Readers have the numbers from 0 to `readers` - 1."""

    def name(self, word: str) -> str:
        return f"dm-{self.token}-{word}"


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

    Raises NotSupportedYet (`consistency` snapshot and none: without a lock snapshots are at different locations),
    ServerUnreachable, AccessDenied.
    """
    if consistency in LOCKLESS:
        raise NotSupportedYet(f"consistency: {consistency}", source.name, "Choose auto, lock or flush.")
    with connected(source, read_timeout=READ_TIMEOUT_SECONDS) as connection:
        group = ReaderGroup(secrets.token_hex(8), readers)
        for word in ("driver", "go"):
            take_user_lock(connection, group.name(word))
        ((me,),) = query(connection, "SELECT CONNECTION_ID()")
        yield Gathering(source, group, consistency, connection, int(me), reads_log)


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
                opened = read_under_lock(self.source, tables, self._open, self.consistency)
                at, readers, existing = opened.value
                self._admit(readers)
                if not at.gtid_set:
                    at = location_of_end(self.connection, BinlogSize(at.file, at.position))
                return Gathered(at, frozenset(readers), existing, opened.blocked_seconds, opened.attempts)
        except BaseException:
            with suppress(DmError):
                self.close()
            raise

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

    def _open(self, held: HeldLock) -> tuple[Location, dict[int, int], frozenset[TableName]]:
        """Open the snapshots under the lock; return their location, the connection of each reader, and the tables.

        Raises NotGathered, ReadLockNotGranted.
        """
        if self._go_released:
            raise NotGathered(self.source.name, "the read lock was lost")
        before = self._end(held.connection)
        readers = self._snapshots_opened()
        at = self._place(held)
        if not _is_steady(before, at, held.lock):
            reason = f"under a lock, the binlog moved from {before.name}:{before.size} to {at}"
            raise NotGathered(self.source.name, reason)
        return at, readers, held.tables

    def _snapshots_opened(self) -> dict[int, int]:
        """Release `go`, and return the readers that take `done` in time. Raises NotGathered."""
        expected = self._holders("ready").keys()
        self._go_released = True
        query(self.connection, "SELECT RELEASE_LOCK(%s)", (self.group.name("go"),))
        until = time.monotonic() + DONE_SECONDS
        while not (expected <= (done := self._holders("done")).keys() or time.monotonic() > until):
            time.sleep(0.001)
        if not done:
            raise NotGathered(self.source.name, f"none of {len(expected)} readers was done in {DONE_SECONDS} s")
        return done

    def _place(self, held: HeldLock) -> Location:
        """Return the end of the binlog; without its GTID set if the server would have to compute it, which may take
        long, while the log moves.
        """
        if server_info(self.connection).capabilities.gtids_at is None or held.lock is SourceLock.GLOBAL:
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
