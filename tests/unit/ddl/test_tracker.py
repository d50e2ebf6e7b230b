"""The model of a source's tables: what each statement makes of them, and what nobody may guess."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, CannotTrack, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.table_of_statements import Entry, entries

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
MYSQL_5 = Server(Flavour.MYSQL, (5, 7, 44))
MARIADB = Server(Flavour.MARIADB, (10, 11, 8))
SERVERS = [MYSQL, MYSQL_5, MARIADB]
SESSION = SessionDefaults(STRICT_ALL_TABLES, server_collation="utf8mb4_bin", explicit_timestamp_defaults=True)
T = TableName("shop", "t")
U = TableName("shop", "u")


def after(*statements: str, server: Server = MYSQL, session: SessionDefaults = SESSION) -> Tracker:
    tracker = Tracker.of(server, {}, {"shop": "utf8mb4_bin"})
    for statement in statements:
        tracker = tracker.after(parse(statement, session.sql_mode, "shop"), session)
    return tracker


def columns(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{column.name} {column.column_type}" for column in tracker.table(name).columns]


def names(tracker: Tracker, name: TableName = T) -> str:
    return " ".join(column.name for column in tracker.table(name).columns)


def collations(tracker: Tracker, name: TableName = T) -> list[str | None]:
    return [column.collation for column in tracker.table(name).columns]


def nullable(tracker: Tracker) -> str:
    return " ".join(column.name for column in tracker.table(T).columns if column.nullable)


def keys(tracker: Tracker, name: TableName = T) -> list[str]:
    return [f"{key.name}({','.join(key.columns)})" for key in tracker.table(name).unique_keys]


def lines(tracker: Tracker, word: str, name: TableName = T) -> list[str]:
    """The lines of CREATE TABLE with this word, less densely written there than here."""
    shown = tracker.create_sql(name).replace("`", "").replace("( ", "(").replace(" )", ")").replace(" , ", ",")
    return [line.strip(" ,") for line in shown.splitlines() if word in line]


# A value


def test_a_statement_gives_another_tracker_and_leaves_the_first() -> None:
    first = after("CREATE TABLE t (a int, b int, c int, KEY k (a, b))")
    statement = parse("ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)", 0, "shop")
    second = first.after(statement, SESSION)
    assert columns(first) == ["a int", "b int", "c int"]
    assert columns(second) == ["d int", "c int", "b bigint"]
    assert lines(second, "KEY") == ["KEY k (b)", "KEY c (c)"]


def test_equal_tables_are_equal_values_and_travel() -> None:
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
def test_so_is_that_of_a_table_with_an_option_that_is_no_word(option: str) -> None:
    tracker = after(f"CREATE TABLE t (a int) {option}")
    assert Tracker.of(MYSQL, {T: tracker.create_sql(T)}, tracker.collations()) == tracker


def test_other_tables_can_be_put_in_and_taken_out() -> None:
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


def test_a_table_that_is_created_shows_that_a_view_is_gone() -> None:
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


def test_a_text_has_the_size_that_its_characters_need() -> None:
    tracker = after("CREATE TABLE t (a text(63), b text(64), c text(64) charset latin1, d blob(70000), e text(0))")
    assert columns(tracker) == ["a tinytext", "b text", "c tinytext", "d mediumblob", "e tinytext"]
    assert columns(after("CREATE TABLE t (e text(0))", server=MARIADB)) == ["e text"]


def test_lengths_that_are_not_said() -> None:
    tracker = after("CREATE TABLE t (a char, b decimal, c decimal(5), d bit, e binary, f datetime(0), g vector)")
    assert columns(tracker) == [
        "a char(1)", "b decimal(10,0)", "c decimal(5,0)", "d bit(1)", "e binary(1)", "f datetime", "g vector(2048)",
    ]  # fmt: skip


def test_what_is_too_long_for_a_varchar_is_a_text() -> None:
    tracker = after("CREATE TABLE t (a varchar(20000), b varchar(20000) charset latin1, c varbinary(70000))")
    assert columns(tracker) == ["a mediumtext", "b varchar(20000)", "c mediumblob"]


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


def test_a_column_has_its_tables_collation_or_that_of_the_charset_it_names() -> None:
    tracker = after(
        "CREATE TABLE t (a char, b char charset latin1, c char charset latin1 binary, d char collate ascii_bin, "
        "e char charset utf8, f nchar, g enum('x') binary) COLLATE latin1_bin"
    )
    utf8 = "utf8mb3_general_ci"
    assert collations(tracker) == [
        "latin1_bin", "latin1_swedish_ci", "latin1_bin", "ascii_bin", utf8, utf8, "latin1_bin",
    ]  # fmt: skip


def test_the_default_of_utf8mb4_is_the_servers_or_the_sessions() -> None:
    create = "CREATE TABLE t (a char charset utf8mb4)"
    assert collations(after(create)) == ["utf8mb4_0900_ai_ci"]
    assert collations(after(create, server=MYSQL_5)) == ["utf8mb4_general_ci"]
    chosen = replace(SESSION, default_collations=(("utf8mb4", "utf8mb4_unicode_ci"),))
    assert collations(after(create, session=chosen)) == ["utf8mb4_unicode_ci"]


def test_utf8_is_called_as_the_server_calls_it() -> None:
    assert collations(after("CREATE TABLE t (a char charset utf8)", server=MYSQL_5)) == ["utf8_general_ci"]
    assert collations(after("CREATE TABLE t (a char charset utf8mb3)", server=MARIADB)) == ["utf8mb3_general_ci"]


def test_text_under_the_charset_binary_is_bytes() -> None:
    tracker = after("CREATE TABLE t (a char(3), b varchar(9), c text(300), d enum('x')) CHARSET binary")
    assert columns(tracker) == ["a binary(3)", "b varbinary(9)", "c blob", "d enum('x')"]
    assert collations(tracker) == [None] * 4


def test_converted_text_still_holds_as_many_characters() -> None:
    tracker = after(
        "CREATE TABLE t (a tinytext, b text, c varchar(9), d varchar(30000), e blob, f int) CHARSET latin1",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    )
    assert columns(tracker) == ["a text", "b mediumtext", "c varchar(9)", "d mediumtext", "e blob", "f int"]
    assert set(collations(tracker)) == {"utf8mb4_0900_ai_ci", None}


def test_another_default_is_for_columns_to_come() -> None:
    tracker = after("CREATE TABLE t (a char)", "ALTER TABLE t CHARSET latin1, ADD b char", "ALTER TABLE t ADD c char")
    assert collations(tracker) == ["utf8mb4_bin", "latin1_swedish_ci", "latin1_swedish_ci"]


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


def test_keys_and_counters_are_not_null() -> None:
    create = "CREATE TABLE t (a int, b int, c int auto_increment unique, d int, primary key (b, a))"
    assert nullable(after(create)) == "d"
    assert nullable(after(create, "ALTER TABLE t DROP PRIMARY KEY, MODIFY a int")) == "a d"
    assert nullable(after(create, "ALTER TABLE t MODIFY a bigint")) == "d"


def test_a_timestamp_says_itself_whether_it_may_be_null_or_the_session_does() -> None:
    create = "CREATE TABLE t (a timestamp, b timestamp, c timestamp null, d datetime)"
    assert nullable(after(create)) == "a b c d"
    implicit = after(create, session=replace(SESSION, explicit_timestamp_defaults=False))
    assert nullable(implicit) == "c d"
    assert lines(implicit, "a timestamp") == [
        "a timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    ]
    unsaid = replace(SESSION, explicit_timestamp_defaults=None)
    with pytest.raises(CannotTrack, match="the timestamp a has neither NULL"):
        after(create, session=unsaid)
    assert nullable(after("CREATE TABLE t (a timestamp null, b timestamp not null)", session=unsaid)) == "a"


# ALTER TABLE


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("ADD d int", "a b c d"),
        ("ADD d int FIRST, ADD e int AFTER d", "d e a b c"),
        ("ADD d int AFTER a, ADD e int AFTER a", "a e d b c"),
        ("MODIFY c int FIRST, MODIFY a int AFTER b", "c b a"),
        ("CHANGE a b int, CHANGE b a int", "b a c"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "b a c"),
        ("DROP a, ADD a int", "b c a"),
        ("CHANGE A x int AFTER C, ADD y int AFTER X", "b c x y"),
        ("DROP b, DROP c, ADD (x int, y int)", "a x y"),
    ],
)
def test_columns_get_their_places(specs: str, expected: str) -> None:
    assert names(after("CREATE TABLE t (a int, b int, c int)", f"ALTER TABLE t {specs}")) == expected


def test_columns_leave_their_keys() -> None:
    create = "CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b), UNIQUE (b), UNIQUE u (c, b), KEY (b, c))"
    tracker = after(create, "ALTER TABLE t DROP b, RENAME COLUMN c TO d")
    assert keys(tracker) == ["PRIMARY(a)", "u(d)"]
    assert lines(tracker, "KEY b") == ["KEY b_2 (d)"]
    assert keys(after(create, "ALTER TABLE t DROP b, ADD b bigint FIRST")) == ["PRIMARY(a,b)", "b(b)", "u(c,b)"]


def test_a_prefix_that_is_the_whole_column_is_none() -> None:
    create = "CREATE TABLE t (a varchar(20), b text, UNIQUE (a(10), b(5)))"
    prefixes = [
        after(create, f"ALTER TABLE t MODIFY a {kind}").table(T).unique_keys[0].prefixes
        for kind in ("varchar(11)", "char(10)", "varchar(9)", "int")
    ]
    assert prefixes == [(10, 5), (None, 5), (None, 5), (None, 5)]


def test_a_text_is_in_its_keys_as_far_as_the_varchar_was() -> None:
    create = "CREATE TABLE t (a varchar(20), UNIQUE (a))"
    assert after(create, "ALTER TABLE t MODIFY a text").table(T).unique_keys[0].prefixes == (20,)
    assert after(create, "ALTER TABLE t MODIFY a text", server=MARIADB).table(T).hidden == 1


def test_what_was_an_enum_is_in_its_unique_key_with_one_character() -> None:
    create = "CREATE TABLE t (a enum('x', 'yz') CHARSET latin1, b enum('x', 'yz'), UNIQUE (a), UNIQUE (b))"
    alter = "ALTER TABLE t MODIFY a varchar(9), MODIFY b varchar(9)"
    assert [key.prefixes for key in after(create, alter).table(T).unique_keys] == [(1,), (None,)]
    assert [key.prefixes for key in after(create, alter, server=MARIADB).table(T).unique_keys] == [(None,), (None,)]


def test_keys_are_named_in_the_order_of_the_text() -> None:
    named = "UNIQUE x (b), CONSTRAINT y UNIQUE (b)"
    create = f"CREATE TABLE t (a int, b int UNIQUE, KEY (a), UNIQUE (a), UNIQUE (a, b), {named})"
    assert keys(after(create)) == ["a_2(a)", "a_3(a,b)", "b(b)", "x(b)", "y(b)"]
    altered = after(
        create, "ALTER TABLE t DROP KEY a_2, ADD UNIQUE (a), RENAME KEY x TO z", "CREATE UNIQUE INDEX i ON t (A)"
    )
    assert keys(altered) == ["a_2(a)", "a_3(a,b)", "b(b)", "i(a)", "y(b)", "z(b)"]


def test_a_foreign_key_brings_an_index_until_there_is_another() -> None:
    named = "CONSTRAINT f FOREIGN KEY (b) REFERENCES u (id)"
    create = f"CREATE TABLE t (a int, b int, FOREIGN KEY (a) REFERENCES u (id), {named})"
    tracker = after(create)
    assert lines(tracker, "KEY a") + lines(tracker, "KEY f") == ["KEY a (a)", "KEY f (b)"]
    assert tracker.table(T).has_foreign_keys
    tracker = after(create, "ALTER TABLE t ADD KEY k (a, b)", "RENAME TABLE t TO w")
    name = TableName("shop", "w")
    assert [line.split(" (")[0] for line in lines(tracker, "KEY", name)] == [
        "KEY f", "KEY k", "CONSTRAINT f FOREIGN KEY", "CONSTRAINT w_ibfk_1 FOREIGN KEY",
    ]  # fmt: skip
    tracker = tracker.after(parse("ALTER TABLE w DROP FOREIGN KEY f, DROP CONSTRAINT w_ibfk_1", 0, "shop"), SESSION)
    assert not tracker.table(name).has_foreign_keys


def test_a_key_beside_a_longer_one_was_made_by_hand() -> None:
    shown = "CREATE TABLE t (a int, b int, KEY a (a), KEY k (a, b), CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id))"
    tracker = after().with_table(T, shown)
    assert lines(tracker, "KEY a") == ["KEY a (a)"]
    altered = tracker.after(parse("ALTER TABLE t ADD c int, ADD KEY (a, c)", 0, "shop"), SESSION)
    assert [line.split(" (")[0] for line in lines(altered, "KEY")][:3] == ["KEY a", "KEY k", "KEY a_2"]


def test_a_foreign_key_follows_the_names_it_points_to() -> None:
    tracker = after(
        "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (id) ON DELETE RESTRICT ON UPDATE CASCADE)",
        "ALTER TABLE u CHANGE id number bigint, RENAME TO v",
    )
    assert lines(tracker, "REFERENCES") == [
        "CONSTRAINT t_ibfk_1 FOREIGN KEY (a) REFERENCES shop.v (number) ON UPDATE CASCADE"
    ]


def test_an_engine_without_foreign_keys_keeps_the_index() -> None:
    tracker = after("CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (id)) ENGINE=MyISAM")
    assert not tracker.table(T).has_foreign_keys
    assert lines(tracker, "KEY") == ["KEY a (a)"]


def test_mariadb_hides_a_hash_for_a_unique_key_that_is_too_long() -> None:
    create = (
        "CREATE TABLE t (a text, b varchar(769), c varchar(768), UNIQUE (a), UNIQUE (b), UNIQUE (c), UNIQUE (a(9)))"
    )
    tracker = after(create, server=MARIADB)
    assert tracker.table(T).hidden == 2
    assert after(create, "ALTER TABLE t MODIFY a varchar(9)", server=MARIADB).table(T).hidden == 1


def test_mariadb_forgets_with_the_next_alter_that_a_hash_was_asked_for() -> None:
    create = "CREATE TABLE t (a int, UNIQUE (a) USING HASH)"
    assert after(create, server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t RENAME TO t", server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t COMMENT 'x'", server=MARIADB).table(T).hidden == 0


def test_what_is_there_already_or_not_at_all_does_nothing() -> None:
    before = after("CREATE TABLE t (a int, b int, KEY k (a))", server=MARIADB)
    for specs in (
        "ADD COLUMN IF NOT EXISTS A bigint", "DROP COLUMN IF EXISTS c", "MODIFY IF EXISTS c int",
        "CHANGE IF EXISTS c d int", "RENAME COLUMN IF EXISTS c TO d", "ADD KEY IF NOT EXISTS K (b)",
        "DROP KEY IF EXISTS x", "DROP CONSTRAINT IF EXISTS k", "DROP FOREIGN KEY IF EXISTS x",
    ):  # fmt: skip
        assert before.after(parse(f"ALTER TABLE t {specs}", 0, "shop"), SESSION) == before, specs
    for statement in ("CREATE TABLE IF NOT EXISTS t (x int)", "CREATE INDEX IF NOT EXISTS k ON t (b)"):
        assert before.after(parse(statement, 0, "shop"), SESSION) == before
    replaced = before.after(parse("CREATE OR REPLACE INDEX k ON t (b)", 0, "shop"), SESSION)
    assert lines(replaced, "KEY") == ["KEY k (b)"]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("ADD KEY (g), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g_2 (g)", "KEY g (g)"]),
        ("MODIFY COLUMN IF EXISTS g int UNIQUE, ADD KEY IF NOT EXISTS (g)", ["UNIQUE KEY g (g)", "KEY g_2 (g)"]),
        ("ADD UNIQUE g (e), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g (e)"]),
        ("ADD KEY g (e), ADD KEY IF NOT EXISTS (g)", ["KEY g (e)"]),
    ],
)
def test_keys_of_one_statement_are_there_already_for_their_own_kind(specs: str, expected: list[str]) -> None:
    """MariaDB 10.11 and 11.8 do it so."""
    tracker = after("CREATE TABLE t (e int, g int)", f"ALTER TABLE t {specs}", server=MARIADB)
    assert lines(tracker, "KEY") == expected


def test_older_servers_pass_over_what_they_do_not_have() -> None:
    create = "CREATE TABLE t (a int CHECK (a > 0), b int REFERENCES u (id), KEY (a DESC), CHECK (b > 0))"
    assert lines(after(create, server=MYSQL_5), "(a") == ["KEY a (a)"]
    assert not after(create, server=MYSQL_5).table(T).has_foreign_keys
    assert len(lines(after(create), "CHECK")) == 2
    assert after(create).table(T).has_foreign_keys


def test_invisible_and_generated_columns_are_marked() -> None:
    tracker = after(
        "CREATE TABLE t (a int INVISIBLE, b int AS (a + 1), c int AS (a) STORED, d int)",
        "ALTER TABLE t ALTER COLUMN d SET INVISIBLE, ALTER COLUMN a SET VISIBLE",
    )
    found = tracker.table(T).columns
    assert [(column.invisible, column.generated) for column in found] == [
        (False, False), (False, True), (False, True), (True, False),
    ]  # fmt: skip


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


def test_tables_come_and_go() -> None:
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


# What nobody may guess


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE t", "ALTER TABLE t ADD a int", "RENAME TABLE t TO u", "CREATE TABLE u LIKE t", "TRUNCATE t"],
)
def test_a_table_that_is_not_known_is_nobodys_guess(statement: str) -> None:
    with pytest.raises(CannotTrack, match=r"shop\.t is not known"):
        after(statement)


def test_what_is_not_there_may_be_dropped_if_exists() -> None:
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
        ("ALTER TABLE t CONVERT TO CHARACTER SET ucs2", "what the members of enum"),
        ("ALTER TABLE t DROP e, CHARSET latin1, CONVERT TO CHARACTER SET utf8", "another default in one statement"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb3, ADD x text", "text for x in one statement"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT", "CHARACTER SET DEFAULT"),
    ],
)
def test_what_is_not_certain_is_refused(statement: str, why: str) -> None:
    with pytest.raises(CannotTrack, match=why):
        after("CREATE TABLE t (a int, e enum('x', 'y'))", statement)
