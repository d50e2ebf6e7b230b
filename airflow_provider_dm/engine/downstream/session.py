"""Connections to the target and the one way to run a transaction on it.

A thread keeps its connection: a Spark task and the next one on the same worker find it open. It belongs to one process
(a fork opens its own) and is pinged after it has been idle.

Transactions run at READ COMMITTED, on TiDB in pessimistic mode. A transaction is a function, because the machine may
have to run it again: after a deadlock, after a lost connection, and after a COMMIT whose answer was lost. In the last
case it is unknown whether it took effect, so the first statement of every body must detect that (frontier, chunk
progress, generation): it is lock, fence and memory in one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from airflow_provider_dm.engine.downstream.errors import (
    ComputedDiffers,
    RowTooLarge,
    TargetBusy,
    TargetLimit,
    TargetUnreachable,
    TargetWarned,
    is_clipping,
    message_of,
    number_of,
    redacted,
    translate,
    translate_connect,
)
from airflow_provider_dm.engine.downstream.row_statements import (
    MAX_BYTES,
    MAX_TRANSACTION_BYTES,
    Computing,
    Dialect,
    SqlStatement,
)
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.connection import Connection, connect, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import UNKNOWN_ERROR
from airflow_provider_dm.engine.mysql.errors import AccessDenied, PacketTooLarge, ServerUnreachable
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from airflow_provider_dm.engine.mysql.pinned import WRITING

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 60.0
"""The time during which one transaction is retried. After that the loop (or the scheduler) decides."""

# Harmless: syntax called deprecated (1287, 3719, 3778), "unsafe for statement format" where rows are logged (1592), a
# literal of bytes that mean nothing in their charset (1300): they are stored as they are, and converting is an error.
_IGNORED_WARNINGS: Final = frozenset({1287, 1300, 1592, 3719, 3778})

ENTRIES_BYTES: Final = 16
"""The bytes of a transaction in TiDB for each byte of its rows: a row has an entry for itself and for each index."""
ROW_BYTES: Final = 7
"""The bytes that TiDB stores at most for each byte of a row's literals: `1,` in a JSON array takes 13."""
_ROUND_A_STATEMENT: Final = 64
"""Bytes of a packet's header and of a statement's end, which are not counted."""
MOST_WARNINGS: Final = 65_535
WARN_DATA_TRUNCATED: Final = 1265
_TRUNCATED: Final = re.compile(r"'(?P<column>.+)'\D*(?P<row>\d+)\D*$", re.DOTALL)
"""Where, in a message of any language: "Data truncated for column 'c' at row 7"."""

T = TypeVar("T")


@dataclass
class _Session:
    connection: Connection
    dialect: Dialect
    pid: int
    used_at: float = field(default_factory=time.monotonic)

    def use(self) -> None:
        """Record that the server has answered just now."""
        self.used_at = time.monotonic()


class _Cache(threading.local):
    def __init__(self) -> None:
        self.sessions: dict[Endpoint, _Session] = {}


_cache: Final = _Cache()


def target_connection(endpoint: Endpoint) -> Connection:
    """Return this thread's connection, checked if it was idle. Raises TargetUnreachable (retry) or TargetDenied."""
    return _session(endpoint).connection


@contextmanager
def fresh_target(endpoint: Endpoint) -> Iterator[Connection]:
    """Open a new connection for one block, with the server's current settings.

    Raises the errors of `target_connection`.
    """
    connection = _open(endpoint).connection
    try:
        yield connection
    finally:
        connection.close()


def target_dialect(endpoint: Endpoint) -> Dialect:
    """Return the SQL dialect of this target."""
    return _session(endpoint).dialect


def close_target(endpoint: Endpoint) -> None:
    """Close this thread's connection; the next use opens a new one."""
    session = _cache.sessions.pop(endpoint, None)
    if session is not None and session.pid == os.getpid():
        with contextlib.suppress(pymysql.err.Error):
            session.connection.close()


def run_transaction(endpoint: Endpoint, body: Callable[[Connection], T], *, retry_seconds: float = RETRY_SECONDS) -> T:
    """Run BEGIN, `body(connection)`, COMMIT, and again after a transient error.

    The first statement of the body must detect whether an earlier attempt was committed.

    Raises the body's own errors after a ROLLBACK; TargetBusy or TargetUnreachable when `retry_seconds` ran out.
    """
    deadline = time.monotonic() + retry_seconds
    attempt = 0
    while True:
        try:
            return _attempt(endpoint, body)
        except (pymysql.err.Error, OSError, DmError) as raised:
            error = _as_dm_error(raised, endpoint)
            passes = isinstance(error, TargetBusy | TargetUnreachable)  # errors of the body's own checks are raised
            if not passes or time.monotonic() > deadline:
                raise error from raised
            attempt += 1
            delay = min(2.0, 0.02 * 2**attempt) * random.uniform(0.5, 1.0)
            log.warning("retrying the transaction in %.2f s (attempt %d): %s", delay, attempt, error)
            time.sleep(delay)


def execute(connection: Connection, statement: SqlStatement) -> int:
    """Execute the statement. Return the rows affected, as the server counts them under FOUND_ROWS.

    Raises the errors of `translate`, TargetWarned, TargetLimit, RowTooLarge, ComputedDiffers.
    """
    table, computing = str(statement.table), statement.computing
    try:
        affected, clipped = _run(connection, statement)
    except pymysql.err.Error as error:
        # From None: the driver's text may quote row values.
        if computing is not None and is_clipping(number_of(error), message_of(error), computing.columns):
            raise ComputedDiffers(table, computing.columns) from None  # the source clipped it without strict mode
        raise translate(error, table=table, statement=str(statement), key=statement.key) from None
    if computing is not None and (clipped or computing.lenient or computing.mapping.uncertain):
        _check_computed(connection, computing)
    return affected


def _run(connection: Connection, statement: SqlStatement) -> tuple[int, bool]:
    """Run the statement. Return (rows affected, whether a warning is about a generated column)."""
    with _session_mode(connection, statement.session_mode), connection.cursor() as cursor:
        affected, warned = _send(connection, cursor, statement)
        return affected, bool(warned or statement.invalid) and _check_warnings(connection, statement, warned)


@contextmanager
def _session_mode(connection: Connection, mode: str) -> Iterator[None]:
    """Give the session this sql_mode for one block; an empty one changes nothing."""
    if not mode:
        yield
        return
    query(connection, f"SET @dm_sql_mode = @@sql_mode, sql_mode = '{mode}'")
    try:
        yield
    finally:
        try:
            query(connection, "SET sql_mode = @dm_sql_mode")
        except pymysql.err.Error:
            with contextlib.suppress(pymysql.err.Error):
                connection.close()  # nothing else may be written in this mode


def _send(connection: Connection, cursor: Cursor, statement: SqlStatement) -> tuple[int, int]:
    """Return (rows affected, warnings)."""
    try:
        if statement.parameters is not None:
            assert isinstance(connection, GuardedConnection)
            return connection.execute_bulk(statement.sql, statement.parameters)
        affected = int(cursor.execute(statement.sql))  # type: ignore[call-overload]  # bytes are sent unchanged
        return affected, int(cursor.warning_count)
    except PacketTooLarge as error:
        table, key = str(statement.table), statement.key
        raise RowTooLarge(table, error.bytes, error.limit, key=key, statement=str(statement)) from None


def _check_computed(connection: Connection, computing: Computing) -> None:
    """Check generated values. Raises ComputedDiffers if the target computed other values than the source."""
    if not any(count(connection, statement) for statement in computing.differing()):
        return
    mapping = computing.mapping
    differing = [
        mapping.target_columns[index].name
        for index in mapping.computed
        if any(count(connection, statement) for statement in computing.differing([index]))
    ]
    raise ComputedDiffers(str(mapping.target.name), tuple(differing))


def count(connection: Connection, statement: SqlStatement) -> int:
    """Return the result of a `row_statements.count_rows` statement. Raises `translate`'s errors, RowTooLarge."""
    with connection.cursor() as cursor:
        try:
            _send(connection, cursor, statement)
        except pymysql.err.Error as error:
            raise translate(error, table=str(statement.table), statement=str(statement)) from None
        ((number,),) = cursor.fetchall()
    return int(number)


def _check_warnings(connection: Connection, statement: SqlStatement, warned: int) -> bool:
    """Return True if a warning is about a generated column.

    Raises TargetWarned for other warnings, except harmless ones and those that the statement expects; TargetLimit.
    """
    table = str(statement.table)
    computed = statement.computing.columns if statement.computing else ()
    met: set[tuple[str, int]] = set()
    clipped = False
    warnings = query(connection, "SHOW WARNINGS")
    for _level, number, message in warnings:
        text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        place = _TRUNCATED.search(text) if int(number) == WARN_DATA_TRUNCATED else None
        if place is not None and (place["column"], int(place["row"])) in statement.invalid:
            met.add((place["column"], int(place["row"])))
        elif computed and is_clipping(int(number), text, computed):
            clipped = True
        elif int(number) not in _IGNORED_WARNINGS and not _is_about_plan(connection, int(number)):
            raise TargetWarned(table, int(number), redacted(int(number), text), statement=str(statement))
    # The number after a bulk execution includes warnings inside triggers, which MariaDB does not show.
    shows_all = statement.parameters is not None and len(warnings) < MOST_WARNINGS
    if len(warnings) < warned and not shows_all:
        raise TargetLimit(
            f"the target has {warned} warnings for a statement on {table}, but shows only {len(warnings)} of them.",
            "Raise max_error_count there (1024 is usual), or grant the account SESSION_VARIABLES_ADMIN, to raise it.",
        )
    if met != statement.invalid:
        reason = "an ENUM's index 0 was written without the expected warning"
        raise TargetWarned(table, WARN_DATA_TRUNCATED, reason, statement=str(statement))
    return clipped


def _is_about_plan(connection: Connection, number: int) -> bool:
    return number == UNKNOWN_ERROR and server_info(connection).capabilities.warns_about_plans


def _attempt(endpoint: Endpoint, body: Callable[[Connection], T]) -> T:
    connection = target_connection(endpoint)
    try:
        connection.begin()
        result = body(connection)
        connection.commit()
    except DmError as error:
        if error.reaction is Reaction.RETRY:
            close_target(endpoint)
        else:
            _roll_back(endpoint, connection)
        raise
    except BaseException:
        # Close the connection: the server then rolls back its open transaction.
        close_target(endpoint)
        raise
    _cache.sessions[endpoint].use()
    return result


def _roll_back(endpoint: Endpoint, connection: Connection) -> None:
    try:
        connection.rollback()
    except (pymysql.err.Error, OSError):
        close_target(endpoint)


def _as_dm_error(error: Exception, endpoint: Endpoint) -> DmError:
    if isinstance(error, DmError):
        return error
    if isinstance(error, pymysql.err.Error):
        return translate(error, server=str(endpoint))
    return TargetUnreachable(str(endpoint), str(error))


def _session(endpoint: Endpoint) -> _Session:
    session = _cache.sessions.get(endpoint)
    if session is not None and session.pid != os.getpid():
        del _cache.sessions[endpoint]  # inherited by fork: the parent process uses it, so it is not closed
        session = None
    if session is not None and time.monotonic() - session.used_at > IDLE_SECONDS and not _answers(session):
        close_target(endpoint)
        session = None
    if session is None:
        session = _cache.sessions[endpoint] = _open(endpoint)
    return session


def _keep_all_warnings(connection: Connection) -> None:
    """Make MySQL keep all warnings, which needs a privilege. Without it, missing warnings are detected by their number
    (`_check_warnings`)."""
    try:
        query(connection, f"SET SESSION max_error_count = {MOST_WARNINGS}")
    except pymysql.err.MySQLError as error:
        if error.args[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise


def _limits(connection: Connection, queries: Sequence[str]) -> Iterator[int]:
    """Yield the limits that the server has and shows: TiDB Cloud hides its configuration."""
    for sql in queries:
        with contextlib.suppress(pymysql.err.OperationalError):
            ((limit,),) = query(connection, sql)
            if limit is not None and int(limit) > 0:
                yield int(limit)


def _transaction_bytes(connection: Connection, server: Capabilities) -> int:
    """Return the bytes of rows that a transaction may take."""
    limits = _limits(connection, server.transaction_limits)
    return min((MAX_TRANSACTION_BYTES, *(limit // ENTRIES_BYTES for limit in limits)))


def _statement_bytes(connection: GuardedConnection, server: Capabilities) -> int:
    """Return the bytes that a statement of several rows may take. A row above the limit is then in a statement of its
    own, whose error names its key."""
    limits = _limits(connection, server.row_limits)
    return min((connection.most_bytes, *(limit // ROW_BYTES for limit in limits))) - _ROUND_A_STATEMENT


def _answers(session: _Session) -> bool:
    try:
        session.connection.ping(reconnect=False)
    except (pymysql.err.Error, OSError):
        return False
    session.use()
    return True


def _open(endpoint: Endpoint) -> _Session:
    try:
        connection = connect(endpoint, isolation=WRITING)
        server = server_info(connection).capabilities
        if server.max_error_count_rises:
            _keep_all_warnings(connection)
        transaction_bytes = _transaction_bytes(connection, server)
        statement_bytes = _statement_bytes(connection, server)
    except (ServerUnreachable, AccessDenied) as error:
        raise translate_connect(error) from error
    except pymysql.err.Error as error:
        raise translate(error, server=str(endpoint)) from error
    most_bytes = min(MAX_BYTES, statement_bytes)
    dialect = Dialect(server, most_bytes, transaction_bytes=transaction_bytes, executes_bulk=connection.executes_bulk)
    return _Session(connection, dialect, os.getpid())
