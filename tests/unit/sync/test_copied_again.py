"""What DDL means for tables that were copied again behind it, for those that were gone there, and for the others."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.capabilities import capabilities_of
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.sync.ddl.schema_change import change_of
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables, Surroundings
from airflow_provider_dm.engine.target.table_schema import TableSchema

SERVER = Server(Flavour.MYSQL, (9, 7, 0))
RULES = SubtaskRules(
    BlockAllowRules.from_config(BlockAllowConfig(do_dbs=("shop",)), case_sensitive=False, meta_schema="dm_meta"),
    Router.from_config((), case_sensitive=False),
)
EARLY, AGAIN, LATE = "3", "5", "7"
"""Places of the log; the tables were copied again in the middle."""


def name(table: str) -> TableName:
    return TableName("shop", table)


def tables(*there: str, again: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> SubtaskTables:
    sql = "CREATE TABLE {} (id int NOT NULL PRIMARY KEY) COLLATE=utf8mb4_bin"
    tracker = Tracker.of(SERVER, {name(one): sql.format(one) for one in there}, {"shop": "utf8mb4_bin"})
    schemas = tuple(
        TableSchema(tracker.table(name(one)), name(one), AGAIN if one in again else "") for one in sorted(there)
    )
    return SubtaskTables(schemas, tracker, {name(one): AGAIN for one in (*again, *gone)})


def change(sql: str, before: SubtaskTables, at: str = EARLY) -> SchemaChange:
    around = Surroundings(RULES, capabilities_of(Flavour.MYSQL, (9, 7, 0)), SessionDefaults(), at)
    return change_of(parse(sql, 0, "shop"), before, around)


def names(found: SubtaskTables) -> list[str]:
    return [one.table.name.table for one in found.schemas]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE a ADD x int", "DROP TABLE a, x", "CREATE TABLE a (b int)", "CREATE TABLE x (b int)", "TRUNCATE a",
        "RENAME TABLE a TO x", "RENAME TABLE x TO a", "RENAME TABLE a TO tmp, x TO a, tmp TO x",
        "ALTER TABLE a ADD y int, RENAME TO x", "CREATE TABLE x LIKE a", "CREATE INDEX i ON a (id)",
    ],
)  # fmt: skip
def test_what_is_in_a_second_copy_is_done(sql: str) -> None:
    before = tables("a", again=("a",), gone=("x",))
    found = change(sql, before)
    assert found.statements == ()
    assert found.tables.schemas == before.schemas
    assert found.tables.tracker == before.tracker


def test_what_comes_of_a_copied_table_and_is_not_there_later_is_gone() -> None:
    before = tables("a", again=("a",))
    for sql in ("RENAME TABLE a TO x", "CREATE TABLE x LIKE a"):
        found = change(sql, before)
        assert found.tables.copied_again == {name("a"): AGAIN, name("x"): AGAIN}
        assert change("DROP TABLE x", found.tables).statements == ()


def test_a_table_that_becomes_a_copied_one_is_dropped() -> None:
    found = change("RENAME TABLE a TO old, b TO a", tables("a", "b", "old", again=("a", "old")))
    assert [one.sql for one in found.statements] == ["DROP TABLE IF EXISTS `shop`.`b`"]
    assert names(found.tables) == ["a", "old"]
    assert found.ended == (name("b"),)


def test_a_schema_that_was_dropped_leaves_what_was_copied_later() -> None:
    found = change("DROP DATABASE shop", tables("a", "b", again=("a",)))
    assert names(found.tables) == ["a"]
    assert found.tables.tracker.names() == {name("a")}


def test_behind_its_copy_a_table_is_followed_as_ever() -> None:
    before = tables("a", again=("a",), gone=("x",))
    found = change("ALTER TABLE a ADD y int", before, LATE)
    assert len(found.statements) == 1
    assert names(change("CREATE TABLE x LIKE a", before, LATE).tables) == ["a", "x"]
    assert names(change("RENAME TABLE a TO x", before, LATE).tables) == ["x"]
