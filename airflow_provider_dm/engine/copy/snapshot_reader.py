"""A reader's side of a gather (`gather`): one snapshot, whose metadata locks do not block the source's DDL.

A snapshot keeps a metadata lock on each table that it has read. An ALTER waits for it, and all other sessions wait for
that ALTER. MySQL releases the lock at ROLLBACK TO SAVEPOINT, MariaDB only with `sql_log_bin=0`, which needs a
privilege. Without it, a second connection of the reader checks every second whether DDL waits (with
`lock_wait_timeout=0` its SELECT then fails), and ends the snapshot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Final

import pymysql

from airflow_provider_dm.engine.copy.errors import SnapshotLost
from airflow_provider_dm.engine.copy.gather import (
    POLL_SECONDS,
    POSITION_BITS,
    ReaderGroup,
    lock_holders,
    source_errors,
    take_user_lock,
)
from airflow_provider_dm.engine.copy.snapshot import snapshot_place
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED, LOCK_WAIT
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.reading.errors import SourceReadFailed
from airflow_provider_dm.engine.reading.source_session import READ_TIMEOUT_SECONDS, source_error

log = logging.getLogger(__name__)

READER_SILENCE: Final = 60
"""Seconds after which the server ends the snapshot of a silent reader, for example of a frozen one."""
WATCH_SECONDS: Final = 1.0


@contextmanager
def snapshot_reader(source: Endpoint, group: ReaderGroup, number: int) -> Iterator[SnapshotReader | None]:
    """Take part in a gather as reader `number`, and yield its snapshot; None if this reader does not take part.

    A reader does not take part if it is late, repeats a lost Spark task, or its driver has ended.

    Raises ServerUnreachable, AccessDenied, and the `source_error` of a refusal.
    """
    with (
        connected(source, read_timeout=READ_TIMEOUT_SECONDS) as connection,
        connected(source, read_timeout=READ_TIMEOUT_SECONDS) as second,
    ):
        with source_errors(source):
            ((me,),) = query(connection, "SELECT CONNECTION_ID()")
            reader = SnapshotReader(source, group, connection, second, int(me), _releases_metadata_locks(connection))
            takes_part = reader._join(number)
        if not takes_part:
            yield None
            return
        thread = Thread(target=reader._watch, name=f"reader-{number}-watch", daemon=True)
        thread.start()
        try:
            yield reader
        finally:
            reader._ended.set()
            reader.ahead.shutdown()
            thread.join()


@dataclass
class SnapshotReader:
    """A snapshot of the source at the location of its gather."""

    source: Endpoint
    group: ReaderGroup
    connection: Connection
    second: Connection
    """Only `_watch` uses it."""
    me: int
    """The number of `connection`."""
    releases_locks: bool
    """True if ROLLBACK TO SAVEPOINT releases metadata locks."""
    ahead: Executor = field(default_factory=partial(ThreadPoolExecutor, 1, "reads-ahead"))
    """The thread that reads a page while the one before it is written."""
    _tables: frozenset[TableName] = frozenset()
    """The tables on which the snapshot keeps metadata locks."""
    _over: Event = field(default_factory=Event)
    _ended: Event = field(default_factory=Event)
    _lost: str = ""

    @property
    def is_over(self) -> bool:
        """True if the driver has asked the readers to end, or has ended, or the snapshot was given up."""
        return self._over.is_set()

    def wait_until_open(self) -> bool:
        """Wait until pages may be written. Return False if the reader has to end instead. Raises SnapshotLost."""
        with self._lost_if_broken():
            return self._waited_for("open")

    @contextmanager
    def reading(self, table: TableName) -> Iterator[Connection]:
        """Yield the snapshot's connection for SELECTs from `table`, without keeping its metadata lock afterwards.

        The birth check of the table belongs inside the block, writing to the target does not.

        Raises SnapshotLost, and the `source_error` of a refusal.
        """
        if self._lost:
            raise SnapshotLost(self.source.name, self._lost)
        with self._lost_if_broken():
            if not self.releases_locks:
                self._tables |= {table}
                yield self.connection
                return
            query(self.connection, "SAVEPOINT page")
            try:
                yield self.connection
            except BaseException:
                with suppress(pymysql.err.Error, OSError):
                    query(self.connection, "ROLLBACK TO SAVEPOINT page")
                raise
            query(self.connection, "ROLLBACK TO SAVEPOINT page")

    @contextmanager
    def _lost_if_broken(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.err.Error, OSError) as raised:
            error = source_error(self.source, raised)
            if not isinstance(error, SourceReadFailed):
                raise error from raised
            raise SnapshotLost(self.source.name, self._lost or f"{error.number} {error.reason}") from raised

    def _join(self, number: int) -> bool:
        """Take part in the gather. Return False if this reader does not."""
        query(self.connection, f"SET SESSION wait_timeout = {READER_SILENCE}, net_write_timeout = {READER_SILENCE}")
        go, ready, done = (self.group.name(word) for word in ("go", f"ready-{number}", f"done-{number}"))
        wait = f"SELECT IF(GET_LOCK('{go}', 1) = 1, RELEASE_LOCK('{go}'), 0)"  # like snapshot.WAITING_READER
        if self._is_closed() or not take_user_lock(self.connection, ready):
            return False
        while query(self.connection, wait) != [(1,)]:
            if self._is_closed():
                return False
        query(self.connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        take_user_lock(self.connection, done)
        if server_info(self.connection).capabilities.snapshots_are_located:
            self._report(number, snapshot_place(self.source.name, self.connection))
        return self._waited_for("shut") and self._holders(f"member-{self.me}") != [None]

    def _waited_for(self, word: str) -> bool:
        """Wait until the driver takes a user lock. Return False if the readers have to end."""
        while True:
            taken, closed, driver = self._holders(word, "close", "driver")
            if taken is not None or closed is not None or driver is None:
                return taken == driver and closed is None
            time.sleep(POLL_SECONDS)

    def _is_closed(self) -> bool:
        closed, driver = self._holders("close", "driver")
        return closed is not None or driver is None

    def _holders(self, *words: str) -> list[int | None]:
        return lock_holders(self.connection, [self.group.name(word) for word in words])

    def _report(self, number: int, at: BinlogSize) -> None:
        """Report the location of the snapshot: its bits, each as a user lock."""
        value = (BinlogFile.parse(at.name).number << POSITION_BITS) | at.size
        names = [name for bit, name in enumerate(self.group.bits(number)) if value >> bit & 1]
        query(self.connection, f"SELECT {', '.join(['GET_LOCK(%s, 0)'] * len(names))}", tuple(names))
        take_user_lock(self.connection, self.group.name(f"placed-{number}"))

    def _watch(self) -> None:
        """End the snapshot when the driver has ended, or when DDL waits for it."""
        if not self.releases_locks:
            with suppress(pymysql.err.Error, OSError):  # the next query fails as well
                query(self.second, "SET SESSION lock_wait_timeout = 0")
        while not self._ended.wait(WATCH_SECONDS):
            try:
                driver, close = lock_holders(self.second, [self.group.name(word) for word in ("driver", "close")])
                reason = "the driver has ended" if driver is None else self._waiting_ddl()
            except (pymysql.err.Error, OSError) as error:
                close, reason = None, f"its second connection has ended ({error})"
            if reason:
                self._give_up(reason)
                return
            if close is not None:
                self._over.set()

    def _waiting_ddl(self) -> str:
        for table in self._tables:
            try:
                query(self.second, f"SELECT 1 FROM {table.quoted()} LIMIT 0")
            except pymysql.err.MySQLError as error:
                if error.args[0] == LOCK_WAIT:
                    return f"DDL waits for {table}"
                if not self.second.open:
                    raise
        return ""

    def _give_up(self, reason: str) -> None:
        log.warning("%s: the snapshot is given up: %s", self.source.name, reason)
        self._lost = reason
        self._over.set()
        with suppress(pymysql.err.Error, OSError):
            query(self.second, f"KILL {self.me}")


def _releases_metadata_locks(connection: Connection) -> bool:
    """Return True if ROLLBACK TO SAVEPOINT will release metadata locks; on MariaDB, try to enable that."""
    if server_info(connection).capabilities.savepoints_release_locks:
        return True
    try:
        query(connection, "SET SESSION sql_log_bin = 0")
    except pymysql.err.MySQLError as error:
        if error.args[0] not in ACCESS_DENIED:
            raise
        return False
    return True
