"""A copy that dies, is stopped, or runs twice goes on from what is committed; nothing is lost, nothing is double."""

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.copy import migration as migration_module
from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.copy.begin import begin
from airflow_provider_dm.engine.copy.copier import copy_chunk
from airflow_provider_dm.engine.copy.design import TargetTableGone
from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.copy.keyless import SnapshotElsewhere
from airflow_provider_dm.engine.copy.loading import Source
from airflow_provider_dm.engine.copy.migration import Stopped
from airflow_provider_dm.engine.copy.writing import verb_for
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.target.copy_progress import load_chunks
from airflow_provider_dm.engine.target.identity import Fenced
from airflow_provider_dm.engine.target.session import target_connection
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, differences, endpoint

ROWS = 20_000


def filled(server: Server, schema: str) -> None:
    server.sql(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, w VARCHAR(40));"
        "INSERT INTO t (v, w) VALUES (1, 'a'), (2, 'b'), (3, 'c''d'), (4, NULL), (5, 'e');"
        + "INSERT INTO t (v, w) SELECT a.v, CONCAT(a.w, b.v) FROM t a, t b LIMIT 4000;" * 6
        + "CREATE TABLE keyless (v INT); INSERT INTO keyless SELECT v FROM t LIMIT 500",
        database=schema,
    )


def tables(source: Server, target: Server, schema: str) -> bool:
    report = differences(target, {f"{schema}.{name}": [(source, f"{schema}.{name}")] for name in ("t", "keyless")})
    assert report.equal, report
    return True


SLOWLY = """
import os, pathlib, pickle, sys
from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.copy.migration import Hooks, migrate
from airflow_provider_dm.engine.sync.runner import LocalRunner
page.FIRST_ROWS = page.MOST_ROWS = 20
migrate(JobSpec.read(pathlib.Path(sys.argv[1])), pickle.loads(bytes.fromhex(sys.argv[2])), Hooks(LocalRunner(2).run, 2))
"""


def test_a_process_killed_in_the_middle_is_continued(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    schema = fresh_schema(source)
    filled(source, schema)
    migration = Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta")
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
    assert tables(source, target, schema)


def test_a_stop_leaves_what_a_start_continues(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = fresh_schema(mysql_source)
    filled(mysql_source, schema)
    monkeypatch.setattr(migration_module, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(page, "MOST_ROWS", 1_000)
    migration = Migration(mariadb_target, {"one": mysql_source}, {"one": [schema]}, f"{schema}_meta")
    rounds = iter([False, False, True])

    stopped = migration.go(stop=lambda: next(rounds))
    result = migration.finish()

    assert isinstance(stopped, Stopped)
    assert 0 < stopped.result["rows"] < result["rows"]
    assert tables(mysql_source, mariadb_target, schema)


def test_what_the_log_is_needed_for_is_told_before_a_plan_stands(
    mysql_source: Server, mariadb_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    """Each source tells it by itself, though the next one fails: a relay log that nobody seems to need is purged."""
    schema, sources = fresh_schema(mysql_source, mariadb_source), {"one": mysql_source, "two": mariadb_source}
    for number, server in enumerate(sources.values()):
        server.sql(f"CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES ({number})", database=schema)
    migration = Migration(mariadb_target, sources, {"one": [schema], "two": [schema]}, f"{schema}_meta")
    told: list[tuple[str, Location]] = []

    def begun(source: str, start: Location) -> None:
        told.append((source, start))
        if source == "two":
            raise LookupError("the metadata DB is gone")

    for _ in range(2):  # the first source begins, and goes on the second time
        with pytest.raises(LookupError):
            migration.go(begun=begun)
    (first, p0), (second, _), *again = told
    assert (first, second) == ("one", "two")
    assert again[0] == (first, p0)
    chunks = {name: load_chunks(session, migration.ref(name))
              for session in [target_connection(endpoint("target", mariadb_target))] for name in sources}  # fmt: skip
    assert len(chunks["one"]) == 1
    assert chunks["two"] == []
    migration.finish()


def jobs(migration: Migration) -> list[ChunkJob]:
    """The chunks of a copy that has begun, as jobs under a new generation."""
    spec, fence = migration.spec, migration.claim()["one"]
    target = endpoint("target", migration.target)
    source = Source(spec.sources[0], spec.task.subtask("one"), endpoint("one", migration.sources["one"]), fence)
    (loading,) = begin(spec.task, [source], target, slots=2, begun=lambda _source, _start: None)
    mappings = {mapping.source.name: mapping for mapping in loading.design.mappings["one"]}
    chunks = load_chunks(target_connection(target), migration.ref("one"))
    return [
        ChunkJob(source.fence, chunk, mapping, verb_for(mapping, source.subtask.loader), 1, until=time.time() + 60)
        for chunk in chunks
        for mapping in [mappings[chunk.table]]
    ]


def test_two_attempts_of_one_chunk_at_once_write_every_row_once(
    source: Server, target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = fresh_schema(source)
    filled(source, schema)
    monkeypatch.setattr(page, "FIRST_ROWS", 50)
    monkeypatch.setattr(page, "MOST_ROWS", 200)
    migration = Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta")
    work = jobs(migration)
    here, there = endpoint("one", source), endpoint("target", target)
    (whole,) = (job for job in work if job.mapping.source.name.table == "keyless")
    with pytest.raises(SnapshotElsewhere, match=f"began on server gone, .*{schema}.keyless"):
        copy_chunk(replace(whole, server_uuid="gone"), here, there)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda job: copy_chunk(job, here, there), [job for job in work for _ in range(2)]))

    assert all(result.progress.done for result in results)
    assert tables(source, target, schema)


def test_an_older_generation_writes_nothing(
    mariadb_source: Server, mysql_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mariadb_source)
    filled(mariadb_source, schema)
    migration = Migration(mysql_target, {"one": mariadb_source}, {"one": [schema]}, f"{schema}_meta")
    stale = jobs(migration)
    migration.claim()

    for job in stale:
        with pytest.raises(Fenced):
            copy_chunk(job, endpoint("one", mariadb_source), endpoint("target", mysql_target))

    assert mysql_target.sql("SELECT COUNT(*) FROM t", database=schema) == [(0,)]
    assert migration.finish()["sources"]["one"]["resumed"]
    assert tables(mariadb_source, mysql_target, schema)


def test_a_target_table_that_is_gone_stops_a_copy_and_an_altered_source_table_does_not(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source)
    filled(mysql_source, schema)
    migration = Migration(mariadb_target, {"one": mysql_source}, {"one": [schema]}, f"{schema}_meta")
    jobs(migration)

    mariadb_target.sql("RENAME TABLE t TO elsewhere", database=schema)
    with pytest.raises(TargetTableGone):
        migration.go()
    mariadb_target.sql("RENAME TABLE elsewhere TO t", database=schema)
    mysql_source.sql("ALTER TABLE t ADD COLUMN extra INT", database=schema)
    result = migration.finish()["sources"]["one"]
    assert result["copied_again"] == {f"{schema}.t": 1}
    assert tables(mysql_source, mariadb_target, schema)
