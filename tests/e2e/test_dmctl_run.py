"""`dmctl run` on DM-format files: from a filled source to a verified target, interrupted, continued, written to."""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import Server
from testbed.equality import Comparison, Place, compare
from tests.conftest import FreshSchema
from tests.waiting import wait_for

from .dmctl import Dmctl, Files, processes_with, write_files

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]

ROUTES = """
  merge:
    schema-pattern: "{schema}*"
    table-pattern: "orders_*"
    target-schema: "{schema}"
    target-table: "orders"
"""


@pytest.fixture
def dmctl(tmp_path: Path) -> Dmctl:
    return Dmctl(tmp_path / "work")


@pytest.fixture
def schema(mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema) -> str:
    """Make two shards of orders and a table of many types on the source; an empty schema on the target."""
    name = fresh_schema(mysql_source, mariadb_target)
    mysql_source.sql(
        f"USE `{name}`;"
        "CREATE TABLE orders_0 (id BIGINT PRIMARY KEY, customer VARCHAR(40) NOT NULL, total DECIMAL(10,2), "
        "  at DATETIME(3), KEY (customer));"
        "CREATE TABLE orders_1 LIKE orders_0;"
        "CREATE TABLE things (a INT UNSIGNED, b VARCHAR(20), c BLOB, d DOUBLE, e ENUM('x','y'), f TIMESTAMP(6) NULL, "
        "  PRIMARY KEY (a, b));"
        "SET SESSION cte_max_recursion_depth = 100000;"
        "INSERT INTO orders_0 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        "  SELECT i * 2, CONCAT('c', i % 97), i / 7, '2024-02-29 12:00:00.123' FROM n;"
        "INSERT INTO orders_1 SELECT id + 1, customer, total, at FROM orders_0;"
        "INSERT INTO things VALUES (1, 'ä', x'00ff27', 1e-300, 'y', '2024-01-01 00:00:00.000001'), (1, '', NULL, NULL, "
        "  NULL, NULL), (4294967295, 'z', '', -0.1, 'x', '1970-01-02 00:00:00')"
    )
    return name


@pytest.fixture
def files(schema: str, mysql_source: Server, mariadb_target: Server, tmp_path: Path) -> Files:
    return write_files(
        tmp_path,
        target=mariadb_target,
        sources={"mysql-01": mysql_source},
        schemas=[schema],
        name=schema,
        routes=ROUTES.format(schema=schema),
        route_rules="[merge]",
    )


def assert_equal(schema: str, source: Server, target: Server, other: Server | None = None) -> None:
    """Every row, by the checker that shares no code with the engine. `other`: a source with one more shard."""

    def place(server: Server, table: str) -> Place:
        return Place(server.client_config(), f"{schema}.{table}")

    shards = [place(source, "orders_0"), place(source, "orders_1")]
    shards += [place(other, "orders_2")] if other else []
    merged = Comparison(tuple(shards), place(target, "orders"))
    report = compare([merged, Comparison((place(source, "things"),), place(target, "things"))])
    assert report.equal, report


@contextmanager
def writing(server: Server, schema: str, pause_seconds: float = 0.05) -> Iterator[Callable[[], None]]:
    """A writer that inserts, updates, deletes and moves keys. Yields the function that stops it."""
    stop = threading.Event()

    def write() -> None:
        with server.connect(database=schema) as connection, connection.cursor() as cursor:
            for number in range(1_000_000):
                key = 100_000 + 2 * number
                cursor.execute("INSERT INTO orders_0 VALUES (%s, 'new', 1.50, NOW(3))", [key])
                cursor.execute("UPDATE orders_0 SET total = total + 1 WHERE id <= %s", [2 + number % 40])
                cursor.execute("UPDATE orders_1 SET id = id + 200000 WHERE id = %s", [3 + 2 * number])
                cursor.execute("DELETE FROM orders_0 WHERE id = %s", [1000 + 2 * number])
                if stop.wait(pause_seconds):
                    return

    writer = threading.Thread(target=write, name="writer")
    writer.start()

    def end() -> None:
        stop.set()
        writer.join()

    try:
        yield end
    finally:
        end()


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str], seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"dmctl ended or hangs ({process.returncode}):\n{out}\n{err}")
        time.sleep(0.2)


def has_rows(server: Server, schema: str, table: str, at_least: int) -> bool:
    (exists,) = server.sql(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", [schema, table]
    )
    return bool(exists[0]) and server.sql(f"SELECT COUNT(*) FROM `{schema}`.`{table}`")[0][0] >= at_least


@pytest.fixture
def other(schema: str, mariadb_source: Server) -> Iterator[Server]:
    """A second source with one more shard."""
    mariadb_source.sql(
        f"CREATE DATABASE `{schema}`; USE `{schema}`; CREATE TABLE orders_2 (id BIGINT PRIMARY KEY, "
        "  customer VARCHAR(40) NOT NULL, total DECIMAL(10,2), at DATETIME(3), KEY (customer));"
        "INSERT INTO orders_2 VALUES (-1, 'c', 1, NULL), (-2, 'd', NULL, '2024-02-29 12:00:00.123')"
    )
    yield mariadb_source
    mariadb_source.sql(f"DROP DATABASE `{schema}`")


def test_a_dm_task_of_two_sources_is_verified_continues_and_lists_differences(
    dmctl: Dmctl, schema: str, mysql_source: Server, other: Server, mariadb_target: Server, tmp_path: Path
) -> None:
    """The first run is that of docs/merging-shards.md. Between the runs the relay log of a source is damaged."""
    files = write_files(
        tmp_path,
        target=mariadb_target,
        sources={"mysql-01": mysql_source, "mysql-02": other},
        schemas=[schema],
        name=schema,
        routes=ROUTES.format(schema=schema),
        route_rules="[merge]",
    )
    files.sources[0].write_text(files.sources[0].read_text().replace("enable-relay: false", "enable-relay: true"))
    files.task.rename(tmp_path / "orders.yaml")
    documented = shlex.split("dmctl run orders.yaml -s mysql-01.yaml -s mysql-02.yaml")[1:]
    run = [tmp_path / word if word.endswith(".yaml") else word for word in documented]
    first = dmctl(*run, "--json")

    assert first.code == 0, first.err
    assert first.answer["verified"] is True
    assert first.answer["rows"] == 6005
    assert {"precheck", "full_migration", "verify", "total"} <= first.answer[
        "seconds"
    ].keys()  # nothing is left to sync
    assert_equal(schema, mysql_source, mariadb_target, other)

    mysql_source.sql(f"USE `{schema}`; UPDATE orders_0 SET total = 9 WHERE id < 100; DELETE FROM things WHERE a = 1")
    damage_relay_log(dmctl, files.sources[0], mysql_source, schema)
    second = dmctl(*run, "--no-verify")

    assert second.code == 0, second.err
    assert "verified: every row is equal" not in second.out
    assert "full_migration" not in second.out
    assert_equal(schema, mysql_source, mariadb_target, other)
    logs = [path.read_text() for path in (dmctl.work / "tasks" / schema / "runs").glob("*/app.log")]
    assert any("pulling from the upstream: [DM-3003" in text for text in logs)
    assert not (dmctl.work / "tasks" / schema / "upstream" / "mysql-01").exists()

    mariadb_target.sql(f"UPDATE `{schema}`.things SET d = 5 WHERE a = 4294967295")
    third = dmctl(*run, "--json")

    assert third.code == 4, third.err
    assert third.answer["verified"] is False
    assert "things" in third.answer["msg"]


def damage_relay_log(dmctl: Dmctl, file: Path, source: Server, schema: str) -> None:
    """Pull a row whose bytes are then changed in the relay log, and a file after it."""
    source.sql(f"INSERT INTO `{schema}`.things VALUES (3, 'q', REPEAT('q', 900), 0, 'x', NULL); FLUSH BINARY LOGS")
    source.sql(f"INSERT INTO `{schema}`.things VALUES (4, 'd', NULL, 0, 'x', NULL)")
    newest, position = source.log_end()
    relay = dmctl.work / "relay" / "mysql-01"
    with dmctl.started("start-relay", "-s", "mysql-01", "--source-file", file) as process:
        wait_until(lambda: [path.stat().st_size for path in relay.glob(f"*/{newest}")] == [position], process)
        process.send_signal(signal.SIGINT)
        process.wait(240)
    (damaged,) = (path for path in relay.glob("*/*bin.*") if b"q" * 900 in path.read_bytes())
    assert damaged.name != newest
    damaged.write_bytes(damaged.read_bytes().replace(b"q" * 900, b"q" * 899 + b"r"))


def test_killed_and_interrupted_runs_continue_while_the_source_is_written_to(
    dmctl: Dmctl, files: Files, schema: str, mysql_source: Server, mariadb_target: Server
) -> None:
    with dmctl.started("run", *files.arguments, "--until", "forever") as process:
        wait_until(lambda: has_rows(mariadb_target, schema, "orders", 1), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_for(lambda: not processes_with(dmctl.work), seconds=180, every=0.2)

    with dmctl.started("run", *files.arguments, "--until", "forever", "--json") as process:
        wait_until(lambda: has_rows(mariadb_target, schema, "orders", 6000), process)
        mysql_source.sql(f"INSERT INTO `{schema}`.things VALUES (7, 'after', NULL, NULL, NULL, NULL)")
        wait_until(lambda: has_rows(mariadb_target, schema, "things", 4), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=400)
    assert process.returncode == 130, err
    assert "the same command again" in out
    assert processes_with(dmctl.work) == {}

    with writing(mysql_source, schema) as end, dmctl.started("run", *files.arguments, "--json") as process:
        wait_until(lambda: mariadb_target.sql(f"SELECT 1 FROM `{schema}`.orders WHERE customer = 'new'"), process)
        end()
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert '"verified": true' in out
    assert_equal(schema, mysql_source, mariadb_target)
