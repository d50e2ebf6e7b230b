"""What a target runs for a statement of the source. Everything in `shop` goes to `one`, but for `shop.ex_…`; `t_1` and
`t_2` are merged into `t`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_dm.engine.ddl.copyable import NotCopyable
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.ddl.target_statements import ForTarget, for_target
from airflow_provider_dm.engine.ddl.write_statement import statement_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.table_of_statements import entries

MYSQL, MARIADB, TIDB = Flavour.MYSQL, Flavour.MARIADB, Flavour.TIDB
UTF8_BIN = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
Way = tuple[Flavour, Flavour]
SAME: list[Way] = [(MYSQL, MYSQL), (MARIADB, MARIADB)]
ACROSS: list[Way] = [(MYSQL, MARIADB), (MARIADB, MYSQL)]
ALL = [*SAME, *ACROSS]


def allows(table: TableName) -> bool:
    return table.schema == "shop" and not table.table.startswith("ex_")


def route(table: TableName) -> TableName:
    return TableName("one", "t" if table.table in ("t_1", "t_2") else table.table)


def carried(sql: str, way: Way = (MYSQL, MYSQL), *, sql_mode: int = 0, columns: Mapping[str, str] | None = None,
            **more: Any) -> ForTarget:  # fmt: skip
    """`columns`: how the source has resolved them, as CREATE TABLE says it."""
    resolved = parse(
        f"CREATE TABLE t ({', '.join(f'`{k}` {v}' for k, v in (columns or {'x': 'int'}).items())})", 0, "s"
    )
    assert isinstance(resolved, CreateTable)
    known = {column.name: column for column in resolved.definition.columns}
    return for_target(
        parse(sql, sql_mode, "shop"),
        sql_mode=sql_mode,
        source=way[0],
        target=CAPABILITIES[way[1]],
        route=route,
        route_schema=lambda name: "one" if name == "shop" else None,
        allows=allows,
        resolve=lambda table, column: known.get(column),
        **more,
    )


def written(sql: str, way: Way = (MYSQL, MYSQL), **more: Any) -> list[str]:
    mode = more.get("sql_mode", 0)
    texts = [statement_sql(one, mode, way[1]) for one in carried(sql, way, **more).statements]
    return [text.replace("`", "").replace("( ", "(").replace(" )", ")").replace(" , ", ", ") for text in texts]


# Tables as a whole


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("DROP TABLE a, ex_b, shop.c", ["DROP TABLE IF EXISTS one.a", "DROP TABLE IF EXISTS one.c"]),
        ("DROP TABLE t_1, t_2", ["DROP TABLE IF EXISTS one.t"]),
        ("DROP TABLE ex_a, other.b", []),
        ("DROP SEQUENCE ex_a", []),
        ("TRUNCATE t_1", ["TRUNCATE TABLE one.t"]),
        ("TRUNCATE ex_t", []),
        ("RENAME TABLE a TO b, c TO d", ["RENAME TABLE one.a TO one.b", "RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE a TO x, b TO a, x TO b",
         ["RENAME TABLE one.a TO one.x", "RENAME TABLE one.b TO one.a, one.x TO one.b"]),
        ("RENAME TABLE a TO b, c TO d, e TO a",
         ["RENAME TABLE one.a TO one.b, one.e TO one.a", "RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE ex_a TO ex_b, c TO d", ["RENAME TABLE one.c TO one.d"]),
        ("RENAME TABLE t_1 TO t_2", []),
        ("CREATE TABLE a LIKE b", ["CREATE TABLE IF NOT EXISTS one.a LIKE one.b"]),
        ("CREATE TABLE t_1 LIKE t_2", []),
        ("CREATE TABLE ex_a LIKE b", []),
        ("CREATE TABLE ex_a AS SELECT 1", []),
        ("GRANT ALL ON *.* TO x", []),
        ("CREATE DATABASE shop CHARACTER SET latin1 ENCRYPTION 'N'",
         ["CREATE DATABASE IF NOT EXISTS one DEFAULT CHARSET=latin1"]),
        ("CREATE DATABASE other", []),
        ("ALTER DATABASE shop COLLATE utf8mb4_bin", ["ALTER DATABASE one COLLATE=utf8mb4_bin"]),
        ("ALTER DATABASE shop ENCRYPTION = 'N'", []),
    ],
)  # fmt: skip
def test_tables_are_routed_and_left_out_one_by_one(sql: str, statements: list[str]) -> None:
    assert written(sql) == statements


def test_a_dropped_schema_loses_the_tables_of_the_task_and_stays_itself() -> None:
    tables = [TableName("shop", "a"), TableName("shop", "ex_b"), TableName("shop", "t_1"), TableName("else", "c")]
    found = carried("DROP DATABASE shop", tables=tables)
    assert written("DROP DATABASE shop", tables=tables) == ["DROP TABLE IF EXISTS one.a", "DROP TABLE IF EXISTS one.t"]
    assert found.notes == ("the schema one stays, without the tables that came from shop",)
    assert written("DROP DATABASE other", tables=tables) == []


@pytest.mark.parametrize(
    ("sql", "to_mariadb", "to_mysql"),
    [
        ("CREATE OR REPLACE TABLE a (b int)",
         ["CREATE OR REPLACE TABLE one.a (b int)"], ["DROP TABLE IF EXISTS one.a", "CREATE TABLE one.a (b int)"]),
        ("CREATE OR REPLACE TABLE a LIKE b",
         ["CREATE OR REPLACE TABLE one.a LIKE one.b"], ["DROP TABLE IF EXISTS one.a", "CREATE TABLE one.a LIKE one.b"]),
        ("RENAME TABLE IF EXISTS a TO b, b TO c",
         ["RENAME TABLE IF EXISTS one.a TO one.b", "RENAME TABLE IF EXISTS one.b TO one.c"],
         ["RENAME TABLE one.a TO one.b", "RENAME TABLE one.b TO one.c"]),
        ("CREATE INDEX IF NOT EXISTS i ON a (b) NOT IGNORED",
         ["CREATE INDEX IF NOT EXISTS i ON one.a (b)"], ["CREATE INDEX i ON one.a (b)"]),
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
def test_what_only_mariadb_says(sql: str, to_mariadb: list[str], to_mysql: list[str]) -> None:
    assert written(sql, (MARIADB, MARIADB)) == to_mariadb
    assert written(sql, (MARIADB, MYSQL)) == to_mysql


@pytest.mark.parametrize(
    ("sql", "because"),
    [
        ("RENAME TABLE a TO ex_a", "the new name shop.ex_a of shop.a: the rules exclude one of them"),
        ("RENAME TABLE ex_a TO a, b TO c", "the new name shop.a of shop.ex_a"),
        ("ALTER TABLE a RENAME TO ex_a", "the new name shop.ex_a of shop.a"),
        ("ALTER TABLE ex_a ADD b int, RENAME TO a", "shop.ex_a, which the rules exclude, and which is to become"),
        ("CREATE TABLE a LIKE ex_b", "LIKE shop.ex_b, which the rules exclude"),
        ("CREATE TABLE a AS SELECT 1", "the table shop.a by a query"),
        ("CREATE SEQUENCE a", "the sequence shop.a"),
        ("DROP SEQUENCE a", "the sequence shop.a"),
        ("CREATE OR REPLACE INDEX i ON a (b)", "CREATE OR REPLACE of the key i"),
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
def test_what_is_left_of_an_alter(sql: str, left: str) -> None:
    assert written(sql) == [f"ALTER TABLE one.t {left}"]


def test_a_new_default_charset_says_its_collation() -> None:
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
def test_what_changes_nothing_is_nothing(sql: str) -> None:
    for source, target in ALL:
        assert written(sql, (source, target)) == []


@pytest.mark.parametrize(
    ("sql", "because"),
    [
        ("ALTER TABLE a DISCARD TABLESPACE", "DISCARD TABLESPACE, whose rows are not in the log"),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", "rows that move between the partition p and the table"),
        ("ALTER TABLE a CONVERT TABLE b TO PARTITION p VALUES LESS THAN (1)", "rows that move from the table shop.b"),
        ("ALTER TABLE a ENGINE=MyISAM", "the engine MyISAM"),
        ("ALTER TABLE a CONVERT TO CHARSET utf8mb4", "the collation that it converts to, of the character set utf8mb4"),
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
    assert written(sql, has_primary_key=lambda table: table == ("shop", "a")) == [
        "ALTER TABLE one.a ADD COLUMN id int AUTO_INCREMENT UNIQUE KEY"
    ]
    with pytest.raises(NotCopyable):
        carried(sql, (MYSQL, MARIADB), has_primary_key=lambda _: True)


def test_tidb_gets_one_change_at_a_time_in_an_order_that_works() -> None:
    """The key is over a column that is added behind it, and the dropped key over one that goes."""
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
        with pytest.raises(NotCopyable, match="the name `y`, which stands for two things in the same statement"):
            carried(f"ALTER TABLE a {swap}", (MYSQL, TIDB))
    assert written("ALTER TABLE a RENAME KEY x TO y, DROP KEY y", (MYSQL, TIDB)) == [
        "ALTER TABLE one.a DROP KEY y",
        "ALTER TABLE one.a RENAME KEY x TO y",
    ]
    assert len(written("ALTER TABLE a DROP y, CHANGE x y int, MODIFY z int", (MYSQL, TIDB))) == 3


# Columns


@pytest.mark.parametrize(
    ("column", "resolved", "becomes"),
    [
        ("c text", "text CHARACTER SET latin1 COLLATE latin1_bin", "c text CHARACTER SET latin1 COLLATE latin1_bin"),
        ("c text(9)", "tinytext CHARACTER SET ascii COLLATE ascii_bin",
         "c tinytext CHARACTER SET ascii COLLATE ascii_bin"),
        ("c blob(9)", "tinyblob", "c tinyblob"),
        ("c char(9) CHARACTER SET latin1 BINARY", None, "c char (9) CHARACTER SET latin1 COLLATE latin1_bin"),
        ("c char(9) COLLATE ascii_bin", None, "c char (9) CHARACTER SET ascii COLLATE ascii_bin"),
        ("c enum('a','b')", "enum('a','b') CHARACTER SET ascii COLLATE ascii_bin",
         "c enum ('a', 'b') CHARACTER SET ascii COLLATE ascii_bin"),
        ("c timestamp", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
         "c timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"),
        ("c timestamp NULL DEFAULT now() /* x */ ON UPDATE now()", None,
         "c timestamp NULL DEFAULT now() ON UPDATE now()"),
        ("c int COLUMN_FORMAT DYNAMIC STORAGE DISK", None, "c int"),
        ("c point NOT NULL SRID 4326", None, "c point NOT NULL SRID 4326"),
    ],
)  # fmt: skip
def test_columns_say_what_the_source_has_filled_in(column: str, resolved: str | None, becomes: str) -> None:
    columns = {"c": resolved} if resolved else {"x": "int"}
    assert written(f"ALTER TABLE a ADD {column}", columns=columns) == [f"ALTER TABLE one.a ADD COLUMN {becomes}"]
    assert written(f"CREATE TABLE a ({column})", columns=columns) == [f"CREATE TABLE IF NOT EXISTS one.a ({becomes})"]


@pytest.mark.parametrize(
    "code",
    [
        "NULL", "TRUE", "-1", "+ 1", ".5", "1e5", "'it''s'", "'a' 'b'", '"x"', "N'x'", "x'41'", "b'1'", "0x41", "0b1",
        "_utf8mb4'x'", "DATE '2020-01-01'", "now(3)", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP",
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ALL)
def test_defaults_that_are_known_everywhere(code: str, way: Way) -> None:
    precision = " (3)" if "(3)" in code else ""
    assert written(f"ALTER TABLE a ADD c datetime{precision} DEFAULT {code}", way) == [
        f"ALTER TABLE one.a ADD COLUMN c datetime{precision} DEFAULT {code}"
    ]
    assert written(f"ALTER TABLE a ALTER c SET DEFAULT {code}", way) == [
        f"ALTER TABLE one.a ALTER COLUMN c SET DEFAULT {code}"
    ]


@pytest.mark.parametrize("code", ["(1 + 1)", "(json_array())", "(concat('a', \"b\", d))"])
def test_defaults_that_a_family_computes(code: str) -> None:
    for way in SAME:
        assert written(f"ALTER TABLE a ADD c int DEFAULT {code}", way) == [
            f"ALTER TABLE one.a ADD COLUMN c int DEFAULT {code}"
        ]
    for way in ACROSS:
        with pytest.raises(NotCopyable, match="which the other flavour may compute in another way"):
            carried(f"ALTER TABLE a ADD c int DEFAULT {code}", way)


@pytest.mark.parametrize(
    "code",
    [
        "uuid()", "(uuid())", "(rand())", "(sleep(1))", "CURRENT_USER", "current_date", "(f(1))", "(`f`(1))",
        "(s.f(1))", "(@x)", "(@@x)", "(select 1)", "nextval(s)", "NEXT VALUE FOR s", "(unix_timestamp())", "(user ())",
        "_latin1'é'", "_binary 'é'",
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ALL)
def test_what_may_call_anything_is_refused(code: str, way: Way) -> None:
    for sql in (f"ALTER TABLE a ADD c int DEFAULT {code}", f"ALTER TABLE a ALTER c SET DEFAULT {code}"):
        with pytest.raises(NotCopyable):
            carried(sql, way)
    if code.startswith("("):
        for sql in (f"CREATE TABLE a (c int AS {code})", f"CREATE TABLE a (b int, KEY k ({code}))"):
            with pytest.raises(NotCopyable):
                carried(sql, way)
        with pytest.raises(NotCopyable):
            carried(f"ALTER TABLE a ADD CHECK {code}", (way[0], way[0]))


@pytest.mark.parametrize(
    ("column", "because"),
    [
        ("c text", "the collation of `c`, which the statement does not say"),
        ("c text CHARACTER SET utf8mb4", "the collation of `c`"),
        ("c text COLLATE uca1400_ai_ci", "the character set of `c`, which has the collation uca1400_ai_ci"),
        ("c timestamp", "`c`, a timestamp of which the statement does not say if it may be NULL"),
        ("c int REFERENCES u (id) ON DELETE CASCADE", "ON DELETE CASCADE of `c`: the rows that it changes are not in"),
    ],
)
def test_columns_that_are_refused(column: str, because: str) -> None:
    for way in ALL:
        with pytest.raises(NotCopyable, match=because):
            carried(f"ALTER TABLE a ADD {column}", way)


@pytest.mark.parametrize(
    ("way", "column", "becomes", "note"),
    [
        ((MYSQL, MARIADB), "c json", f"c longtext {UTF8_BIN}", "`c` json becomes longtext"),
        ((MARIADB, MYSQL), "c json", f"c longtext {UTF8_BIN}", "`c` is text without a check"),
        ((MARIADB, MARIADB), "c json", "c json", None),
        ((MYSQL, MARIADB), "c text COLLATE utf8mb4_0900_ai_ci",
         "c text CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_nopad_ci",
         "collation utf8mb4_0900_ai_ci becomes utf8mb4_unicode_520_nopad_ci"),
        ((MARIADB, TIDB), "c text COLLATE utf8mb4_uca1400_ai_ci",
         "c text CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
         "collation utf8mb4_uca1400_ai_ci becomes utf8mb4_unicode_520_ci"),
        ((MYSQL, MARIADB), "c int CHECK (c > 0)", "c int", "CHECK (c > 0) is left out"),
        ((MYSQL, MYSQL), "c int CHECK (c > 0)", "c int CHECK (c > 0)", None),
        ((MYSQL, MYSQL), "c int REFERENCES u (id)", "c int", "REFERENCES shop.u of `c` is left out"),
        ((MYSQL, TIDB), "c int INVISIBLE", "c int", "`c` is visible"),
        ((MYSQL, MARIADB), "c int INVISIBLE", "c int INVISIBLE", None),
        ((MYSQL, MARIADB), "c point SRID 4326", "c point", "`c` takes any SRID"),
        ((MARIADB, MYSQL), "c varbinary(9) COMPRESSED", "c varbinary (9)", "`c` is not compressed"),
        ((MYSQL, MYSQL), "c int ENGINE_ATTRIBUTE '{}'", "c int", "ENGINE_ATTRIBUTE of `c` is left out"),
    ],
)  # fmt: skip
def test_what_a_column_becomes(way: Way, column: str, becomes: str, note: str | None) -> None:
    assert written(f"ALTER TABLE a ADD {column}", way) == [f"ALTER TABLE one.a ADD COLUMN {part}" for part in [becomes]]
    assert carried(f"ALTER TABLE a ADD {column}", way).notes == ((note,) if note else ())


@pytest.mark.parametrize(
    ("way", "sql"),
    [
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c uuid"),
        ((MYSQL, MARIADB), "ALTER TABLE a ADD c vector(3)"),
        ((MYSQL, MARIADB), "ALTER TABLE a ADD c text COLLATE gb18030_bin"),
        ((MYSQL, MARIADB), "ALTER TABLE a MODIFY c json"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c int AS (b + 1)"),
        ((MYSQL, MARIADB), "ALTER TABLE a ADD KEY ((b + 1))"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c text COLLATE ascii_bin DEFAULT 'x'"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c blob DEFAULT ''"),
        ((MARIADB, MYSQL), "ALTER TABLE a ALTER large SET DEFAULT 'x'"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c datetime(6) DEFAULT now()"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD c datetime(3) ON UPDATE now(6)"),
        ((MARIADB, TIDB), "ALTER TABLE a ADD c date DEFAULT now()"),
        ((MARIADB, MYSQL), "ALTER TABLE a ADD UNIQUE (b) USING HASH"),
        ((MYSQL, MARIADB), "ALTER TABLE a DROP PARTITION p"),
        ((MYSQL, MARIADB), "CREATE TABLE a (b int) PARTITION BY HASH (b)"),
        ((MYSQL, MARIADB), "CREATE TABLE a (b int) CHARSET gb18030"),
        ((MYSQL, MARIADB), "CREATE DATABASE shop COLLATE gb18030_chinese_ci"),
    ],
)
def test_what_the_other_flavour_does_not_have_is_refused(way: Way, sql: str) -> None:
    with pytest.raises(NotCopyable):
        carried(sql, way, columns={"large": "longtext", "x": "int"})


# Whole tables, and keys to others


def test_a_new_table() -> None:
    sql = (
        "CREATE TABLE t_1 (id int PRIMARY KEY AUTO_INCREMENT, c varchar(9) DEFAULT 'x', KEY k (c) COMMENT 'k', "
        "CONSTRAINT f FOREIGN KEY (id) REFERENCES u (id), CHECK (id > 0)) "
        "ENGINE=InnoDB AUTO_INCREMENT=9 CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 "
        "/*!50100 PARTITION BY HASH (id) */ PARTITIONS 4"
    )
    columns = {"c": "varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}
    (made,) = written(sql, columns=columns, collation=lambda _: "utf8mb4_bin")
    assert made == (
        "CREATE TABLE IF NOT EXISTS one.t (id int AUTO_INCREMENT PRIMARY KEY, "
        f"c varchar (9) {UTF8_BIN} DEFAULT 'x', KEY k (c) COMMENT 'k', "
        "CONSTRAINT f FOREIGN KEY (id) REFERENCES one.u (id), CHECK (id > 0)) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin PARTITION BY HASH (id)   PARTITIONS 4"
    )
    assert carried(sql, columns=columns).notes == ("KEY_BLOCK_SIZE of the table is left out",)


@pytest.mark.parametrize(
    ("way", "references", "made", "note"),
    [
        ((MYSQL, MYSQL), "t_2 (id) ON DELETE RESTRICT", "one.t (id) ON DELETE RESTRICT", None),
        ((MYSQL, TIDB), "u (id)", "one.u (id)", None),
        ((MYSQL, MYSQL), "ex_u (id)", None, "the foreign key f to shop.ex_u is left out"),
        ((MYSQL, MARIADB), "u (id)", None, "the foreign key f to shop.u is left out"),
    ],
)
def test_foreign_keys(way: Way, references: str, made: str | None, note: str | None) -> None:
    sql = f"ALTER TABLE a ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES {references}"
    assert written(sql, way) == (
        [f"ALTER TABLE one.a ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES {made}"] if made else []
    )
    assert carried(sql, way).notes == ((note,) if note else ())


def test_a_foreign_key_that_changes_rows_needs_a_log_that_has_them() -> None:
    sql = "ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES u (id) ON UPDATE SET NULL"
    with pytest.raises(NotCopyable, match=r"ON UPDATE SET NULL the foreign key \(\) to shop.u: the rows"):
        carried(sql)
    assert written(sql, cascades_are_logged=True)[0].endswith("REFERENCES one.u (id) ON UPDATE SET NULL")


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
