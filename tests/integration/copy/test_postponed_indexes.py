"""Large tables get their plain indexes when their rows are there; a crash, DDL or the end of the task loses none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import begin_load, source_load
from airflow_provider_dm.engine.copy.migration import load_progress
from airflow_provider_dm.engine.downstream import ddl_execution, postponed_indexes
from airflow_provider_dm.engine.downstream.errors import IndexNotBuilt
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.postponed_indexes import build_postponed
from airflow_provider_dm.engine.downstream.removal import remove_progress
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.integration.copy.altering import Kit
from tests.integration.copy.migrations import Migration, differences, merging
from tests.jobs import endpoint

LARGE = """CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b VARCHAR(20), u INT, KEY by_a (a DESC, b), UNIQUE KEY u (u),
    KEY by_b (b(5)) COMMENT 'it''s'); INSERT INTO {name} SELECT seq + {first}, seq % 7, seq, seq FROM (
    WITH RECURSIVE seqs(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM seqs WHERE seq < 60) SELECT * FROM seqs) s;
    ANALYZE TABLE {name}"""


class Crash(Exception):
    """What ends a run at some point."""


def crash(*_args: object, **_keys: object) -> None:
    raise Crash


def indexes(server: Server, schema: str, table: str = "t") -> list[str]:
    sql = "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
    return sorted(str(name) for (name,) in server.sql(sql, [schema, table]))


def large(source: Server, target: Server, fresh_schema: FreshSchema, *more: str) -> tuple[Migration, str]:
    schema = fresh_schema(source)
    for sql in (LARGE.format(name="t", first=0), *more):
        source.sql(sql, database=schema)
    return small_chunks(Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta")), schema


def small_chunks(migration: Migration, rows: int = 20) -> Migration:
    """Return the migration with chunks so small that its tables are large."""
    task, instance = {"mydumpers": {"small": {"rows": rows}}}, {"mydumper-config-name": "small"}
    return replace(migration, task={**migration.task, **task}, instance={**migration.instance, **instance})


def crashes_at(migration: Migration, module: object, step: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, step, crash)
        migration.stops(Crash)


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Do something when the rows are there, but the load is not complete."""

    def first(target: Endpoint, fence: Fence, *, at_once: int) -> None:
        action()
        build_postponed(target, fence, at_once=at_once)

    monkeypatch.setattr(source_load, "build_postponed", first)


def test_postponed_indexes_are_built_after_the_rows(
    source: Server, target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration, schema = large(source, target, fresh_schema, LARGE.format(name="t2", first=0))
    seen: list[tuple[list[str], dict[str, Any]]] = []
    meanwhile(monkeypatch, lambda: seen.append((indexes(target, schema), load_progress(there, migration.ref("one")))))
    there = endpoint("target", target)
    postpones = target.flavour != "tidb"

    migration.finish()

    ((early, progress),) = seen
    assert early == (["PRIMARY", "u"] if postpones else ["PRIMARY", "by_a", "by_b", "u"])
    assert progress["phase"] == ("building indexes" if postpones else "applying the log")
    assert indexes(target, schema) == indexes(target, schema, "t2") == ["PRIMARY", "by_a", "by_b", "u"]
    assert differences(target, {f"{schema}.t": [(source, f"{schema}.t")]}).equal


STEPS = (
    (begin_load, "postpone"),
    (begin_load, "_begin_source"),
    (postponed_indexes, "close_target"),
    (source_load, "complete_load"),
)


@pytest.mark.parametrize(("module", "step"), STEPS)
def test_a_crash_loses_no_postponed_index(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema, module: object, step: str
) -> None:
    migration, schema = large(mysql_source, mariadb_target, fresh_schema)
    crashes_at(migration, module, step)

    migration.finish()

    assert indexes(mariadb_target, schema) == ["PRIMARY", "by_a", "by_b", "u"]


def test_postponed_indexes_are_built_although_a_user_has_added_another(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema
) -> None:
    migration, schema = large(mysql_source, mysql_target, fresh_schema)

    def crash_at_build(_: Connection, sql: str) -> None:
        if "ADD KEY" in sql:
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        before(patch, ddl_execution, "_send", crash_at_build)
        migration.stops(Crash)
    mysql_target.sql("ALTER TABLE t ADD KEY by_u (u, a)", database=schema)

    migration.finish()

    assert indexes(mysql_target, schema) == ["PRIMARY", "by_a", "by_b", "by_u", "u"]


@pytest.mark.parametrize(
    ("at", "ddl"),
    [
        ("between rounds", "DROP INDEX by_a ON t"),
        ("between rounds", "ALTER TABLE t RENAME TO t2"),
        ("between pages", "ALTER TABLE t DROP COLUMN b"),
    ],
)
def test_ddl_during_the_load_applies_to_postponed_indexes(one_kit: Kit, at: str, ddl: str) -> None:
    one_kit.write([LARGE.format(name="t", first=0)])
    one_kit.migration = small_chunks(one_kit.migration)

    one_kit.copy(at, lambda: one_kit.write([ddl]))
    one_kit.sync()

    one_kit.check()


def test_postponed_indexes_of_a_merged_table_are_built_once(
    source: Server, mariadb_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = fresh_schema(source)
    for first in (0, 1_000):
        shard = LARGE.format(name=f"t_{first}", first=first).replace("seq, seq FROM", f"seq, seq + {first} FROM")
        source.sql(shard, database=schema)
    migration = small_chunks(merging(mariadb_target, source, schema), rows=100)
    early: list[list[str]] = []
    meanwhile(monkeypatch, lambda: early.append(indexes(mariadb_target, schema)))

    migration.finish()

    assert early == [["PRIMARY", "u"]]
    assert indexes(mariadb_target, schema) == ["PRIMARY", "by_a", "by_b", "u"]


def test_indexes_that_a_foreign_key_needs_are_never_dropped(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = LARGE.format(name="child", first=0).replace("u INT,", "u INT, FOREIGN KEY by_u (u) REFERENCES t (id),")
    migration, schema = large(mysql_source, mysql_target, fresh_schema, child)
    early: list[list[str]] = []
    meanwhile(monkeypatch, lambda: early.append(indexes(mysql_target, schema) + indexes(mysql_target, schema, "child")))

    migration.finish()

    assert early == [indexes(mysql_target, schema) + indexes(mysql_target, schema, "child")]
    assert "by_a" in early[0]


def test_an_index_referenced_by_an_existing_table_is_not_dropped(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration, schema = large(mysql_source, mariadb_target, fresh_schema)
    child = "CREATE TABLE child (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES t (c))"
    mysql_source.sql("ALTER TABLE t ADD c INT, ADD KEY by_c (c); ANALYZE TABLE t", database=schema)
    mariadb_target.sql(f"CREATE DATABASE {schema}; USE {schema}; SET foreign_key_checks = 0; {child}")
    early: list[list[str]] = []
    meanwhile(monkeypatch, lambda: early.append(indexes(mariadb_target, schema)))

    migration.finish()

    assert early == [["PRIMARY", "by_a", "by_b", "by_c", "u"]] == [indexes(mariadb_target, schema)]


def test_without_the_alter_privilege_indexes_are_not_postponed(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema
) -> None:
    migration, schema = large(mysql_source, mysql_target, fresh_schema)
    mysql_target.create_user("dm_plain", "", privileges="SELECT, INSERT, UPDATE, DELETE, CREATE, DROP")

    replace(migration, target=replace(mysql_target, user="dm_plain")).finish()

    assert indexes(mysql_target, schema) == ["PRIMARY", "by_a", "by_b", "u"]


def test_removing_the_state_of_a_task_builds_them(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema, store: MetaStore
) -> None:
    migration, schema = large(mysql_source, mysql_target, fresh_schema)
    crashes_at(migration, source_load, "open_round")
    early = indexes(mysql_target, schema)

    remove_progress(store, endpoint("target", mysql_target), f"{schema}_meta", "test", ["one"], who="test")

    assert early == ["PRIMARY", "u"]
    assert indexes(mysql_target, schema) == ["PRIMARY", "by_a", "by_b", "u"]


@pytest.mark.parametrize("remedy", ["remove the cause", "execute it", "give it up"])
def test_an_index_that_the_target_rejects_is_the_last_step(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch, remedy: str
) -> None:
    """A table of MySQL may have 64 indexes."""
    migration, schema = large(mysql_source, mysql_target, fresh_schema)
    many = ", ".join(f"ADD KEY more{number} (a)" for number in range(62))
    fewer = ", ".join(f"DROP KEY more{number}" for number in range(4))
    with pytest.MonkeyPatch.context() as patch:
        meanwhile(patch, lambda: mysql_target.sql(f"ALTER TABLE t {many}", database=schema))
        caught = migration.stops(IndexNotBuilt, match=r"ADD KEY `by_a`.*1069")

    if remedy == "give it up":
        mysql_target.sql(f"UPDATE {schema}_meta.dm_subtask SET postponed_indexes = NULL")
    else:
        mysql_target.sql(f"ALTER TABLE t {fewer}", database=schema)
    if remedy == "execute it":
        mysql_target.sql(caught.sql)
    migration.finish()

    assert ("by_a" in indexes(mysql_target, schema)) == (remedy != "give it up")
