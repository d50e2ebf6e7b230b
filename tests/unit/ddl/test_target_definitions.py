"""Columns, whole tables and foreign keys as a target gets them (`carrying`)."""

import pytest

from airflow_provider_dm.engine.ddl.errors import NotCopyable
from tests.unit.ddl.carrying import ACROSS, ALL, MARIADB, MYSQL, SAME, TIDB, UTF8_BIN, Way, carried, written

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
def test_columns_have_the_sources_defaults(column: str, resolved: str | None, becomes: str) -> None:
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
def test_defaults_that_every_target_supports(code: str, way: Way) -> None:
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
        with pytest.raises(NotCopyable, match="which the other flavour may compute differently"):
            carried(f"ALTER TABLE a ADD c int DEFAULT {code}", way)


@pytest.mark.parametrize("way", [(MYSQL, TIDB), (MARIADB, TIDB)])
@pytest.mark.parametrize("code", ["(1 + 1)", "(json_array(d))", "curdate()", "(json_array(1, 'a'))", "uuid()"])
def test_computed_defaults_that_tidb_lacks_are_omitted_if_no_row_needs_them(code: str, way: Way) -> None:
    left_out = code in ("(1 + 1)", "(json_array(d))", "curdate()")
    made = carried(f"CREATE TABLE a (c int DEFAULT {code})", way)
    assert made.notes == ((f"the default {code} of `c` is left out",) if left_out else ())
    column = "c int" if left_out else f"c int DEFAULT {code}"
    assert written(f"CREATE TABLE a (c int DEFAULT {code})", way) == [f"CREATE TABLE IF NOT EXISTS one.a ({column})"]
    assert written(f"ALTER TABLE a MODIFY c int DEFAULT {code}", way) == [f"ALTER TABLE one.a MODIFY COLUMN {column}"]
    with pytest.raises(NotCopyable, match="for existing rows"):
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
def test_code_that_may_call_functions_is_refused(code: str, way: Way) -> None:
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
        ("c text", "the collation of `c`, which the statement does not name"),
        ("c text CHARACTER SET utf8mb4", "the collation of `c`"),
        ("c text COLLATE uca1400_ai_ci", "the character set of `c`, which has the collation uca1400_ai_ci"),
        ("c timestamp", "`c`, a timestamp with neither NULL nor NOT NULL"),
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
         "collation utf8mb4_0900_ai_ci becomes utf8mb4_unicode_520_nopad_ci (of `c`)"),
        ((MARIADB, TIDB), "c text COLLATE utf8mb4_uca1400_ai_ci",
         "c text CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
         "collation utf8mb4_uca1400_ai_ci becomes utf8mb4_0900_ai_ci (of `c`)"),
        ((MYSQL, MARIADB), "c int CHECK (c > 0)", "c int", "CHECK (c > 0) is left out"),
        ((MYSQL, MYSQL), "c int CHECK (c > 0)", "c int CHECK (c > 0)", None),
        ((MYSQL, MYSQL), "c int REFERENCES u (id)", "c int", "REFERENCES shop.u of `c` is left out"),
        ((MYSQL, TIDB), "c int INVISIBLE", "c int", "`c` is visible"),
        ((MYSQL, TIDB), "c varbinary(9) DEFAULT 'a'", "c varbinary (9) DEFAULT 'a'", None),
        ((MYSQL, TIDB), "c decimal(9,2) DEFAULT '-1.005'", "c decimal (9, 2) DEFAULT -1.01", None),
        ((MYSQL, TIDB), f"c enum('a', 'b') {UTF8_BIN} DEFAULT 'a'", f"c enum ('a', 'b') {UTF8_BIN} DEFAULT 'a'", None),
        ((MYSQL, TIDB), "c decimal(9,2) DEFAULT 1.0", "c decimal (9, 2) DEFAULT 1.0", None),
        ((MYSQL, MARIADB), "c int INVISIBLE", "c int INVISIBLE", None),
        ((MYSQL, MARIADB), "c point SRID 4326", "c point", "`c` accepts any SRID"),
        ((MARIADB, MYSQL), "c varbinary(9) COMPRESSED", "c varbinary (9)", "`c` is not compressed"),
        ((MYSQL, MYSQL), "c int ENGINE_ATTRIBUTE '{}'", "c int", "ENGINE_ATTRIBUTE of `c` is left out"),
    ],
)  # fmt: skip
def test_the_definition_of_a_column_in_the_target(way: Way, column: str, becomes: str, note: str | None) -> None:
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
    ],
)
def test_types_that_the_other_flavour_lacks_are_refused(way: Way, sql: str) -> None:
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
