"""The low watermark: whatever the binlog holds before it, every later SELECT shows. Commits are slowed down, so that
many lie in the moment between binlog and visibility; the bare question for the position is shown to fail then."""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_dm.engine.copy.snapshot import table_snapshot
from airflow_provider_dm.engine.copy.watermark import high_watermark, low_watermark
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server, ServerSpec
from tests.conftest import FreshSchema, StartServers
from tests.integration.copy.migrations import endpoint

SLOW_COMMITS = ("--binlog-group-commit-sync-delay=150000",)


@contextmanager
def writers(server: Server, schema: str, number: int = 3) -> Iterator[None]:
    """One row in each transaction."""
    server.sql("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, w INT)", database=schema)
    ended = threading.Event()

    def write(writer: int) -> None:
        with server.connect(database=schema) as connection, connection.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("INSERT INTO t (w) VALUES (%s)", (writer,))
                time.sleep(0.001)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(number)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def commits(server: Server, since: Location) -> list[int]:
    """Return where each commit ends in the binlog, from `since` on: what the log says, asked when all is quiet."""
    events = server.sql(f"SHOW BINLOG EVENTS IN '{since.file}' FROM {since.position}")
    return [event[4] for event in events if event[2] == "Xid"]


def marked(endpoint: Endpoint, table: TableName) -> Location:
    return low_watermark(endpoint, [table]).value


def unmarked(endpoint: Endpoint, _table: TableName) -> Location:
    return high_watermark(endpoint)


def missed(server: Server, schema: str, ask: Callable[[Endpoint, TableName], Location], times: int) -> list[int]:
    """Return of each of `times` watermarks how many transactions before it were not visible right after."""
    here = endpoint("one", server)
    since = high_watermark(here)
    found: list[tuple[Location, int]] = []
    with writers(server, schema):
        for _ in range(times):
            location = ask(here, TableName(schema, "t"))
            found.append((location, server.sql("SELECT COUNT(*) FROM t", database=schema)[0][0]))
            time.sleep(0.07)
    ends = commits(server, since)
    return [max(0, bisect_right(ends, location.position) - visible) for location, visible in found]


def test_mariadb_and_mysql_show_all_that_lies_before(source: Server, fresh_schema: FreshSchema) -> None:
    assert missed(source, fresh_schema(source), marked, 20) == [0] * 20


def test_slow_commits_with_gtids(start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("slow", "mysql", SLOW_COMMITS))
    server.sql("CREATE DATABASE a; CREATE DATABASE b")

    bare = missed(server, "a", unmarked, 15)
    safe = missed(server, "b", marked, 15)

    assert any(bare), "the danger that low_watermark is made for was not there"
    assert safe == [0] * 15


def test_slow_commits_without_gtids(start_own: StartServers) -> None:
    off = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    (server,) = start_own(ServerSpec("slow", "mysql", SLOW_COMMITS + off))
    server.sql("CREATE DATABASE a")

    assert missed(server, "a", marked, 10) == [0] * 10


def test_a_snapshot_shows_the_table_exactly_at_its_location(source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source)
    here = endpoint("one", source)
    since = high_watermark(here)
    found = []
    with writers(source, schema):
        for _ in range(8):
            with table_snapshot(here, TableName(schema, "t")) as taken:
                with taken.connection.cursor() as cursor:
                    cursor.execute(f"SELECT COUNT(*) FROM {schema}.t")
                    found.append((taken.location, int(cursor.fetchall()[0][0])))

    ends = commits(source, since)
    assert [visible for _, visible in found] == [bisect_right(ends, at.position) for at, _ in found]
