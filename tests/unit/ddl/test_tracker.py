"""The model of a source's tables: what each statement makes of them, and what nobody may guess."""

from __future__ import annotations

import pickle

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
MYSQL_5 = Server(Flavour.MYSQL, (5, 7, 44))
MARIADB = Server(Flavour.MARIADB, (10, 11, 8))
SESSION = SessionDefaults(server_collation="utf8mb4_bin", explicit_timestamp_defaults=True)
T = TableName("shop", "t")


def after(*statements: str, server: Server = MYSQL, session: SessionDefaults = SESSION) -> Tracker:
    tracker = Tracker.of(server, {}, {"shop": "utf8mb4_bin"})
    for statement in statements:
        tracker = tracker.after(parse(statement, session.sql_mode, "shop"), session)
    return tracker


def columns(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{column.name} {column.column_type}" for column in tracker.table(name).columns]


def keys(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{key.name}({','.join(key.columns)})" for key in tracker.table(name).unique_keys]


def test_a_statement_gives_another_tracker_and_leaves_the_first() -> None:
    first = after("CREATE TABLE t (a int, b int, c int, KEY k (a, b))")
    statement = parse("ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)", 0, "shop")
    second = first.after(statement, SESSION)
    assert columns(first) == ["a int", "b int", "c int"]
    assert columns(second) == ["d int", "c int", "b bigint"]
    assert "KEY `k` ( `b` )" in second.create_sql(T)
    assert "KEY `c` ( `c` )" in second.create_sql(T)


def test_equal_tables_are_equal_values_and_travel() -> None:
    short = after("CREATE TABLE t (id SERIAL, a boolean)")
    long = after(
        "CREATE TABLE t (id bigint unsigned NOT NULL auto_increment, a tinyint(1) null, UNIQUE KEY id (id))"
        " ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    )
    assert short == long
    assert pickle.loads(pickle.dumps(short)) == long
    assert Tracker.of(MYSQL, {T: short.create_sql(T)}, {"shop": "utf8mb4_bin"}) == short


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (MYSQL, ["a int", "b year", "c json"]),
        (MYSQL_5, ["a int(11)", "b year(4)", "c json"]),
        (MARIADB, ["a int(11)", "b year(4)", "c longtext"]),
    ],
)
def test_types_are_those_of_the_server(server: Server, expected: list[str]) -> None:
    assert columns(after("CREATE TABLE t (a int, b year, c json)", server=server)) == expected


def test_a_table_that_is_not_known_is_nobodys_guess() -> None:
    for statement in ("DROP TABLE t", "ALTER TABLE t ADD a int", "RENAME TABLE t TO u", "CREATE TABLE u LIKE t"):
        with pytest.raises(CannotTrack, match=r"shop\.t is not known"):
            after(statement)
    assert after("DROP TABLE IF EXISTS t", "ALTER TABLE IF EXISTS t ADD a int") == after()


def test_tables_change_places_by_renames() -> None:
    tracker = after("CREATE TABLE t (a int)", "CREATE TABLE new (b int)", "RENAME TABLE t TO old, new TO t")
    assert tracker.names() == {T, TableName("shop", "old")}
    assert columns(tracker) == ["b int"]
