"""The momentary read lock of a copy never leaves writers blocked.

A writer's `lock_wait_timeout` is the clock: an INSERT that waits longer fails with error 1205.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy import snapshot
from airflow_provider_dm.engine.copy.errors import ReadLockNotGranted
from airflow_provider_dm.engine.copy.snapshot import HeldLock, SourceLock, read_under_lock
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server, ServerSpec
from tests.beside import beside
from tests.conftest import FreshSchema, StartServers
from tests.integration.copy.migrations import Migration
from tests.jobs import endpoint

WRITER_SECONDS = 20
"""One request for a lock waits for one second. So much longer, as a busy machine may let a writer wait as well."""
BLOCKED_SECONDS = 5
"""More than the one second of a request and the queries under the lock."""
LOCK_DEADLOCK = 1213
_WAITING = "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'"
_LONG_SELECT = "FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"


@pytest.fixture
def tables(mysql_source: Server, fresh_schema: FreshSchema) -> list[TableName]:
    return made(mysql_source, fresh_schema(mysql_source))


def made(server: Server, schema: str) -> list[TableName]:
    server.sql("CREATE TABLE t (v INT); CREATE TABLE u (v INT); INSERT INTO t VALUES (1)", database=schema)
    return [TableName(schema, "t"), TableName(schema, "u")]


def end_of_log(held: HeldLock) -> Location:
    return current_location(held.connection)


def insert(server: Server, table: TableName, seconds: int = WRITER_SECONDS) -> None:
    server.sql(f"SET SESSION lock_wait_timeout = {seconds}; INSERT INTO {table.quoted()} VALUES (1)")


def running(server: Server) -> list[int]:
    """Return the sessions in which `long_select` runs."""
    return [one for (one,) in server.sql(f"SELECT id {_LONG_SELECT}")]


@contextmanager
def long_select(server: Server, table: TableName) -> Iterator[int]:
    """A SELECT that runs until the end of the block; yields its session once it is a second old."""

    def select() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(f"SELECT SLEEP(1000), COUNT(*) FROM {table.quoted()} WHERE v < 2")
            except pymysql.err.OperationalError as error:
                assert error.args[0] in {1317, 2013}  # noqa: PT017 - killed, which MySQL and MariaDB report differently

    thread = threading.Thread(target=select)
    thread.start()
    while not (found := server.sql(f"SELECT id {_LONG_SELECT} AND time >= 1")):
        pass
    try:
        yield found[0][0]
    finally:
        for session in running(server):
            server.sql(f"KILL QUERY {session}")
        thread.join()


@contextmanager
def open_transaction(server: Server, table: TableName) -> Iterator[Callable[[], None]]:
    """A transaction that has written to `table`; yields what commits it."""
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table.quoted()} VALUES (2)")
        yield connection.commit


@contextmanager
def writing(server: Server, table: TableName) -> Iterator[list[Exception]]:
    """One INSERT after the other by another session; yields what went wrong."""
    failed = list[Exception]()

    def write(ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                insert(server, table)
            except pymysql.err.MySQLError as error:
                failed.append(error)

    with beside(write):
        yield failed


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LOCK_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(snapshot, "FIRST_ATTEMPTS", 1)
    monkeypatch.setattr(snapshot, "LOCK_ATTEMPTS", 4)


def test_only_mysql_keeps_a_flush_that_has_timed_out(source: Server, fresh_schema: FreshSchema) -> None:
    """The facts that the order of the locks rests on: what a request leaves behind a SELECT, and what ends it."""
    table, _ = made(source, fresh_schema(source))
    with long_select(source, table) as select:
        source.sql(f"SET SESSION lock_wait_timeout = 1; LOCK TABLES {table.quoted()} READ")
        insert(source, table)  # when the server has noticed that the session has ended
        with source.connect() as flusher, flusher.cursor() as cursor:
            cursor.execute(f"SET SESSION lock_wait_timeout = {WRITER_SECONDS if source.flavour == 'mariadb' else 1}")
            if source.flavour == "mariadb":
                cursor.execute("FLUSH TABLES WITH READ LOCK")
            else:
                with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
                    cursor.execute("FLUSH TABLES WITH READ LOCK")
        if source.flavour == "mysql":
            for release in ("FLUSH TABLES", "UNLOCK TABLES"):  # and the flusher's session has ended
                with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
                    source.sql(f"SET SESSION lock_wait_timeout = 1; {release}; INSERT INTO {table.quoted()} VALUES (1)")
            source.sql(f"KILL QUERY {select}")
        insert(source, table)


def test_a_long_select_does_not_delay_the_start_without_gtids(start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("bare", "mysql", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")))
    server.sql("CREATE DATABASE a")
    tables = made(server, "a")
    with long_select(server, tables[0]), writing(server, tables[0]) as failed:
        found = read_under_lock(endpoint("one", server), tables, end_of_log)
        assert running(server)
        insert(server, tables[0])
    assert failed == []
    assert 0 < found.blocked_seconds < BLOCKED_SECONDS


@pytest.mark.parametrize("consistency", [Consistency.LOCK, Consistency.FLUSH])
def test_a_transaction_over_several_tables(
    mysql_source: Server, tables: list[TableName], consistency: Consistency, hurry: None
) -> None:
    """LOCK TABLES has one table and waits for another: MySQL rolls the transaction back that has it the other way."""
    t, u = tables
    found: list[object] = []

    def lock() -> None:
        found.append(read_under_lock(endpoint("one", mysql_source), tables, end_of_log, consistency))

    request = threading.Thread(target=lock)
    rolled_back = False
    with mysql_source.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {u.quoted()} VALUES (2)")
        request.start()
        while consistency is Consistency.LOCK and not mysql_source.sql(_WAITING):
            pass
        try:
            cursor.execute(f"INSERT INTO {t.quoted()} VALUES (2)")
            connection.commit()
        except pymysql.err.OperationalError as error:
            rolled_back = error.args[0] == LOCK_DEADLOCK
        connection.rollback()
    request.join()
    assert rolled_back == (consistency is Consistency.LOCK)
    assert len(found) == 1


def test_the_error_names_the_session_that_a_pending_flush_waits_for(
    mysql_source: Server, tables: list[TableName], hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SELECT that begins between the check and the flush. The remedy of the error lets the writers continue."""
    t, u = tables
    monkeypatch.setattr(snapshot._Locker, "_check_flush", lambda _locker: True)
    with long_select(mysql_source, t) as session, open_transaction(mysql_source, u):
        with pytest.raises(ReadLockNotGranted, match=f"KILL QUERY {session}") as blocked:
            read_under_lock(endpoint("one", mysql_source), tables, end_of_log)
        assert blocked.value.seconds >= snapshot.REQUEST_SECONDS
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
            insert(mysql_source, t, 1)
        mysql_source.sql(f"KILL QUERY {session}")
        insert(mysql_source, t)


def test_the_whole_request_is_bounded(
    mysql_source: Server, tables: list[TableName], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lock_wait_timeout` counts for each table; here a longer timeout simulates many tables."""
    monkeypatch.setattr(snapshot, "READ_LOCK_SECONDS", 100_000)
    here = endpoint("one", mysql_source)
    with connected(here) as guard, open_transaction(mysql_source, tables[0]):
        locker = snapshot._Locker(here, guard, CAPABILITIES[Flavour.MYSQL], tuple(SourceLock))
        with pytest.raises(snapshot._NotGranted):
            locker._request(SourceLock.TABLES, tables, end_of_log)


def test_a_process_that_freezes_loses_the_lock(mysql_source: Server, tables: list[TableName], hurry: None) -> None:
    """And what was read under the lost lock is read again."""
    reads = list[Any]()

    def read(held: HeldLock) -> Location:
        reads.append(held)
        if len(reads) == 1:
            insert(mysql_source, tables[0], 60)  # granted when the server has closed the lock's session
        return end_of_log(held)

    found = read_under_lock(endpoint("one", mysql_source), tables, read)
    assert len(reads) >= 2
    assert found.blocked_seconds >= snapshot.REQUEST_SECONDS


def test_tables_that_no_longer_exist_need_no_lock(mysql_source: Server, tables: list[TableName]) -> None:
    gone = TableName(tables[0].schema, "gone")
    read_under_lock(endpoint("one", mysql_source), [*tables, gone], end_of_log)
    assert read_under_lock(endpoint("one", mysql_source), [gone], end_of_log).blocked_seconds == 0


def test_the_result_has_how_long_writers_were_blocked(source: Server, target: Server, schema: str) -> None:
    made(source, schema)
    result = Migration.of(target, source, schema).finish()
    assert result["sources"]["one"]["writers_blocked_seconds"] > 0
