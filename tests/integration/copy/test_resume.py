"""A load that dies, is stopped, or runs twice continues from what is committed; nothing is lost, nothing is double."""

import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest

from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.copy.gather import Gathering
from airflow_provider_dm.engine.copy.read_round import ReadRound
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader
from airflow_provider_dm.engine.downstream.copy_progress import load_chunks
from airflow_provider_dm.engine.downstream.errors import Fenced, NoTargetTable
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.integration.copy.altering import hold_pages
from tests.integration.copy.migrations import Migration, assert_same, set_page_rows
from tests.jobs import endpoint


def filled(server: Server, schema: str) -> None:
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, w VARCHAR(40));"
        "INSERT INTO t (v, w) VALUES (1, 'a'), (2, 'b'), (3, 'c''d'), (4, NULL), (5, 'e');"
        + "INSERT INTO t (v, w) SELECT a.v, CONCAT(a.w, b.v) FROM t a, t b LIMIT 4000;" * 6
        + "CREATE TABLE keyless (v INT); INSERT INTO keyless SELECT v FROM t LIMIT 500",
        database=schema,
    )


SLOWLY = """
import os, pathlib, pickle, sys
from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.copy.migration import Hooks, load_all
from airflow_provider_dm.engine.sync.runner import LocalRunner
page.FIRST_ROWS = page.MOST_ROWS = 20
load_all(JobSpec.read(pathlib.Path(sys.argv[1])), pickle.loads(bytes.fromhex(sys.argv[2])), Hooks(LocalRunner(2)))
"""


def test_a_process_killed_in_the_middle_is_continued(
    source: Server, target: Server, schema: str, tmp_path: Path
) -> None:
    filled(source, schema)
    migration = Migration.of(target, source, schema)
    migration.spec.write(tmp_path / "job.json")
    arguments = [sys.executable, "-c", SLOWLY, str(tmp_path / "job.json"), pickle.dumps(migration.claim()).hex()]
    process = subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})
    chunks = f"{schema}_meta.dm_copy_chunk"
    while target.sql(f"SELECT COALESCE(SUM(rows_copied), 0) FROM {chunks}")[0][0] < 1_000 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    ((before,),) = target.sql("SELECT COUNT(*) FROM t", database=schema)

    result = migration.finish()

    assert 0 < before < result["sources"]["one"]["rows"]
    assert result["sources"]["one"]["resumed"]
    assert_same(source, target, schema, "t", "keyless")


def test_a_stop_leaves_what_a_start_continues(
    mysql_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(mysql_source, schema)
    set_page_rows(monkeypatch, 10)
    migration = Migration.of(mariadb_target, mysql_source, schema)
    stop = threading.Event()
    with monkeypatch.context() as patch:
        hold_pages(patch, lambda: None, stop.set)
        stopped = migration.go(stop=stop.is_set)
    monkeypatch.setattr(page, "MOST_ROWS", 1_000)
    result = migration.finish()

    assert not stopped.complete
    assert 0 < stopped.result["rows"] < result["rows"]
    assert_same(mysql_source, mariadb_target, schema, "t", "keyless")


def test_the_needed_location_is_reported_before_a_plan_is_stored(
    mysql_source: Server, mariadb_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    """Each source reports its own need, even if the next one fails: a relay log without a reported need is purged."""
    schema, sources = fresh_schema(mysql_source, mariadb_source), {"one": mysql_source, "two": mariadb_source}
    for number, server in enumerate(sources.values()):
        server.sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES ({number})", database=schema)
    migration = Migration.of(mariadb_target, sources, schema)
    reported: list[tuple[str, Location]] = []

    def begun(source: str, start: Location) -> None:
        reported.append((source, start))
        if source == "two":
            raise LookupError("the metadata DB is gone")

    for _ in range(2):
        migration.stops(LookupError, begun=begun)
    (first, place), (second, _), *again = reported
    assert (first, second) == ("one", "two")
    assert again[0][0] == first
    assert place.sort_key <= again[0][1].sort_key
    chunks = {name: load_chunks(session, migration.ref(name))
              for session in [target_connection(endpoint("target", mariadb_target))] for name in sources}  # fmt: skip
    assert chunks == {"one": [], "two": []}
    migration.finish()


def test_readers_that_claim_one_chunk_at_once_write_every_row_once(
    source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No chunk is taken by anybody: the chunk's row alone decides."""
    filled(source, schema)
    set_page_rows(monkeypatch, 50, 200)
    monkeypatch.setattr(ReadRound, "_taken", lambda _task, _chunk: nullcontext(True))
    migration = Migration.of(target, source, schema, runner=LocalRunner(4))

    result = migration.finish()

    assert result["rows"] == sum(
        source.sql(f"SELECT COUNT(*) FROM {name}", database=schema)[0][0] for name in ("t", "keyless")
    )
    assert_same(source, target, schema, "t", "keyless")


def test_chunks_of_a_reader_that_is_lost_are_copied_by_another_one(
    source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(source, schema)
    monkeypatch.setattr(page, "MOST_ROWS", 200)
    calls = count()

    def loses(reader: SnapshotReader, _table: TableName) -> None:
        if next(calls) == 3:
            source.sql(f"KILL {reader.me}")

    before(monkeypatch, SnapshotReader, "reading", loses)
    migration = Migration.of(target, source, schema)

    result = migration.finish()

    assert result["sources"]["one"]["rounds"] == 1
    assert_same(source, target, schema, "t", "keyless")


def test_a_run_that_was_replaced_writes_nothing(
    mariadb_source: Server, mysql_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(mariadb_source, schema)
    migration = Migration.of(mysql_target, mariadb_source, schema)
    opens = Gathering.open

    def is_replaced(gathering: Gathering) -> None:
        migration.claim()
        opens(gathering)

    with monkeypatch.context() as patch:
        patch.setattr(Gathering, "open", is_replaced)
        migration.stops(Fenced)

    assert mysql_target.sql("SELECT COUNT(*) FROM t", database=schema) == [(0,)]
    assert migration.finish()["sources"]["one"]["resumed"]
    assert_same(mariadb_source, mysql_target, schema, "t", "keyless")


def test_a_dropped_target_table_stops_a_resumed_load(mysql_source: Server, mariadb_target: Server, schema: str) -> None:
    filled(mysql_source, schema)
    migration = Migration.of(mariadb_target, mysql_source, schema)
    assert not migration.go(stop=lambda: True).complete

    mariadb_target.sql("RENAME TABLE t TO elsewhere", database=schema)
    migration.stops(NoTargetTable, match="no longer exists")
    mariadb_target.sql("RENAME TABLE elsewhere TO t", database=schema)
    migration.finish()
    assert_same(mysql_source, mariadb_target, schema, "t", "keyless")
