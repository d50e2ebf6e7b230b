"""A momentary read lock on a source, under which a location and snapshots are read.

While the lock is held, no transaction that changes the tables is between the binlog and the storage engine: everything
before the binlog's end is visible, and nothing after it exists.

The lock must never leave the source with blocked writers. Properties of the servers:
- `LOCK TABLES … READ` waits for open transactions that have changed the tables. Other writers wait behind the request,
  and continue as soon as the request is granted and released, times out, or is killed. So it is tried first.
- `FLUSH TABLES WITH READ LOCK` does not wait for open transactions, but for running statements. On MySQL its request
  cannot be undone: if it times out or is killed behind a SELECT, all sessions that use the SELECT's table wait until
  that SELECT ends. So there it is tried only after `LOCK TABLES` failed, and only while no statement has run for a
  second. MariaDB waits for no SELECT and leaves nothing behind: there it is tried first.
- `lock_wait_timeout` counts for each table. A second connection ends the whole request in time (KILL QUERY).
- DM's `consistency` chooses: `auto` tries both locks in that order, `lock` and `flush` only one.
- If this process freezes while it holds the lock, the server closes the session (`wait_timeout`), which releases it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Event, Timer
from typing import Final, Generic, TypeVar

import pymysql

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy.errors import NotGathered, ReadLockNotGranted, ReadLockNotPermitted
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED, CONNECTION_LOST, LOCK_WAIT
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import list_tables

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 0.8
"""The maximum wait of a request. Writers wait behind it, and behind the lock itself."""
READ_LOCK_SECONDS: Final = 1
"""The maximum silence of a session that holds the lock: a whole number of seconds, as in the server."""
LOCK_ATTEMPTS: Final = 12
FIRST_ATTEMPTS: Final = 3
"""The number of requests for the preferred lock before the first request for the other lock."""
LOCK_PAUSE_SECONDS: Final = 2.0
"""Pause between two requests, for the writers."""
OLD_STATEMENT_SECONDS: Final = 1

PLACE_ANSWERS: Final = 5
MOST_ANSWERS: Final = 100
PLACE_SECONDS: Final = 20
"""How long a reader waits for its turn to read the location of its snapshot."""
_PLACE_LOCK: Final = "dm-snapshot-place"

WAITING_READER: Final = "SELECT IF(GET_LOCK('dm-"
"""The beginning of the statement by which a reader waits for its driver (gather.py); it uses no table."""

_KILLED: Final = 1317
_NO_SUCH_TABLE: Final = 1146
_NOT_GRANTED: Final = CONNECTION_LOST | {LOCK_WAIT, _KILLED, _NO_SUCH_TABLE}
_IDLE: Final = frozenset({"Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID", "Connect"})
_SYSTEM_USER: Final = "system user"
"""A replica's own threads. A flush does not wait for them; the global lock, which is requested first, does."""

T = TypeVar("T")


class SourceLock(Enum):
    TABLES = "LOCK TABLES"
    GLOBAL = "FLUSH TABLES WITH READ LOCK"

    def statement(self, tables: Collection[TableName]) -> str:
        locked = ", ".join(f"{table.quoted()} READ" for table in tables) if self is SourceLock.TABLES else ""
        return f"{self.value} {locked}"

    def privileges(self, server: Capabilities) -> tuple[str, ...]:
        """Return the privileges that the lock needs. PROCESS shows the statements that a flush waits for."""
        if self is SourceLock.TABLES:
            return ("LOCK TABLES",)
        return ("RELOAD", "PROCESS") if server.flush_waits else ("RELOAD",)


def locks_of(consistency: Consistency, server: Capabilities) -> tuple[SourceLock, ...]:
    """Return the locks that may be taken, the preferred one first.

    >>> from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
    >>> from airflow_provider_dm.engine.mysql.endpoint import Flavour
    >>> [lock.name for lock in locks_of(Consistency.AUTO, CAPABILITIES[Flavour.MYSQL])]
    ['TABLES', 'GLOBAL']
    """
    match consistency:
        case Consistency.LOCK:
            return (SourceLock.TABLES,)
        case Consistency.FLUSH:
            return (SourceLock.GLOBAL,)
        case _:
            both = (SourceLock.TABLES, SourceLock.GLOBAL)
            return both if server.flush_waits else both[::-1]


@dataclass(frozen=True)
class HeldLock:
    """A held lock: its connection and tables. `lock`: None if there was no table to lock."""

    connection: Connection
    lock: SourceLock | None
    tables: frozenset[TableName]


@dataclass(frozen=True)
class ReadUnderLock(Generic[T]):
    """The result of reading under a lock, and the maximum seconds that one request, or the lock, blocked writers."""

    value: T
    blocked_seconds: float = 0.0
    attempts: int = 0


def snapshot_place(source: str, connection: Connection) -> BinlogSize:
    """Return file and position of an open snapshot on MariaDB: the server takes both under the lock that orders
    commits.

    All sessions of the server share the status variables for them (`set_status_variables` in its log.cc), so the answer
    can be the location of another session that reads them at the same moment. So readers take turns, by a user lock,
    and a location is accepted if PLACE_ANSWERS successive answers are equal.
    Raises NotGathered, NotSupportedYet.
    """
    if query(connection, f"SELECT GET_LOCK('{_PLACE_LOCK}', {PLACE_SECONDS})") != [(1,)]:
        raise NotGathered(source, f"other readers took longer than {PLACE_SECONDS} s to read their locations")
    try:
        answers: list[BinlogSize] = []
        while len(answers) < PLACE_ANSWERS or len(set(answers[-PLACE_ANSWERS:])) > 1:
            if len(answers) == MOST_ANSWERS:
                raise NotGathered(source, f"the server shows more than one location of a snapshot: {answers[-2:]}")
            answers.append(_shown_place(connection))
        return answers[-1]
    finally:
        query(connection, f"SELECT RELEASE_LOCK('{_PLACE_LOCK}')")


def _shown_place(connection: Connection) -> BinlogSize:
    rows = query(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    status = {text(name).lower(): text(value) for name, value in rows}
    file, position = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
    if not file:
        raise NotSupportedYet("a copy from a server without a binlog", "binlog_snapshot_file is empty", "Set log_bin.")
    return BinlogSize(file, int(position))


def read_under_lock(
    endpoint: Endpoint,
    tables: Collection[TableName],
    read: Callable[[HeldLock], T],
    consistency: Consistency = Consistency.AUTO,
) -> ReadUnderLock[T]:
    """Call `read` while no transaction that changes `tables` is in commit.

    `read` gets the lock. It must be quick, and may be called again. Missing tables are left out.

    Raises ReadLockNotGranted (retry), ReadLockNotPermitted.
    """
    began = time.monotonic()
    with connected(endpoint) as guard:
        server = server_info(guard).capabilities
        locker = _Locker(endpoint, guard, server, locks_of(consistency, server))
        for attempt in range(LOCK_ATTEMPTS):
            if attempt:
                time.sleep(LOCK_PAUSE_SECONDS)
            try:
                value = locker.attempt(attempt, tables, read)
            except _NotGranted as refused:
                log.info("%s: lock %d of %d was not granted: %s", endpoint.name, attempt + 1, LOCK_ATTEMPTS, refused)
                continue
            log.info("%s: a read lock blocked writers for %.3f s at most", endpoint.name, locker.blocked_seconds)
            return ReadUnderLock(value, locker.blocked_seconds, attempt + 1)
    raise ReadLockNotGranted(endpoint.name, "open transactions or running statements", time.monotonic() - began)


class _NotGranted(Exception):
    """The lock was not granted in time, or was lost before everything was read. No session waits for it any more."""


class _Denied(Exception):
    """The account may not take the lock; the argument is the server's message."""


@dataclass
class _Locker:
    """The attempts of one call. `guard`: a connection that checks running statements, and ends a late request."""

    endpoint: Endpoint
    guard: Connection
    server: Capabilities
    locks: tuple[SourceLock, ...]
    """The locks that may be taken, the preferred one first."""
    denied: dict[SourceLock, str] = field(default_factory=dict)
    """Locks that the account may not take, with the server's message."""
    blocked_seconds: float = 0.0

    def attempt(self, number: int, tables: Collection[TableName], read: Callable[[HeldLock], T]) -> T:
        """Take one lock and call `read`. Raises _NotGranted, ReadLockNotGranted, ReadLockNotPermitted."""
        there = sorted(set(list_tables(self.guard)).intersection(tables))
        if not there:
            with connected(self.endpoint) as connection:
                return read(HeldLock(connection, None, frozenset()))
        while True:
            lock = self._choose(number)
            try:
                return self._request(lock, there, read)
            except _Denied as denied:
                self.denied[lock] = str(denied)
            except _NotGranted:
                if lock is SourceLock.GLOBAL and self.server.flush_waits:
                    self._check_no_flush_pends()
                raise

    def _choose(self, number: int) -> SourceLock:
        """Raises _NotGranted if no lock can be requested now; ReadLockNotPermitted."""
        others = number >= FIRST_ATTEMPTS and (number - FIRST_ATTEMPTS) % 2 == 0
        wanted = self.locks[::-1] if others else self.locks
        for lock in wanted:
            if lock not in self.denied and (lock is SourceLock.TABLES or self._check_flush()):
                return lock
        if any(lock not in self.denied for lock in self.locks):
            raise _NotGranted("statements run that a global read lock would wait for")
        privileges = " or ".join(" and ".join(lock.privileges(self.server)) for lock in self.locks)
        raise ReadLockNotPermitted(
            self.endpoint.name, privileges, " or ".join(self.denied[lock] for lock in self.locks)
        )

    def _request(self, lock: SourceLock, tables: Collection[TableName], read: Callable[[HeldLock], T]) -> T:
        """Raises _NotGranted, _Denied, and the errors of `read`."""
        began = time.monotonic()
        try:
            with connected(self.endpoint) as connection:
                query(
                    connection,
                    f"SET SESSION lock_wait_timeout = {READ_LOCK_SECONDS}, wait_timeout = {READ_LOCK_SECONDS}",
                )
                began = time.monotonic()
                with self._ended_in_time(connection):
                    query(connection, lock.statement(tables))
                value = read(HeldLock(connection, lock, frozenset(tables)))
                query(connection, "UNLOCK TABLES")  # fails if the server closed the session, and with it the lock
                return value
        except pymysql.err.MySQLError as error:
            number, reason = (*error.args, 0, "")[:2]
            if number in ACCESS_DENIED:
                raise _Denied(reason) from error
            if number not in _NOT_GRANTED:
                raise
            raise _NotGranted(f"{lock.name}: {number} {reason}") from error
        finally:
            self.blocked_seconds = max(self.blocked_seconds, time.monotonic() - began)

    @contextmanager
    def _ended_in_time(self, connection: Connection) -> Iterator[None]:
        """End the statement of `connection` when it has waited for REQUEST_SECONDS. Raises _NotGranted then."""
        ((session,),) = query(connection, "SELECT CONNECTION_ID()")
        killed = Event()

        def kill() -> None:
            killed.set()
            with suppress(pymysql.err.MySQLError):  # it has just ended
                query(self.guard, f"KILL QUERY {int(session)}")

        timer = Timer(REQUEST_SECONDS, kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
        if killed.is_set():  # even if the lock was granted: the KILL may end the next statement instead
            raise _NotGranted(f"ended after {REQUEST_SECONDS} s")

    def _check_flush(self) -> bool:
        """Return True if no statement runs that a flush could wait for long.

        If a flush waits, that cannot be known without PROCESS: then `denied` has the error.
        """
        if SourceLock.GLOBAL in self.denied or not self.server.flush_waits:
            return SourceLock.GLOBAL not in self.denied
        try:
            query(self.guard, "SELECT 1 FROM information_schema.innodb_trx LIMIT 1")  # fails without PROCESS
        except pymysql.err.MySQLError as error:
            if error.args[0] not in ACCESS_DENIED:
                raise
            self.denied[SourceLock.GLOBAL] = str(error.args[1])
            return False
        return not self._old_statements()

    def _old_statements(self) -> list[int]:
        """Return the sessions whose statements run for OLD_STATEMENT_SECONDS or longer, and wait for no lock."""
        threads = []
        for session, user, _host, _schema, command, seconds, state, info, *_ in query(self.guard, "SHOW PROCESSLIST"):
            idle = text(command) in _IDLE or text(user) == _SYSTEM_USER or text(state or b"").startswith("Waiting")
            if int(seconds or 0) >= OLD_STATEMENT_SECONDS and not (
                idle or text(info or b"").startswith(WAITING_READER)
            ):
                threads.append(int(session))
        return threads

    def _check_no_flush_pends(self) -> None:
        """Check the effects of a request for the global lock. Raises ReadLockNotGranted."""
        for session in self._old_statements():
            raise ReadLockNotGranted(
                self.endpoint.name,
                f"the statement of session {session}, which began when a global read lock was requested. Other "
                f"sessions that use its tables wait until it ends, or until `KILL QUERY {session}` ends it",
                self.blocked_seconds,
            )
