"""The model of a source's tables: the effect of each statement, and what is refused as uncertain."""

import pickle
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, Server
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.table_of_statements import Entry, entries
from tests.unit.ddl.tracked import (
    MARIADB,
    MYSQL,
    MYSQL_5,
    SERVERS,
    SESSION,
    T,
    U,
    after,
    collations,
    columns,
    lines,
    names,
    nullable,
)

# A value


def test_a_statement_returns_another_tracker_and_keeps_the_first() -> None:
    first = after("CREATE TABLE t (a int, b int, c int, KEY k (a, b))")
    statement = parse("ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)", 0, "shop")
    second = first.after(statement, SESSION)
    assert columns(first) == ["a int", "b int", "c int"]
    assert columns(second) == ["d int", "c int", "b bigint"]
    assert lines(second, "KEY") == ["KEY k (b)", "KEY c (c)"]


def test_equal_tables_are_equal_values_and_picklable() -> None:
    short = after("CREATE TABLE t (id SERIAL, a boolean)")
    long = after(
        "CREATE TABLE t (id bigint unsigned NOT NULL auto_increment, a tinyint(1) null, UNIQUE KEY id (id))"
        " ENGINE=InnoDB CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    )
    assert short == long
    assert pickle.loads(pickle.dumps(short)) == long
    assert Tracker.of(MYSQL, {T: short.create_sql(T)}, short.collations()) == short


CREATED = [one for one in entries() if one.expected.startswith("CreateTable(")]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: f"{server.flavour.value}{server.version[0]}")
@pytest.mark.parametrize("entry", CREATED, ids=lambda entry: entry.sql[:60])
def test_the_text_of_a_table_is_read_back_as_the_same_definition(entry: Entry, server: Server) -> None:
    session = replace(SESSION, sql_mode=SESSION.sql_mode | entry.sql_mode)
    statement = parse(entry.sql, entry.sql_mode, "shop")
    assert isinstance(statement, CreateTable)
    tracker = Tracker.of(server, {}, {statement.table.schema: "latin1_bin"}).after(statement, session)
    again = Tracker.of(server, {statement.table: tracker.create_sql(statement.table)}, tracker.collations())
    assert again == tracker
    assert again.create_sql(statement.table) == tracker.create_sql(statement.table)


@pytest.mark.parametrize("option", ["ENGINE_ATTRIBUTE='{\"a\": 1}'", "TABLESPACE `x y`", "SECONDARY_ENGINE='my own'"])
def test_a_table_option_that_is_no_word_is_read_back(option: str) -> None:
    tracker = after(f"CREATE TABLE t (a int) {option}")
    assert Tracker.of(MYSQL, {T: tracker.create_sql(T)}, tracker.collations()) == tracker


def test_other_tables_can_be_added_and_removed() -> None:
    tracker = after("CREATE TABLE t (a int)").with_table(U, "CREATE TABLE `any` (`b` int NOT NULL)")
    assert tracker.names() == {T, U}
    assert tracker.without([T, TableName("shop", "w")]).names() == {U}
    with pytest.raises(KeyError):
        tracker.without([T]).table(T)
    with pytest.raises(CannotTrack, match=r"shop\.u is not understood: the type FROB is not known"):
        tracker.with_table(U, "CREATE TABLE u (a FROB)")


# Views


def test_no_table_has_the_name_of_a_view() -> None:
    tracker = after("CREATE VIEW t AS SELECT 1", "CREATE TABLE IF NOT EXISTS t (a int)", "CREATE TABLE u (a int)")
    assert tracker.names() == {U}
    assert tracker.views() == {T}
    again = Tracker.of(MYSQL, {U: tracker.create_sql(U)}, tracker.collations(), tracker.views())
    assert again == tracker
    swapped = tracker.after(parse("RENAME TABLE t TO x, u TO t, x TO u", 0, "shop"), SESSION)
    assert swapped.names() == {T}
    assert swapped.views() == {U}
    assert swapped.after(parse("DROP VIEW IF EXISTS u, gone", 0, "shop"), SESSION).views() == frozenset()
    assert swapped.after(parse("DROP DATABASE shop", 0, ""), SESSION).views() == frozenset()


def test_a_created_table_replaces_a_view_of_its_name() -> None:
    """The catalogue may be of a later place than the log."""
    tracker = after("CREATE VIEW t AS SELECT 1", "CREATE TABLE t (a int)")
    assert tracker.names() == {T}
    assert not tracker.views()


@pytest.mark.parametrize(("case", "views"), [(0, 2), (1, 1), (2, 1)])
def test_views_are_compared_as_the_server_does_it(case: int, views: int) -> None:
    server = replace(MYSQL, lower_case_table_names=case)
    tracker = after("CREATE VIEW v AS SELECT 1", "CREATE VIEW V AS SELECT 1", server=server)
    assert len(tracker.views()) == views
    assert tracker.is_view(TableName("Shop", "V")) is (case != 0)


# Types


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (MYSQL, ["a int", "b year", "c json", "d tinyint(1)", "e int(10) unsigned zerofill", "f bigint unsigned"]),
        (MYSQL_5, ["a int(11)", "b year(4)", "c json", "d tinyint(1)", "e int(10) unsigned zerofill"]),
        (MARIADB, ["a int(11)", "b year(4)", "c longtext", "d tinyint(1)", "e int(10) unsigned zerofill"]),
    ],
    ids=["mysql", "mysql5", "mariadb"],
)
def test_types_are_shown_as_the_server_shows_them(server: Server, expected: list[str]) -> None:
    found = columns(
        after("CREATE TABLE t (a int, b year, c json, d bool, e int zerofill, f bigint unsigned)", server=server)
    )
    assert found[: len(expected)] == expected


def test_json_of_mariadb_is_a_text_with_a_check() -> None:
    tracker = after(
        "CREATE TABLE t (a json, b json check (b <> ''))", "ALTER TABLE t RENAME COLUMN a TO c", server=MARIADB
    )
    assert [check.expression for column in tracker.definition(T).columns for check in column.checks] == [
        "(json_valid(`c`))",
        "(b <> '')",
    ]
    assert collations(tracker) == ["utf8mb4_bin", "utf8mb4_bin"]


# Charsets


def test_the_default_of_utf8mb4_is_the_servers_or_the_sessions() -> None:
    create = "CREATE TABLE t (a char charset utf8mb4)"
    assert collations(after(create)) == ["utf8mb4_0900_ai_ci"]
    assert collations(after(create, server=MYSQL_5)) == ["utf8mb4_general_ci"]
    chosen = replace(SESSION, default_collations=(("utf8mb4", "utf8mb4_unicode_ci"),))
    assert collations(after(create, session=chosen)) == ["utf8mb4_unicode_ci"]


def test_utf8_is_called_as_the_server_calls_it() -> None:
    assert collations(after("CREATE TABLE t (a char charset utf8)", server=MYSQL_5)) == ["utf8_general_ci"]
    assert collations(after("CREATE TABLE t (a char charset utf8mb3)", server=MARIADB)) == ["utf8mb3_general_ci"]


def test_schemas_have_defaults_of_their_own() -> None:
    tracker = after(
        "CREATE DATABASE a CHARSET latin1",
        "CREATE TABLE a.t (c char)",
        "ALTER DATABASE a COLLATE ascii_bin",
        "CREATE TABLE a.u (c char)",
        "CREATE DATABASE b",
        "CREATE TABLE b.t (c char)",
    )
    found = {str(name): collations(tracker, name)[0] for name in tracker.names()}
    assert found == {"a.t": "latin1_swedish_ci", "a.u": "ascii_bin", "b.t": "utf8mb4_bin"}
    assert tracker.after(parse("DROP DATABASE a", 0, ""), SESSION).names() == {TableName("b", "t")}


# What may be NULL


def test_null_of_a_timestamp_is_decided_by_the_column_or_the_session() -> None:
    create = "CREATE TABLE t (a timestamp, b timestamp, c timestamp null, d datetime)"
    assert nullable(after(create)) == "a b c d"
    implicit = after(create, session=replace(SESSION, explicit_timestamp_defaults=False))
    assert nullable(implicit) == "c d"
    assert lines(implicit, "a timestamp") == [
        "a timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    ]
    unsaid = replace(SESSION, explicit_timestamp_defaults=None)
    with pytest.raises(CannotTrack, match="the TIMESTAMP a has neither NULL"):
        after(create, session=unsaid)
    assert nullable(after("CREATE TABLE t (a timestamp null, b timestamp not null)", session=unsaid)) == "a"


# Tables


def test_tables_change_places_by_renames() -> None:
    tracker = after("CREATE TABLE t (a int)", "CREATE TABLE new (b int)", "RENAME TABLE t TO old, new TO t")
    assert tracker.names() == {T, TableName("shop", "old")}
    assert names(tracker) == "b"
    assert after("CREATE TABLE t (a int)", "ALTER TABLE t RENAME TO x.y, ADD b int").names() == {TableName("x", "y")}


def test_a_table_like_another_has_all_but_its_foreign_keys() -> None:
    create = "CREATE TABLE t (a int, b text, UNIQUE (a), CHECK (a > 0), FOREIGN KEY (a) REFERENCES w (id))"
    tracker = after(create, "CREATE TABLE u LIKE t")
    assert tracker.table(U) == replace(tracker.table(T), name=U, has_foreign_keys=False)
    assert lines(tracker, "CHECK", U) == ["CONSTRAINT u_chk_1 CHECK (a > 0)"]


def test_tables_are_created_and_dropped() -> None:
    assert after("CREATE TABLE t (a int)", "TRUNCATE t").names() == {T}
    assert after("CREATE TABLE t (a int)", "CREATE TABLE u (a int)", "DROP TABLE t").names() == {U}
    assert after("CREATE TABLE t (a int)", "CREATE OR REPLACE SEQUENCE t", server=MARIADB).names() == frozenset()
    assert names(after("CREATE TABLE t (a int)", "CREATE OR REPLACE TABLE t (b int)", server=MARIADB)) == "b"


def test_partitions_that_become_tables() -> None:
    create = "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 2"
    tracker = after(create, "ALTER TABLE t CONVERT PARTITION p0 TO TABLE u", server=MARIADB)
    assert tracker.table(U) == replace(tracker.table(T), name=U)
    assert lines(tracker, "PARTITION", U) == []
    assert "PARTITION" not in after(create, "ALTER TABLE t REMOVE PARTITIONING").create_sql(T)


def test_names_are_compared_as_the_server_does() -> None:
    create = ("CREATE TABLE T (a int)", "CREATE TABLE t (a int)")
    assert len(after(*create).names()) == 2
    with pytest.raises(CannotTrack, match="exists already"):
        after(*create, server=replace(MYSQL, lower_case_table_names=1))
    lower = after("CREATE TABLE T (a int)", server=replace(MYSQL, lower_case_table_names=1))
    kept = after("CREATE TABLE T (a int)", server=replace(MYSQL, lower_case_table_names=2))
    assert lower.names() == {T}
    assert kept.names() == {TableName("shop", "T")}
    assert kept.table(T).name == TableName("shop", "T")


# What is written


def test_code_is_put_as_it_is_read_without_sql_mode() -> None:
    odd = replace(SESSION, sql_mode=STRICT_ALL_TABLES | ANSI_QUOTES | NO_BACKSLASH_ESCAPES)
    tracker = after("""CREATE TABLE t ("a" char(9) DEFAULT 'x\\', b int AS ("a" + 1))""", session=odd)
    assert lines(tracker, "DEFAULT 'x") == ["a char (9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'x\\\\'"]
    assert lines(tracker, "GENERATED") == ["b int GENERATED ALWAYS AS (a + 1) VIRTUAL"]


# What must not be guessed


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE t", "ALTER TABLE t ADD a int", "RENAME TABLE t TO u", "CREATE TABLE u LIKE t", "TRUNCATE t"],
)
def test_an_unknown_table_is_not_guessed(statement: str) -> None:
    with pytest.raises(CannotTrack, match=r"shop\.t is not known"):
        after(statement)


def test_a_missing_object_may_be_dropped_if_exists() -> None:
    for statement in ("DROP TABLE IF EXISTS t", "ALTER TABLE IF EXISTS t ADD a int", "RENAME TABLE IF EXISTS t TO u"):
        assert after(statement) == after()


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE TABLE u AS SELECT 1 AS a", "come from a query"),
        ("CREATE TABLE t (a int)", "exists already"),
        ("CREATE TABLE x.u (a char)", "the default collation of the schema x is not known"),
        ("CREATE TABLE u (a varchar)", "a varchar has no length"),
        ("CREATE TABLE u (FOREIGN KEY (a) REFERENCES t (a))", "key's column a is not known"),
        ("CREATE TABLE u (a char CHARSET klingon)", "character set klingon is not known"),
        ("ALTER TABLE t DROP x", "column x is not known"),
        ("ALTER TABLE t ADD x int AFTER y", "column y is not known"),
        ("ALTER TABLE t ADD a int", "column a exists already"),
        ("ALTER TABLE t DROP KEY x", "key or constraint x is not known"),
        ("ALTER TABLE t MODIFY a int, CHANGE a b int", "changed twice"),
        ("ALTER TABLE t ADD KEY (x)", "key's column x is not known"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET ucs2", "the members of enum"),
        ("ALTER TABLE t DROP e, CHARSET latin1, CONVERT TO CHARACTER SET utf8", "another default in one statement"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3, ADD x text", "text for x in one statement"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT", "CHARACTER SET DEFAULT"),
    ],
)
def test_statements_with_an_uncertain_result_are_refused(statement: str, why: str) -> None:
    with pytest.raises(CannotTrack, match=why):
        after("CREATE TABLE t (a int, e enum('x', 'y'))", statement)


def test_lengths_that_are_not_given_or_too_long() -> None:
    tracker = after("CREATE TABLE t (a char, b decimal, c decimal(5), d bit, e binary, f datetime(0), g vector)")
    assert columns(tracker) == [
        "a char(1)", "b decimal(10,0)", "c decimal(5,0)", "d bit(1)", "e binary(1)", "f datetime", "g vector(2048)",
    ]  # fmt: skip
    tracker = after("CREATE TABLE t (a varchar(20000), b varchar(20000) charset latin1, c varbinary(70000))")
    assert columns(tracker) == ["a mediumtext", "b varchar(20000)", "c mediumblob"]
