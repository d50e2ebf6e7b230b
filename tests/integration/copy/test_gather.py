"""Readers of one source open their snapshots at one location, and never leave its writers blocked.

A row is one transaction, so the number of commits before the location is the number of rows that each snapshot shows.
A writer's `lock_wait_timeout` is the clock, as in test_snapshot.py.
"""

import multiprocessing
import os
import signal
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy import gather, snapshot
from airflow_provider_dm.engine.copy import snapshot_reader as reading
from airflow_provider_dm.engine.copy.errors import NotGathered, ReadLockNotGranted, ReadLockNotPermitted, SnapshotLost
from airflow_provider_dm.engine.copy.gather import Gathered, Gathering, ReaderGroup, gathering
from airflow_provider_dm.engine.copy.snapshot import SourceLock
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader, snapshot_reader
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location
from airflow_provider_dm.engine.mysql.connection import connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.errors import SourceRefused
from testbed import Server
from tests.beside import beside
from tests.conftest import FreshSchema
from tests.integration.copy.test_snapshot import WRITER_SECONDS, insert, long_select, open_transaction, running
from tests.jobs import endpoint

READERS = 8
STATUS_READS = 150
PROCESSES = multiprocessing.get_context("fork")
USUAL = "SELECT, RELOAD, PROCESS, LOCK TABLES, REPLICATION CLIENT"
"""What an account for copies has. On MariaDB, `sql_log_bin` takes BINLOG ADMIN as well."""


def end_of(source: Endpoint) -> Location:
    with connected(source) as connection:
        return current_location(connection)


def commits(server: Server, since: Location) -> list[int]:
    """Return where each commit ends in the binlog, from `since` on: according to the log, after all writes."""
    events = server.sql(f"SHOW BINLOG EVENTS IN '{since.file}' FROM {since.position}")
    return [event[4] for event in events if event[2] == "Xid"]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LOCK_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(snapshot, "READ_LOCK_SECONDS", 3)  # a reader on a busy machine may be slow under the lock
    monkeypatch.setattr(gather, "DONE_SECONDS", 2.0)
    monkeypatch.setattr(reading, "WATCH_SECONDS", 0.1)


@pytest.fixture
def tables(source: Server, fresh_schema: FreshSchema) -> list[TableName]:
    schema = fresh_schema(source)
    source.sql("CREATE TABLE t (v INT); CREATE TABLE u (v INT)", database=schema)
    return [TableName(schema, "t"), TableName(schema, "u")]


def rows_of(reader: SnapshotReader, tables: list[TableName]) -> int:
    total = 0
    for table in tables:
        with reader.reading(table) as connection:
            ((rows,),) = query(connection, f"SELECT COUNT(*) FROM {table.quoted()}")
            total += int(rows)
    return total


@dataclass
class Readers:
    """Reader tasks, each a process as on a Spark executor. A task reports how many rows its snapshot shows; None if it
    does not take part."""

    source: Endpoint
    group: ReaderGroup
    tables: list[TableName]
    reports: Any = field(default_factory=PROCESSES.Queue)
    processes: dict[int, BaseProcess] = field(default_factory=dict)

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.processes[number] = PROCESSES.Process(target=self._run, args=(number,), daemon=True)
            self.processes[number].start()

    def _run(self, number: int) -> None:
        with snapshot_reader(self.source, self.group, number) as reader:
            takes_part = reader is not None and reader.wait_until_open()
            self.reports.put((number, rows_of(reader, self.tables) if reader and takes_part else None))

    def reported(self, number: int) -> dict[int, int | None]:
        return dict(self.reports.get(timeout=180) for _ in range(number))

    def signal(self, number: int, what: signal.Signals) -> None:
        pid = self.processes[number].pid
        assert pid is not None
        os.kill(pid, what)

    def end(self) -> None:
        for number, process in self.processes.items():
            if process.is_alive():
                self.signal(number, signal.SIGKILL)
            process.join()


@contextmanager
def readers_of(it: Gathering, tables: list[TableName]) -> Iterator[Readers]:
    readers = Readers(it.source, it.group, tables)
    try:
        yield readers
    finally:
        readers.end()


@contextmanager
def joined(it: Gathering) -> Iterator[Callable[[], SnapshotReader | None]]:
    """One reader in this process; yields what waits until it has been admitted or refused."""
    known, found = threading.Event(), list[SnapshotReader | None]()

    def run(ended: threading.Event) -> None:
        with snapshot_reader(it.source, it.group, 0) as reader:
            found.append(reader)
            known.set()
            ended.wait()

    def reader() -> SnapshotReader | None:
        assert known.wait(60)
        return found[0]

    with beside(run):
        yield reader


@contextmanager
def one_reader(it: Gathering, tables: list[TableName]) -> Iterator[SnapshotReader]:
    """A gather of one reader, open."""
    with joined(it) as reader:
        it.gather(tables)
        it.open()
        found = reader()
        assert found is not None
        yield found


@contextmanager
def writing(server: Server, tables: list[TableName]) -> Iterator[None]:
    """One row in each transaction, by two writers, none of which ever waits for as long as WRITER_SECONDS."""

    def write(table: TableName, ended: threading.Event) -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET SESSION lock_wait_timeout = {WRITER_SECONDS}")
            while not ended.is_set():
                cursor.execute(f"INSERT INTO {table.quoted()} VALUES (1)")

    with beside(*(partial(write, table) for table in tables)):
        yield


def gathered_by(it: Gathering, tables: list[TableName], numbers: int) -> tuple[Gathered, dict[int, int | None]]:
    with readers_of(it, tables) as readers:
        readers.start(*range(numbers))
        found = it.gather(tables)
        it.open()
        return found, readers.reported(numbers)


def lose_driver(server: Server, it: Gathering) -> None:
    ((session,),) = query(it.connection, "SELECT CONNECTION_ID()")
    server.sql(f"KILL {session}")


def account(server: Server, privileges: str) -> Endpoint:
    server.create_user("dm_gather", "pw", privileges=privileges)
    return Endpoint("one", server.host, server.port, "dm_gather", Secret("pw"))


# One location


@pytest.mark.parametrize(
    ("consistency", "privileges"),
    [(Consistency.AUTO, USUAL), (Consistency.LOCK, "ALL PRIVILEGES"), (Consistency.FLUSH, "ALL PRIVILEGES")],
)
def test_every_snapshot_shows_what_was_committed_before_the_location(
    source: Server, tables: list[TableName], consistency: Consistency, privileges: str
) -> None:
    here = account(source, privileges)
    since = end_of(here)
    with writing(source, tables), gathering(here, consistency, READERS) as it:
        found, rows = gathered_by(it, tables, READERS)
    assert found.readers
    assert found.tables == frozenset(tables)
    assert found.blocked_seconds > 0
    before = bisect_right(commits(source, since), found.location.position)
    assert rows == {number: before if number in found.readers else None for number in range(READERS)}


def test_an_open_transaction_and_a_long_select_delay_no_writer(source: Server, tables: list[TableName]) -> None:
    """On MySQL, LOCK TABLES waits for the transaction, and a flush would wait for the SELECT."""
    here, (t, u) = endpoint("one", source), tables
    with writing(source, [t]), gathering(here, Consistency.AUTO, 1) as it, joined(it):
        with long_select(source, t), open_transaction(source, u):
            if source.flavour == "mysql":
                with pytest.raises(ReadLockNotGranted, match=r"waiting for open transactions.*End transactions"):
                    it.gather(tables)
                assert running(source), "the SELECT was not killed"
            else:
                assert it.gather(tables).readers == {0}


def test_a_gather_succeeds_when_the_transaction_has_ended(
    mysql_source: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy of ReadLockNotGranted, between two requests for a lock."""
    mysql_source.sql("CREATE TABLE t (v INT)", database=schema)
    t, here = TableName(schema, "t"), account(mysql_source, "SELECT, LOCK TABLES, REPLICATION CLIENT")
    with open_transaction(mysql_source, t) as commit, gathering(here, Consistency.AUTO, 1) as it, joined(it):
        monkeypatch.setattr(snapshot, "LOCK_PAUSE_SECONDS", 0)
        monkeypatch.setattr(snapshot.log, "info", lambda *_: commit())  # a request was refused
        assert it.gather([t]).attempts > 1


def test_with_an_open_transaction_mysql_needs_a_flush_lock(source: Server, tables: list[TableName]) -> None:
    here = endpoint("one", source)
    since = end_of(here)
    with gathering(here, Consistency.AUTO, 2) as it, open_transaction(source, tables[1]) as commit:
        with writing(source, tables[:1]):
            found, rows = gathered_by(it, tables, 2)
        commit()
    assert (found.attempts > 1) == (source.flavour == "mysql")
    assert found.attempts == 1 or found.blocked_seconds >= snapshot.REQUEST_SECONDS  # that for LOCK TABLES came first
    assert rows == dict.fromkeys(range(2), bisect_right(commits(source, since), found.location.position))


@pytest.mark.parametrize("consistency", [Consistency.SNAPSHOT, Consistency.NONE, Consistency.AUTO])
@pytest.mark.parametrize("binlog_admin", ["", ", BINLOG ADMIN"])
def test_mariadb_locates_snapshots_without_a_lock(
    mariadb_source: Server, schema: str, consistency: Consistency, binlog_admin: str
) -> None:
    """With `auto`, for accounts that may take no lock."""
    mariadb_source.sql("CREATE TABLE t (v INT)", database=schema)
    tables, here = [TableName(schema, "t")], account(mariadb_source, f"SELECT, BINLOG MONITOR{binlog_admin}")
    since = end_of(here)
    with writing(mariadb_source, tables), gathering(here, consistency, READERS) as it:
        found, rows = gathered_by(it, tables, READERS)
    assert found.blocked_seconds == 0
    before = bisect_right(commits(mariadb_source, since), found.location.position)
    assert rows == {number: before if number in found.readers else None for number in range(READERS)}
    assert found.location.gtid_set


def test_mariadb_shows_a_snapshots_location_while_other_sessions_read_status(
    mariadb_source: Server, schema: str
) -> None:
    """Its sessions share the variables that show it."""
    mariadb_source.sql("CREATE TABLE t (v INT)", database=schema)
    since, shown = end_of(endpoint("one", mariadb_source)), list[tuple[BinlogSize, int]]()

    def monitor(ended: threading.Event) -> None:
        with mariadb_source.connect() as connection:
            while not ended.is_set():
                query(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")

    with ExitStack() as stack:
        stack.enter_context(writing(mariadb_source, [TableName(schema, "t")]))
        for _ in range(4):
            stack.enter_context(beside(monitor))
        connection = stack.enter_context(connected(endpoint("one", mariadb_source)))
        for _ in range(STATUS_READS):
            query(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            place = snapshot.snapshot_place("one", connection)
            ((rows,),) = query(connection, f"SELECT COUNT(*) FROM {quote(schema)}.t")
            shown.append((place, rows))
            query(connection, "COMMIT")
    ends = commits(mariadb_source, since)
    assert [bisect_right(ends, place.size) for place, _ in shown] == [rows for _, rows in shown]


def test_without_a_lock_all_snapshots_of_a_quiet_source_are_taken(mariadb_source: Server, schema: str) -> None:
    mariadb_source.sql("CREATE TABLE t (v INT); INSERT INTO t VALUES (1)", database=schema)
    with gathering(endpoint("one", mariadb_source), Consistency.NONE, READERS) as it:
        found, rows = gathered_by(it, [TableName(schema, "t")], READERS)
    assert found.location == end_of(endpoint("one", mariadb_source))
    assert rows == dict.fromkeys(range(READERS), 1)


@pytest.mark.parametrize("consistency", [Consistency.SNAPSHOT, Consistency.NONE])
def test_mysql_needs_a_lock(mysql_source: Server, consistency: Consistency) -> None:
    here = endpoint("one", mysql_source)
    with pytest.raises(NotSupportedYet, match="Choose auto, lock or flush"), gathering(here, consistency, 1):
        pass


def test_tables_that_do_not_exist_are_left_out(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.LOCK, 1) as it, joined(it):
        assert it.gather([*tables, TableName("a", "gone")]).tables == frozenset(tables)


@pytest.mark.parametrize(
    ("before", "at", "lock", "steady"),
    [
        (("b.000001", 4), ("b.000001", 4), SourceLock.GLOBAL, True),
        (("b.000001", 4), ("b.000001", 9), SourceLock.GLOBAL, False),
        (("b.000001", 4), ("b.000001", 9), SourceLock.TABLES, True),
        (("b.000001", 9), ("b.000002", 4), SourceLock.TABLES, True),
        (("b.000001", 9), ("b.000001", 4), SourceLock.TABLES, False),
        (("b.000001", 4), ("c.000001", 9), SourceLock.TABLES, False),
    ],
)
def test_both_ends_of_a_lock_are_compared(
    before: tuple[str, int], at: tuple[str, int], lock: SourceLock, *, steady: bool
) -> None:
    assert gather._is_steady(BinlogSize(*before), Location(*at), lock) is steady


# Who takes part


def test_a_late_reader_and_a_repeated_task_do_not_take_part(
    source: Server, tables: list[TableName], monkeypatch: pytest.MonkeyPatch
) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 3) as it, readers_of(it, tables) as readers:
        readers.start(0, 1)
        while it._holders("ready").keys() != {0, 1}:
            pass
        monkeypatch.setattr(gather, "READY_SECONDS", 0.5)
        found = it.gather(tables)
        readers.signal(1, signal.SIGKILL)
        while it._holders("done").keys() == {0, 1}:
            pass
        readers.start(2, 1)
        assert readers.reported(2) == {2: None, 1: None}
        it.open()
        assert readers.reported(1) == {0: 0}
    assert found.readers == {0, 1}


def test_a_frozen_reader_does_not_block_others(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 2) as it, readers_of(it, tables) as readers:
        readers.start(0, 1)
        it._wait_for_readers(lambda: False)
        readers.signal(1, signal.SIGSTOP)
        with writing(source, tables):
            found = it.gather(tables)
        it.open()
        assert found.readers == {0}
        assert readers.reported(1).keys() == {0}
        readers.signal(1, signal.SIGCONT)
        assert readers.reported(1) == {1: None}


def test_without_readers_no_lock_is_taken(
    source: Server, tables: list[TableName], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "FIRST_SECONDS", 0.1)
    with gathering(endpoint("one", source), Consistency.AUTO, 2) as it, pytest.raises(NotGathered):
        it.gather(tables)


def test_an_idle_reader_ends_with_its_driver(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 1) as it, readers_of(it, tables) as readers:
        readers.start(0)
        it._wait_for_readers(lambda: False)
        lose_driver(source, it)
        assert readers.reported(1) == {0: None}


def test_a_busy_reader_ends_with_its_driver(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 1) as it, one_reader(it, tables) as reader:
        assert reader.wait_until_open()
        lose_driver(source, it)
        while not reader.is_over:
            pass
        with pytest.raises(SnapshotLost, match="the driver has ended"):
            rows_of(reader, tables)


def test_readers_are_asked_to_end(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 1) as it:
        with one_reader(it, tables) as reader:
            assert it._holders("done").keys() == {0}
            it.close()
            while not reader.is_over:
                pass
            assert not reader.wait_until_open()
            assert rows_of(reader, tables) == 0
        while it._holders("done"):  # the server ends the session after its client has closed it
            pass


def test_a_frozen_driver_loses_the_lock(
    source: Server, tables: list[TableName], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the lock's session, the snapshots count for nothing, and the next gather succeeds."""
    here, released = endpoint("one", source), Gathering._released

    def freeze(it: Gathering, word: str, seconds: float) -> dict[int, int]:
        readers = released(it, word, seconds)
        insert(source, tables[0], 60)  # granted when the server has ended the lock's session
        return readers

    with gathering(here, Consistency.AUTO, 1) as it, joined(it), monkeypatch.context() as frozen:
        frozen.setattr(Gathering, "_released", freeze)
        with pytest.raises(NotGathered, match="the read lock was lost"):  # a second lock would be after the snapshots
            it.gather(tables)
    with gathering(here, Consistency.AUTO, 1) as it, one_reader(it, tables) as reader:
        assert rows_of(reader, tables) == 1


# Privileges


@pytest.mark.parametrize(
    ("consistency", "privileges", "missing"),
    [
        (Consistency.LOCK, "RELOAD, PROCESS", "LOCK TABLES"),
        (Consistency.FLUSH, "LOCK TABLES, PROCESS", "RELOAD"),
        (Consistency.AUTO, "PROCESS", "LOCK TABLES or RELOAD and PROCESS"),
        (Consistency.AUTO, "RELOAD", "LOCK TABLES or RELOAD and PROCESS"),
        (Consistency.LOCK, "LOCK TABLES", ""),
        (Consistency.FLUSH, "RELOAD, PROCESS", ""),
        (Consistency.AUTO, "LOCK TABLES", ""),
        (Consistency.AUTO, "RELOAD, PROCESS", ""),
    ],
)
def test_a_lock_that_is_not_permitted_is_named(
    source: Server, tables: list[TableName], consistency: Consistency, privileges: str, missing: str
) -> None:
    here = account(source, f"SELECT, REPLICATION CLIENT, {privileges}")
    with gathering(here, consistency, 1) as it, joined(it):
        if missing and (source.flavour == "mysql" or consistency is not Consistency.AUTO):
            with pytest.raises(ReadLockNotPermitted, match=missing):
                it.gather(tables)
        else:
            assert it.gather(tables).readers == {0}


# DDL beside a snapshot


@pytest.mark.parametrize("privileges", [USUAL, "ALL PRIVILEGES"])
def test_an_alter_does_not_wait_for_a_snapshot(source: Server, tables: list[TableName], privileges: str) -> None:
    """Only MariaDB, and without BINLOG ADMIN, loses the snapshot by it."""
    here, (t, u) = account(source, privileges), tables
    insert(source, t)
    with gathering(here, Consistency.AUTO, 1) as it, one_reader(it, tables) as reader:
        insert(source, t)
        assert rows_of(reader, tables) == 1
        source.sql(f"SET SESSION lock_wait_timeout = {WRITER_SECONDS}; ALTER TABLE {t.quoted()} ADD w INT")
        insert(source, u)
        if source.flavour == "mariadb" and privileges == USUAL:
            with pytest.raises(SnapshotLost, match="DDL waits"):
                rows_of(reader, [u])
            assert reader.is_over
        else:
            assert rows_of(reader, [u]) == 0
            assert not reader.is_over


def test_a_snapshot_whose_connection_breaks_is_lost(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 1) as it, one_reader(it, tables) as reader:
        source.sql(f"KILL {reader.me}")
        with pytest.raises(SnapshotLost, match="has ended before its round"):
            rows_of(reader, tables)


def test_a_failed_page_releases_its_table(source: Server, tables: list[TableName]) -> None:
    with gathering(endpoint("one", source), Consistency.AUTO, 1) as it, one_reader(it, tables) as reader:
        with pytest.raises(SourceRefused), reader.reading(tables[0]) as connection:
            query(connection, f"SELECT nothing(v) FROM {tables[0].quoted()}")
        source.sql(f"SET SESSION lock_wait_timeout = {WRITER_SECONDS}; ALTER TABLE {tables[0].quoted()} ADD w INT")
        assert rows_of(reader, tables[1:]) == 0
