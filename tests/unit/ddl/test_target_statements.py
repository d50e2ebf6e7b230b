"""The statements of a target for a statement of the source (`carrying`): whole tables, ALTER TABLE, modes."""

from typing import Any

import pytest

from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import AlterTable, CreateTable
from airflow_provider_dm.engine.ddl.target_alter import one_by_one
from airflow_provider_dm.engine.ddl.write import statement_sql
from tests.unit.ddl.carrying import ALL, MARIADB, MYSQL, SAME, TIDB, UTF8_BIN, Way, carried, written
from tests.unit.ddl.table_of_statements import entries

# Tables as a whole


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("DROP TABLE a, ex_b, shop.c", ["DROP TABLE IF EXISTS one.a", "DROP TABLE IF EXISTS one.c"]),
        ("DROP TABLE t_1, t_2", ["DROP TABLE IF EXISTS one.t"]),
        ("DROP TABLE ex_a, other.b", []),
        ("TRUNCATE t_1", ["TRUNCATE TABLE one.t"]),
        ("TRUNCATE ex_t", []),
        ("RENAME TABLE a TO b, c TO d", ["RENAME TABLE one.a TO one.b", "RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE a TO x, b TO a, x TO b",
         ["RENAME TABLE one.a TO one.x", "RENAME TABLE one.b TO one.a, one.x TO one.b"]),
        ("RENAME TABLE a TO b, c TO d, e TO a",
         ["RENAME TABLE one.a TO one.b, one.e TO one.a", "RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE ex_a TO ex_b, c TO d", ["RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE t_1 TO t_2", []),
        ("CREATE TABLE ex_a (a int)", []),
    ],
)  # fmt: skip
def test_tables_are_routed_and_left_out_one_by_one(sql: str, statements: list[str]) -> None:
    assert written(sql) == statements


@pytest.mark.parametrize(
    ("sql", "to_mariadb", "to_mysql"),
    [
        ("CREATE INDEX IF NOT EXISTS i ON a (b) NOT IGNORED",
         ["CREATE INDEX IF NOT EXISTS i ON one.a (b)"], ["CREATE INDEX i ON one.a (b)"]),
        ("CREATE OR REPLACE INDEX i ON a (b)",
         ["CREATE OR REPLACE INDEX i ON one.a (b)"], ["DROP INDEX i ON one.a", "CREATE INDEX i ON one.a (b)"]),
        ("DROP INDEX IF EXISTS i ON a", ["DROP INDEX IF EXISTS i ON one.a"], ["DROP INDEX i ON one.a"]),
        ("ALTER TABLE IF EXISTS a DROP COLUMN IF EXISTS b, ADD COLUMN IF NOT EXISTS c int",
         ["ALTER TABLE IF EXISTS one.a DROP COLUMN IF EXISTS b, ADD COLUMN IF NOT EXISTS c int"],
         ["ALTER TABLE one.a DROP COLUMN b", "ALTER TABLE one.a ADD COLUMN c int"]),
        ("ALTER TABLE a ALTER INDEX i IGNORED",
         ["ALTER TABLE one.a ALTER INDEX i IGNORED"], ["ALTER TABLE one.a ALTER INDEX i INVISIBLE"]),
        ("ALTER TABLE a ADD KEY i (b) IGNORED",
         ["ALTER TABLE one.a ADD KEY i (b) IGNORED"], ["ALTER TABLE one.a ADD KEY i (b) INVISIBLE"]),
    ],
)  # fmt: skip
def test_syntax_of_mariadb_alone(sql: str, to_mariadb: list[str], to_mysql: list[str]) -> None:
    assert written(sql, (MARIADB, MARIADB)) == to_mariadb
    assert written(sql, (MARIADB, MYSQL)) == to_mysql


@pytest.mark.parametrize(
    ("sql", "because"),
    [
        ("RENAME TABLE a TO ex_a", "the new name shop.ex_a of shop.a: the rules exclude one of them"),
        ("RENAME TABLE ex_a TO a, b TO c", "the new name shop.a of shop.ex_a"),
        ("ALTER TABLE a RENAME TO ex_a", "the new name shop.ex_a of shop.a"),
        ("ALTER TABLE ex_a ADD b int, RENAME TO a", "shop.ex_a, which the rules exclude, and which becomes"),
        ("CREATE TABLE a LIKE b", "a statement of the kind CreateTableLike"),
        ("CREATE DATABASE shop", "a statement of the kind CreateDatabase"),
    ],
)
def test_tables_that_are_refused(sql: str, because: str) -> None:
    with pytest.raises(NotCopyable, match=because):
        carried(sql)


# ALTER TABLE


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("ALTER TABLE t_1 ADD b int, ALGORITHM=INSTANT, LOCK=NONE", "ADD COLUMN b int"),
        ("ALTER TABLE t_1 DROP b, DROP PRIMARY KEY", "DROP COLUMN b, DROP PRIMARY KEY"),
        ("ALTER TABLE t_1 ENGINE=InnoDB, COMMENT 'x' AUTO_INCREMENT=7", "COMMENT='x'"),
        ("ALTER TABLE t_1 DROP FOREIGN KEY t_1_ibfk_3, DROP CHECK t_1_chk_1, DROP CONSTRAINT t_1_ibfk_x",
         "DROP FOREIGN KEY t_ibfk_3, DROP CONSTRAINT t_chk_1, DROP CONSTRAINT t_1_ibfk_x"),
        ("ALTER TABLE t_1 RENAME TO u", "RENAME TO one.u"),
        ("ALTER TABLE t_1 RENAME TO t_2, DROP b", "DROP COLUMN b"),
        ("ALTER TABLE t_1 ADD KEY (a) USING HASH KEY_BLOCK_SIZE=8 VISIBLE", "ADD KEY (a)"),
        ("ALTER TABLE t_1 ADD UNIQUE k (a, (b + 1)) COMMENT 'x'", "ADD UNIQUE KEY k (a, (b + 1)) COMMENT 'x'"),
        ("ALTER TABLE t_1 ADD PARTITION (PARTITION sleep VALUES LESS THAN (year('2020-01-01')))",
         "ADD PARTITION (PARTITION sleep VALUES LESS THAN (year('2020-01-01')))"),
        ("ALTER TABLE t_1 DROP PARTITION p", "DROP PARTITION p"),
        ("ALTER TABLE t_1 ALTER a SET DEFAULT 'x', ALTER b DROP DEFAULT",
         "ALTER COLUMN a SET DEFAULT 'x', ALTER COLUMN b DROP DEFAULT"),
        ("ALTER TABLE t_1 MODIFY a int FIRST, ALTER a SET DEFAULT 5, CHANGE b c int AFTER a, ALTER c SET DEFAULT 6",
         "MODIFY COLUMN a int DEFAULT 5 FIRST, CHANGE COLUMN b c int DEFAULT 6 AFTER a"),
        ("ALTER TABLE t_1 CONVERT TO CHARSET utf8mb4 COLLATE utf8mb4_bin",
         "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        ("ALTER TABLE t_1 ALTER a SET INVISIBLE, ALTER CHECK t_1_chk_2 NOT ENFORCED",
         "ALTER COLUMN a SET INVISIBLE, ALTER CHECK t_chk_2 NOT ENFORCED"),
    ],
)  # fmt: skip
def test_the_remaining_clauses_of_an_alter(sql: str, left: str) -> None:
    assert written(sql) == [f"ALTER TABLE one.t {left}"]


def test_a_new_default_charset_has_its_collation() -> None:
    """Else it is the one that the target's server has for it."""
    known = {"collation": lambda _: "utf8mb4_0900_ai_ci"}
    for options in ("CHARSET utf8mb4", "CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"):
        (made,) = written(f"ALTER TABLE a DEFAULT {options}", (MYSQL, MARIADB), **known)
        assert made == "ALTER TABLE one.a DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_520_nopad_ci"


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE a ENGINE=InnoDB",
        "ALTER TABLE a FORCE",
        "ALTER TABLE a AUTO_INCREMENT=9",
        "ALTER TABLE a ORDER BY b",
        "ALTER TABLE a ALGORITHM=INPLACE, LOCK=NONE",
        "ALTER TABLE a OPTIMIZE PARTITION p",
        "ALTER TABLE a DISABLE KEYS",
        "ALTER TABLE a",
        "ALTER TABLE ex_a DROP b",
        "ALTER TABLE ex_a RENAME TO ex_b",
    ],
)
def test_statements_without_effect_are_not_executed(sql: str) -> None:
    for source, target in ALL:
        assert written(sql, (source, target)) == []


@pytest.mark.parametrize(
    ("sql", "because"),
    [
        ("ALTER TABLE a DISCARD TABLESPACE", "DISCARD TABLESPACE, whose rows are not in the log"),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", "rows that move between the partition p and the table"),
        ("ALTER TABLE a CONVERT TABLE b TO PARTITION p VALUES LESS THAN (1)", "rows that move from the table shop.b"),
        ("ALTER TABLE a ENGINE=MyISAM", "the engine MyISAM"),
        ("ALTER TABLE a CONVERT TO CHARSET utf8mb4", "the default collation of CONVERT TO CHARACTER SET utf8mb4"),
        ("ALTER TABLE a ADD PARTITION (PARTITION p DATA DIRECTORY '/x')", "'DIRECTORY' in the partitions"),
        ("ALTER TABLE a PARTITION BY HASH (f(b))", "'f' in the partitions"),
        ("ALTER TABLE a ADD PARTITION (PARTITION p ENGINE = MyISAM)", "'ENGINE' in the partitions"),
        ("ALTER TABLE a ADD id int AUTO_INCREMENT PRIMARY KEY", "the numbers of `id`, whose order only"),
        ("ALTER TABLE a DATA DIRECTORY='/x'", "the table option DATA DIRECTORY=/x"),
        ("ALTER TABLE a ENCRYPTION='Y'", "the table option ENCRYPTION=Y"),
        ("ALTER TABLE a ADD KEY k ((sleep(b)))", "'sleep' in the expression"),
    ],
)  # fmt: skip
def test_alters_that_are_refused(sql: str, because: str) -> None:
    for source, target in SAME:
        with pytest.raises(NotCopyable, match=because.replace("(", r"\(").replace(")", r"\)")):
            carried(sql, (source, target))


def test_numbers_are_given_in_the_order_of_a_primary_key_within_a_family() -> None:
    sql = "ALTER TABLE a ADD id int AUTO_INCREMENT UNIQUE"
    assert written(sql, numbers_alike=lambda table: table == ("shop", "a")) == [
        "ALTER TABLE one.a ADD COLUMN id int AUTO_INCREMENT UNIQUE KEY"
    ]
    with pytest.raises(NotCopyable):
        carried(sql, (MYSQL, MARIADB), numbers_alike=lambda _: True)


def test_the_first_number_is_kept_where_rows_are_numbered() -> None:
    numbered = "ALTER TABLE a ADD id int AUTO_INCREMENT UNIQUE, AUTO_INCREMENT=9"
    assert written(numbered, numbers_alike=lambda _: True) == [
        "ALTER TABLE one.a ADD COLUMN id int AUTO_INCREMENT UNIQUE KEY, AUTO_INCREMENT=9"
    ]
    changed = "ALTER TABLE a MODIFY id int AUTO_INCREMENT, AUTO_INCREMENT=9"
    kept = {pair: "AUTO_INCREMENT=9" in "".join(written(changed, pair)) for pair in ((MYSQL, MARIADB), (MYSQL, TIDB))}
    assert kept == {(MYSQL, MARIADB): True, (MYSQL, TIDB): False}
    statement = parse(numbered, 0, "shop")
    assert isinstance(statement, AlterTable)
    with pytest.raises(NotCopyable, match="the numbers of existing rows"):
        one_by_one(statement.specs)


def test_tidb_gets_one_change_at_a_time_in_an_order_that_works() -> None:
    """The key is over a column that is added after it, and the dropped key over one that goes."""
    sql = "ALTER TABLE a RENAME TO b, ADD KEY k (y), ADD y int, DROP x, DROP KEY j, COMMENT 'c'"
    assert written(sql, (MYSQL, TIDB)) == [
        f"ALTER TABLE one.a {part}"
        for part in (
            "DROP KEY j",
            "ADD COLUMN y int",
            "DROP COLUMN x",
            "ADD KEY k (y)",
            "COMMENT='c'",
            "RENAME TO one.b",
        )
    ]
    for swap in (
        "RENAME COLUMN x TO y, RENAME COLUMN y TO x",
        "CHANGE x y int, DROP y",
        "ADD y int, CHANGE y z int",
        "RENAME KEY x TO y, RENAME KEY y TO x",
        "CHANGE y z int, ALTER y SET DEFAULT 5",
    ):
        assert len(written(f"ALTER TABLE a {swap}")) == 1
        with pytest.raises(NotCopyable, match="the name `y`, which has two meanings in the same statement"):
            carried(f"ALTER TABLE a {swap}", (MYSQL, TIDB))
    assert written("ALTER TABLE a RENAME KEY x TO y, DROP KEY y", (MYSQL, TIDB)) == [
        "ALTER TABLE one.a DROP KEY y",
        "ALTER TABLE one.a RENAME KEY x TO y",
    ]
    assert len(written("ALTER TABLE a DROP y, CHANGE x y int, MODIFY z int", (MYSQL, TIDB))) == 3
    for way in ((MYSQL, TIDB), (MARIADB, TIDB)):
        assert written("ALTER TABLE a ADD y int UNIQUE FIRST", way) == [
            "ALTER TABLE one.a ADD COLUMN y int FIRST",
            "ALTER TABLE one.a ADD UNIQUE KEY (y)",
        ]
    assert len(written("ALTER TABLE a ADD y int UNIQUE", (MYSQL, MYSQL))) == 1


# Modes


def test_code_keeps_its_mode_and_strings_are_written_for_it() -> None:
    sql = r"""ALTER TABLE "a" ADD "c" varchar(9) COLLATE ascii_bin DEFAULT 'x\' COMMENT 'y\', ADD CHECK ("c" <> '\')"""
    mode = ANSI_QUOTES | NO_BACKSLASH_ESCAPES
    (made,) = written(sql, sql_mode=mode)
    assert made == (
        r"ALTER TABLE one.a ADD COLUMN c varchar (9) CHARACTER SET ascii COLLATE ascii_bin DEFAULT 'x\' COMMENT 'y\', "
        r"""ADD CHECK ("c" <> '\')"""
    )


@pytest.mark.parametrize("way", ALL)
def test_every_statement_of_the_table_is_refused_or_can_be_read_again(way: Way) -> None:
    made = 0
    for entry in entries():
        if not entry.readable:
            continue
        try:
            found = carried(entry.sql, way, sql_mode=entry.sql_mode, columns={"x": "int"})
        except NotCopyable:
            continue
        for one in found.statements:
            assert parse(statement_sql(one, entry.sql_mode, way[1]), entry.sql_mode, "") == one
            assert all(table.schema == "one" for table in one.tables)
            made += 1
    assert made > 90


def test_strict_collations_are_carried_or_stop() -> None:
    columns = {"c": "varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"}
    sql = "ALTER TABLE shop.t_1 ADD COLUMN c varchar(9)"
    with pytest.raises(NotCopyable, match=r"utf8mb4_0900_ai_ci, which .* \(collation_compatible is strict\)"):
        written(sql, (MYSQL, MARIADB), columns=columns, strict_collations=True)
    for way in ((MYSQL, MYSQL), (MYSQL, TIDB)):
        assert "COLLATE utf8mb4_0900_ai_ci" in written(sql, way, columns=columns, strict_collations=True)[0]


@pytest.mark.parametrize("sql", ["CREATE FULLTEXT INDEX f ON a (x)", "ALTER TABLE a ADD FULLTEXT KEY f (x)"])
def test_a_full_text_key_is_left_out_if_the_target_has_none(sql: str) -> None:
    made = carried(sql, (MYSQL, TIDB))
    assert (made.statements, made.notes) == ((), ("the FULLTEXT key f is left out",))
    assert written("CREATE TABLE a (x text, FULLTEXT KEY f (x))", (MYSQL, TIDB), columns={"x": f"text {UTF8_BIN}"}) == [
        "CREATE TABLE IF NOT EXISTS one.a (x text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)"
    ]
    assert len(carried(sql, (MYSQL, MYSQL)).statements) == 1


@pytest.mark.parametrize("default", ["x'e9'", "0xC3A9", "b'1000001'"])
def test_a_hexadecimal_text_default_is_refused_if_it_would_be_read_as_utf8(default: str) -> None:
    columns = {"c": "varchar(9) CHARACTER SET latin1 COLLATE latin1_bin"}
    for change in (f"ADD c varchar(9) DEFAULT {default}", f"ALTER c SET DEFAULT {default}"):
        with pytest.raises(NotCopyable, match="reads as text"):
            written(f"ALTER TABLE a {change}", (MYSQL, TIDB), columns=columns)
        assert len(written(f"ALTER TABLE a {change}", (MYSQL, MYSQL), columns=columns)) == 1
    assert len(written("ALTER TABLE a ADD c varchar(9) DEFAULT _utf8mb4'a'", (MYSQL, TIDB), columns=columns)) == 1


@pytest.mark.parametrize("default", ["0x00FF41", r"'\\0'", "'é'"])
def test_a_default_of_non_ascii_bytes_is_refused_if_it_would_be_read_as_text(default: str) -> None:
    sql = f"ALTER TABLE a ADD c varbinary(9) DEFAULT {default}"
    columns = {"c": f"varbinary(9) DEFAULT {default}"}
    with pytest.raises(NotCopyable, match="reads as text"):
        written(sql, (MYSQL, TIDB), columns=columns)
    assert len(written(sql, (MYSQL, MYSQL), columns=columns)) == 1


@pytest.mark.parametrize(
    ("collation", "becomes"),
    [("latin1_swedish_ci", "latin1_bin"), ("sjis_japanese_ci", "utf8mb4_bin"), ("ascii_general_ci", "ascii_bin")],
)
def test_a_collation_that_the_server_lacks_is_replaced(collation: str, becomes: str) -> None:
    columns = {"c": f"varchar(9) CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"}
    (sql,) = written("ALTER TABLE a ADD c varchar(9)", (MYSQL, TIDB), columns=columns)
    assert sql.endswith(f"c varchar (9) CHARACTER SET {becomes.partition('_')[0]} COLLATE {becomes}")
    with pytest.raises(NotCopyable, match=f"{collation}, which .* strict"):
        written("ALTER TABLE a ADD c varchar(9)", (MYSQL, TIDB), columns=columns, strict_collations=True)


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [("utf8mb4", "latin1", 2), ("ascii", "utf8mb4", 2), ("latin1", "utf8mb4", 1), ("utf8mb4", "utf8mb4", 1)],
)
def test_a_charset_that_tidb_changes_only_with_a_shorter_length(old: str, new: str, steps: int) -> None:
    before = parse(f"CREATE TABLE t (x varchar(9) CHARACTER SET {old} COLLATE {old}_bin NOT NULL DEFAULT 'a')", 0, "s")
    assert isinstance(before, CreateTable)
    columns = {"y": f"varchar(9) CHARACTER SET {new} COLLATE {new}_bin"}
    for target in (MYSQL, TIDB):
        found = written("ALTER TABLE a CHANGE x y varchar(9)", (MYSQL, target), columns=columns,
                        was=lambda _: before.definition)  # fmt: skip
        longer = f"ALTER TABLE one.a MODIFY COLUMN x longtext CHARACTER SET {old} COLLATE {old}_bin NOT NULL"
        assert found[:-1] == ([longer] if target is TIDB and steps == 2 else [])
        assert "CHANGE COLUMN x y varchar (9)" in found[-1]


def test_convert_to_is_executed_column_by_column_where_charsets_are_not_changed() -> None:
    before = parse("CREATE TABLE t (n int, x text CHARACTER SET latin1 COLLATE latin1_bin)", 0, "s")
    assert isinstance(before, CreateTable)
    columns = {"n": "int", "x": f"mediumtext {UTF8_BIN}"}
    sql = "ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, DEFAULT CHARSET utf8mb4"
    more: dict[str, Any] = {"columns": columns, "was": lambda _: before.definition}
    assert written(sql, (MYSQL, TIDB), **more) == [f"ALTER TABLE one.a MODIFY COLUMN x mediumtext {UTF8_BIN}"]
    assert carried(sql, (MYSQL, TIDB), **more).notes == ("the table's default character set stays",)
    assert "CONVERT TO" in written(sql, (MYSQL, MYSQL), **more)[0]
    with pytest.raises(NotCopyable, match="a new name and CONVERT TO"):
        carried(sql + ", RENAME COLUMN x TO y", (MYSQL, TIDB), **more)
