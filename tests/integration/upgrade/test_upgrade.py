"""A target as an older release left it is brought up, once, whoever comes first; and its tasks go on to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_dm.engine.target import meta_tables
from airflow_provider_dm.engine.target.claim import claim_generation
from airflow_provider_dm.engine.target.identity import Fence, Fenced, SubtaskRef
from airflow_provider_dm.engine.target.meta_tables import VERSION, MetaTablesNewer, ensure_meta_tables
from airflow_provider_dm.engine.target.session import close_target, run_transaction
from airflow_provider_dm.engine.target.subtask import note_location
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import endpoint
from tests.integration.upgrade import world

FOLDER = Path(__file__).parent


def record(name: str) -> world.Json:
    found: world.Json = json.loads((FOLDER / f"{name}.json").read_text())
    return found


@pytest.fixture
def old_source(mariadb_source: Server) -> Iterator[Server]:
    """Yield the source as the record's was when the task began."""
    mariadb_source.sql(f"DROP DATABASE IF EXISTS {world.SCHEMA}; CREATE DATABASE {world.SCHEMA}")
    world.write(mariadb_source, world.SETUP)
    yield mariadb_source
    mariadb_source.sql(f"DROP DATABASE {world.SCHEMA}")


@pytest.fixture
def old_target(mariadb_target: Server) -> Iterator[Server]:
    yield mariadb_target
    mariadb_target.sql(f"DROP DATABASE IF EXISTS {world.SCHEMA}; DROP DATABASE IF EXISTS {world.META_SCHEMA}")
    close_target(endpoint("target", mariadb_target))


def version(target: Server, schema: str) -> list[tuple[int, ...]]:
    return target.sql(f"SELECT version FROM {schema}.dm_version")


def test_a_copy_that_an_older_release_has_begun_is_finished(
    old_source: Server, old_target: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.place(old_source)
    world.load(old_target, record("left_mid_copy"), {"start": start})
    world.write(old_source, world.COPYING)
    task = world.migration(old_source, old_target, tmp_path)
    with world.syncing(task, tmp_path) as syncs:
        result = task.finish()
        assert syncs.run()
        world.write(old_source, world.AFTER)
        assert syncs.run()

    assert result["sources"]["one"]["resumed"]
    assert version(old_target, world.META_SCHEMA) == [(VERSION,)]
    assert world.compared(old_source, old_target).equal, world.compared(old_source, old_target)


def test_half_an_epoch_that_an_older_release_has_written_is_completed(
    old_source: Server, old_target: Server, tmp_path: Path
) -> None:
    names = {"start": world.place(old_source)}
    for name, transactions in (("lo", world.BEFORE), ("hi", world.EPOCH)):
        world.write(old_source, transactions)
        names[name] = world.place(old_source)
    world.load(old_target, record("left_mid_sync"), names)
    world.write(old_source, world.AFTER)
    task = world.migration(old_source, old_target, tmp_path)
    with world.syncing(task, tmp_path) as syncs:
        assert syncs.run()

    assert version(old_target, world.META_SCHEMA) == [(VERSION,)]
    assert world.compared(old_source, old_target).equal, world.compared(old_source, old_target)


def test_who_claimed_before_the_upgrade_cannot_write_any_more(old_source: Server, old_target: Server) -> None:
    names = dict.fromkeys(("start", "lo", "hi"), world.place(old_source))
    world.load(old_target, record("left_mid_sync"), names)
    server = endpoint("target", old_target)

    def write_as_the_older_run() -> None:
        fence = Fence(SubtaskRef(world.META_SCHEMA, "test", "one"), 3)
        run_transaction(server, lambda tx: note_location(tx, fence, names["lo"]))

    write_as_the_older_run()
    ensure_meta_tables(server, world.META_SCHEMA)

    with pytest.raises(Fenced):
        write_as_the_older_run()
    for name in ("dm_frontier", "dm_copy_chunk"):
        assert old_target.sql(f"SELECT DISTINCT generation FROM {world.META_SCHEMA}.{name}") == [(4,)]


@pytest.mark.parametrize("found", ["nothing", "version 1", "half of the last step"])
def test_whoever_comes_first_makes_the_tables_and_the_others_wait(
    old_target: Server, mysql_target: Server, unique_database: str, found: str
) -> None:
    for server in (old_target, mysql_target):
        if found != "nothing":
            server.sql(f"CREATE DATABASE `{unique_database}`")
            for name, create in record("left_mid_sync")["tables"].items():
                if name.startswith(world.META_SCHEMA):
                    server.sql(create, database=unique_database)
        if found.startswith("half"):
            ensure_meta_tables(endpoint("target", server), unique_database)
            server.sql("DELETE FROM dm_version", database=unique_database)

        def ensure(_number: int, server: Server = server) -> None:
            ensure_meta_tables(endpoint("target", server), unique_database)
            close_target(endpoint("target", server))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ensure, range(6)))

        assert version(server, unique_database) == [(VERSION,)]


def test_an_upgrade_whose_answer_was_lost_fences_nobody_who_has_claimed_since(
    old_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, server = fresh_schema(old_target), endpoint("target", old_target)
    ensure_meta_tables(server, schema)
    claim_generation(server, Fence(SubtaskRef(schema, "test", "one"), 1))
    monkeypatch.setattr(meta_tables, "_version", lambda *_: 1)  # as it was when the first attempt began

    ensure_meta_tables(server, schema)

    assert old_target.sql(f"SELECT generation FROM {schema}.dm_subtask") == [(1,)]
    assert version(old_target, schema) == [(VERSION,)]


def test_tables_of_a_newer_release_are_refused(old_target: Server, fresh_schema: FreshSchema) -> None:
    schema, server = fresh_schema(old_target), endpoint("target", old_target)
    ensure_meta_tables(server, schema)
    old_target.sql(f"UPDATE {schema}.dm_version SET version = {VERSION + 1}")

    with pytest.raises(MetaTablesNewer) as refused:
        ensure_meta_tables(server, schema)

    assert schema in str(refused.value)
