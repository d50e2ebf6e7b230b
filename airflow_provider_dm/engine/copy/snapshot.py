"""A momentary read lock on a MySQL source, under which a location and a snapshot are read. MariaDB needs no lock.

While the lock is held, no transaction that changes the tables is between the binlog and the storage engine: everything
before the binlog's end is visible, and nothing after it exists.

The lock must never leave the source with blocked writers. What the servers do:
- `LOCK TABLES … READ` waits for open transactions that have changed the tables. Other writers wait behind the request,
  and go on as soon as the request is granted and released, times out, or is killed. So it comes first.
- `FLUSH TABLES WITH READ LOCK` does not wait for open transactions, but for running statements. On MySQL its request
  cannot be taken back: if it times out or is killed behind a SELECT, all sessions that use the SELECT's table wait
  until that SELECT ends. So it is tried only after `LOCK TABLES` failed, and only while no statement is a second old.
- `lock_wait_timeout` counts for each table. A second connection ends the whole request after a second (KILL QUERY).
- If this process freezes while it holds the lock, the server closes the session (`wait_timeout`) and the lock goes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Event, Timer
from typing import Final, Generic, TypeVar, assert_never

import pymysql

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Reaction, Scope
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED, CONNECTION_LOST, LOCK_WAIT
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.catalogue import list_tables

log = logging.getLogger(__name__)

LOCK_SECONDS: Final = 1
"""How long a request may wait, and how long a session that holds the lock may be silent."""
LOCK_ATTEMPTS: Final = 12
TABLES_ATTEMPTS: Final = 3
"""So many requests of `LOCK TABLES` come before the first `FLUSH TABLES WITH READ LOCK`."""
PAUSE_SECONDS: Final = 2.0
"""Between two requests, for the writers."""
OLD_STATEMENT_SECONDS: Final = 1

_KILLED: Final = 1317
_NO_SUCH_TABLE: Final = 1146
_NOT_GRANTED: Final = CONNECTION_LOST | {LOCK_WAIT, _KILLED, _NO_SUCH_TABLE}
_IDLE: Final = frozenset({"Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID", "Connect"})
_SYSTEM_USER: Final = "system user"
"""A replica's own threads. A flush does not wait for them: the global lock, which is requested first, does."""

T = TypeVar("T")


class WatermarkBlocked(DmError):
    """Commits or long statements on the source did not let us take a safe location in time."""

    source: str
    waited_for: str
    seconds: float

    code = "DM-7001"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{source}: no safe binlog location in {seconds:.0f} s, waiting for {waited_for}."
    hint = (
        "End the transactions that stay open or hang in commit (prepared XA transactions too), long-running statements "
        "and locks. MySQL: an account with RELOAD and PROCESS does not have to wait for open transactions."
    )


class WatermarkNotPermitted(DmError):
    """The account may not take the short lock that this source needs."""

    source: str
    privilege: str
    reason: str

    code = "DM-7002"
    scope = Scope.UPSTREAM
    what = "{source}: the privilege {privilege} is missing ({reason})."
    hint = "Grant it to the replication account, or set gtid_mode=ON where only the location is needed."


class _Lock(Enum):
    """The value is the privilege that the lock needs."""

    TABLES = "LOCK TABLES"
    GLOBAL = "RELOAD and PROCESS"


@dataclass(frozen=True)
class ReadUnderLock(Generic[T]):
    """What was read under a lock, and the longest time in seconds that one request for it, or it, blocked writers."""

    value: T
    blocked_seconds: float = 0.0


@dataclass(frozen=True)
class TableSnapshot:
    """An open read transaction that shows a table exactly as it was at a location."""

    connection: Connection
    location: Location
    blocked_seconds: float


@contextmanager
def table_snapshot(endpoint: Endpoint, table: TableName) -> Iterator[TableSnapshot]:
    """Yield a snapshot of `table`. MariaDB takes it at a location without a lock.

    Raises WatermarkBlocked (retry), WatermarkNotPermitted.
    """
    with connected(endpoint) as connection:
        if server_info(connection).capabilities.snapshots_are_located:
            yield TableSnapshot(connection, located_snapshot(connection), 0.0)
            return

        def read(locker: Connection) -> Location:
            query(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return current_location(locker)

        found = read_under_lock(endpoint, [table], read)
        yield TableSnapshot(connection, found.value, found.blocked_seconds)


def located_snapshot(connection: Connection) -> Location:
    """Open a snapshot on MariaDB and return its location: the server takes both under the lock that orders commits."""
    query(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = {
        text(name).lower(): text(value) for name, value in query(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    }
    file, position = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
    if not file:
        raise NotSupportedYet("a copy from a server without a binlog", "binlog_snapshot_file is empty", "Set log_bin.")
    ((gtid_set,),) = query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, int(position)))
    server_uuid = server_info(connection).server_uuid
    return Location(file, int(position), text(gtid_set or b""), server_uuid=server_uuid)


def read_under_lock(
    endpoint: Endpoint, tables: Collection[TableName], read: Callable[[Connection], T]
) -> ReadUnderLock[T]:
    """Call `read` while no transaction that changes `tables` is in commit, on MySQL.

    `read` gets the connection that holds the lock. It must be quick, and may be called again. Tables that do not exist
    are left out. Raises WatermarkBlocked (retry), WatermarkNotPermitted.
    """
    began = time.monotonic()
    with connected(endpoint) as guard:
        locker = _Locker(endpoint, guard)
        for attempt in range(LOCK_ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_SECONDS)
            try:
                value = locker.attempt(attempt, tables, read)
            except _NotGranted as refused:
                log.info("%s: lock %d of %d was not granted: %s", endpoint.name, attempt + 1, LOCK_ATTEMPTS, refused)
                continue
            log.info("%s: a read lock blocked writers for %.3f s at most", endpoint.name, locker.blocked_seconds)
            return ReadUnderLock(value, locker.blocked_seconds)
    raise WatermarkBlocked(endpoint.name, "a momentary read lock", time.monotonic() - began)


class _NotGranted(Exception):
    """The lock was not granted in time, or was lost before everything was read. No session waits for it any more."""


@dataclass
class _Locker:
    """The attempts of one call. `guard` is a connection that asks what runs, and ends a request that waits too long."""

    endpoint: Endpoint
    guard: Connection
    denied: dict[_Lock, str] = field(default_factory=dict)
    """Locks that the account may not take, and the server's words."""
    blocked_seconds: float = 0.0

    def attempt(self, number: int, tables: Collection[TableName], read: Callable[[Connection], T]) -> T:
        """Take one lock and call `read`. Raises _NotGranted, WatermarkBlocked, WatermarkNotPermitted."""
        there = sorted(set(list_tables(self.guard)).intersection(tables))
        lock = self._choose(number) if there else None
        match lock:
            case None:
                with connected(self.endpoint) as connection:
                    return read(connection)
            case _Lock.TABLES:
                return self._request(lock, f"LOCK TABLES {', '.join(f'{one.quoted()} READ' for one in there)}", read)
            case _Lock.GLOBAL:
                try:
                    return self._request(lock, "FLUSH TABLES WITH READ LOCK", read)
                except _NotGranted:
                    self._check_no_flush_pends()
                    raise
            case _:
                assert_never(lock)

    def _choose(self, number: int) -> _Lock:
        """Raises _NotGranted where no lock can be requested now; WatermarkNotPermitted."""
        flushes = number >= TABLES_ATTEMPTS and (number - TABLES_ATTEMPTS) % 2 == 0
        if (flushes or _Lock.TABLES in self.denied) and self._may_flush():
            return _Lock.GLOBAL
        if _Lock.TABLES not in self.denied:
            return _Lock.TABLES
        if _Lock.GLOBAL not in self.denied:
            raise _NotGranted("LOCK TABLES is not permitted, and statements run that a global read lock waits for")
        privileges, reasons = (" or ".join(texts) for texts in zip(*self._denials(), strict=True))
        raise WatermarkNotPermitted(self.endpoint.name, privileges, reasons)

    def _denials(self) -> Iterator[tuple[str, str]]:
        return ((lock.value, self.denied[lock]) for lock in _Lock)

    def _request(self, lock: _Lock, statement: str, read: Callable[[Connection], T]) -> T:
        began = time.monotonic()
        try:
            with connected(self.endpoint) as connection:
                query(connection, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {LOCK_SECONDS}")
                began = time.monotonic()
                with self._ended_in_time(connection):
                    query(connection, statement)
                value = read(connection)
                query(connection, "UNLOCK TABLES")  # fails if the server closed the session, and with it the lock
                return value
        except pymysql.err.MySQLError as error:
            number, reason = (*error.args, 0, "")[:2]
            if number in ACCESS_DENIED:
                self.denied[lock] = str(reason)
            elif number not in _NOT_GRANTED:
                raise
            raise _NotGranted(f"{lock.name}: {number} {reason}") from error
        finally:
            self.blocked_seconds = max(self.blocked_seconds, time.monotonic() - began)

    @contextmanager
    def _ended_in_time(self, connection: Connection) -> Iterator[None]:
        """End the statement of `connection` when it has waited for LOCK_SECONDS. Raises _NotGranted then."""
        ((session,),) = query(connection, "SELECT CONNECTION_ID()")
        killed = Event()

        def kill() -> None:
            killed.set()
            with suppress(pymysql.err.MySQLError):  # it ended just now
                query(self.guard, f"KILL QUERY {int(session)}")

        timer = Timer(LOCK_SECONDS, kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
        if killed.is_set():  # although the lock was granted: the KILL may meet the next statement
            raise _NotGranted(f"ended after {LOCK_SECONDS} s")

    def _may_flush(self) -> bool:
        """Return True if no statement runs that a flush could wait for long. Without PROCESS that cannot be known."""
        if _Lock.GLOBAL in self.denied:
            return False
        try:
            query(self.guard, "SELECT 1 FROM information_schema.innodb_trx LIMIT 1")  # fails without PROCESS
        except pymysql.err.MySQLError as error:
            if error.args[0] not in ACCESS_DENIED:
                raise
            self.denied[_Lock.GLOBAL] = str(error.args[1])
            return False
        return not self._old_statements()

    def _old_statements(self) -> list[int]:
        """Return the sessions whose statements run for OLD_STATEMENT_SECONDS or longer, and wait for no lock."""
        return [
            int(session)
            for session, user, _host, _schema, command, seconds, state, *_ in query(self.guard, "SHOW PROCESSLIST")
            if int(seconds or 0) >= OLD_STATEMENT_SECONDS
            and not (text(command) in _IDLE or text(user) == _SYSTEM_USER or text(state or b"").startswith("Waiting"))
        ]

    def _check_no_flush_pends(self) -> None:
        """Check what a request for the global lock has left behind. Raises WatermarkBlocked."""
        for session in self._old_statements():
            raise WatermarkBlocked(
                self.endpoint.name,
                f"the statement of session {session}, which began when a global read lock was requested. Other "
                f"sessions that use its tables wait until it ends, or until `KILL QUERY {session}` ends it",
                self.blocked_seconds,
            )
