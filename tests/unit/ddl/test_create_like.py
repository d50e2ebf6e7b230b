"""From SHOW CREATE TABLE of a source to CREATE TABLE at the target: whole tables, and what is refused."""

import re

import pytest

from airflow_provider_dm.engine.ddl.column_types import CHARACTER_TYPES
from airflow_provider_dm.engine.ddl.create_like import (
    NewTable,
    ServerPair,
    Spread,
    create_schema_like,
    create_table_like,
)
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget, Unreadable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table

MARIADB, MYSQL, TIDB = Flavour.MARIADB, Flavour.MYSQL, Flavour.TIDB
Way = tuple[Flavour, Flavour]


def made(
    *lines: str,
    options: str = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    way: Way = (MYSQL, MARIADB),
    collation: str = "utf8mb4_bin",
    strict: bool = False,
    spread: Spread | None = None,
) -> NewTable:
    statement = "CREATE TABLE `t` (\n  " + ",\n  ".join(lines) + f"\n) {options}"
    return create_table_like(
        statement,
        Table(TableName("old", "t"), columns_of(statement, collation), primary_of(statement)),
        TableName("new`s", "all"),
        ServerPair(*way, strict=strict),
        collation=collation,
        parent={TableName("old", "o"): TableName("new`s", "o")}.get,
        spread=spread or Spread(),
    )


def primary_of(statement: str) -> tuple[Index, ...]:
    found = re.search(r"PRIMARY KEY \(([^)]*)\)", statement)
    return (Index("PRIMARY", tuple(name.strip("`") for name in found[1].split(","))),) if found else ()


def columns_of(statement: str, default: str) -> tuple[Column, ...]:
    """The columns as the source's catalogue shows them. `default`: collation of the table."""
    try:
        created = parse(statement, 0, "old")
    except Unreadable:
        return ()
    assert isinstance(created, CreateTable)
    found: list[Column] = []
    for column in created.definition.columns:
        kind, collation = column.type, column.type.collation or default
        if kind.collation is None and kind.charset is not None:
            collation = f"{kind.charset}_bin"
        charset = collation.partition("_")[0]
        texts = (charset, collation) if kind.name in CHARACTER_TYPES else (None, None)
        found.append(Column(column.name, len(found), kind.name, kind.name, True, *texts))
    return tuple(found)


def test_the_name_is_routed_and_quoted_and_counters_are_dropped() -> None:
    options = "ENGINE=InnoDB AUTO_INCREMENT=77 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'"

    sql = made("`id` int NOT NULL AUTO_INCREMENT", "PRIMARY KEY (`id`)", options=options).sql

    assert sql == (
        "CREATE TABLE `new``s`.`all` ( `id` int NOT NULL AUTO_INCREMENT , PRIMARY KEY ( `id` ) ) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'"
    )


def test_a_column_has_the_collation_that_the_catalogue_shows() -> None:
    sql = made("`c` varchar(9) CHARACTER SET latin1", "`d` text", collation="utf8mb4_general_ci").sql

    assert "`c` varchar ( 9 ) CHARACTER SET latin1 COLLATE latin1_bin" in sql
    assert "`d` text CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci" in sql
    assert sql.endswith("DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")


@pytest.mark.parametrize(
    ("way", "collation", "becomes"),
    [
        ((MYSQL, MARIADB), "utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci"),
        ((MARIADB, MYSQL), "utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci"),
        ((MYSQL, MYSQL), "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
        ((MYSQL, TIDB), "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
    ],
)
def test_collations_of_the_other_family_are_replaced_and_noted(way: Way, collation: str, becomes: str) -> None:
    table = made(f"`c` varchar(9) COLLATE {collation} NOT NULL", way=way, collation=collation)

    assert f"`c` varchar ( 9 ) CHARACTER SET utf8mb4 COLLATE {becomes} NOT NULL" in table.sql
    assert table.sql.endswith(f"COLLATE={becomes}")
    assert bool(table.notes) == (collation != becomes)


@pytest.mark.parametrize(
    ("way", "line", "becomes"),
    [
        ((MARIADB, MARIADB), "`u` uuid DEFAULT NULL", "`u` uuid DEFAULT NULL"),
        ((MARIADB, MARIADB), "`g` int GENERATED ALWAYS AS (`a` + 1) STORED",
         "`g` int GENERATED ALWAYS AS (`a` + 1) STORED"),
        ((MARIADB, MARIADB), "UNIQUE KEY `k` (`a`(10),`b` DESC) USING BTREE COMMENT 'k'",
         "UNIQUE KEY `k` ( `a` ( 10 ) , `b` DESC ) USING BTREE COMMENT 'k'"),
        ((MARIADB, MARIADB), "VECTOR KEY `k` (`v`) `M`=8 `DISTANCE`=cosine",
         "VECTOR KEY `k` ( `v` ) M=8 DISTANCE=cosine"),
        ((MYSQL, MYSQL), "UNIQUE KEY `f` ((`a` * 2),(lower(`c`)) DESC)",
         "UNIQUE KEY `f` ( (`a` * 2) , (lower(`c`)) DESC )"),
        ((MYSQL, MYSQL), "CONSTRAINT `k` CHECK (`a` > 0)", "CONSTRAINT `k` CHECK (`a` > 0)"),
        ((MYSQL, MYSQL), "CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `o` (`id`)",
         "CONSTRAINT `f` FOREIGN KEY ( `a` ) REFERENCES `new``s`.`o` ( `id` )"),
        ((MYSQL, MYSQL), "`i` int DEFAULT (1 + 2)", "`i` int DEFAULT (1 + 2)"),
        ((MYSQL, MYSQL), "`i` int NOT NULL /*!80023 INVISIBLE */", "`i` int NOT NULL INVISIBLE"),
        ((MYSQL, MYSQL), "`p` point NOT NULL /*!80003 SRID 4326 */", "`p` point NOT NULL SRID 4326"),
        ((MYSQL, MYSQL), r"`a` int COMMENT 'a\'b\\c'", r"`a` int COMMENT 'a''b\\c'"),
        ((MARIADB, MARIADB), "`b` blob /*M!100301 COMPRESSED*/ NOT NULL", "`b` blob COMPRESSED NOT NULL"),
        ((MYSQL, MARIADB), "`g` geomcollection NOT NULL", "`g` geometrycollection NOT NULL"),
    ],
)  # fmt: skip
def test_lines_that_are_kept(way: Way, line: str, becomes: str) -> None:
    table = made(line, way=way)

    assert f"( {becomes} )" in table.sql
    assert table.notes == ()


@pytest.mark.parametrize(
    ("way", "line", "becomes", "note"),
    [
        ((MARIADB, MYSQL), "`j` longtext CHECK (json_valid(`j`))",
         "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CHECK (json_valid(`j`)) is left out"),
        ((MYSQL, MARIADB), "KEY `k` (`a`) /*!80000 INVISIBLE */", "KEY `k` ( `a` )", "the key k is visible"),
        ((MYSQL, MYSQL), "`a` int, CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `not_migrated` (`id`)", "`a` int",
         "the foreign key f to old.not_migrated is left out"),
    ],
)  # fmt: skip
def test_omitted_parts_are_noted(way: Way, line: str, becomes: str, note: str) -> None:
    table = made(line, way=way)

    assert f"( {becomes} )" in table.sql
    assert table.notes == (note,)


@pytest.mark.parametrize(
    "line",
    [
        "`g` int GENERATED ALWAYS AS (load_file('x')) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (`db`.`f`(1)) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1 -- x) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1 + (2) VIRTUAL",
        "`g` int GENERATED ALWAYS AS 1 VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1; drop table `t`) VIRTUAL",
        "`v` int DEFAULT (uuid_short())",
        "KEY `f` ((sleep(1)))",
        "CONSTRAINT `fk` FOREIGN KEY (`a`) REFERENCES `o` (`id`) ON DELETE CASCADE",
        "`i` int NOT NULL /*!80023 DEFAULT (sleep(1)) */",
        "`x` int; DROP TABLE `y`",
    ],
)
def test_an_unknown_part_of_a_create_table_is_refused(line: str) -> None:
    for way in ((MYSQL, MYSQL), (MARIADB, MARIADB), (MYSQL, MARIADB), (MARIADB, MYSQL)):
        with pytest.raises(CannotCreateTarget, match=r"new`s\.all"):
            made(line, way=way)


@pytest.mark.parametrize("check", ["CHECK (sleep(1))", "`j` int CHECK (json_valid(`j`) or sleep(1))"])
def test_a_check_that_does_more_than_compute_never_reaches_the_target(check: str) -> None:
    for flavour in (MYSQL, MARIADB):
        with pytest.raises(CannotCreateTarget):
            made(check, way=(flavour, flavour))
    assert "sleep" not in made("`i` int", check).sql


@pytest.mark.parametrize(
    "options",
    [
        "ENGINE=InnoDB /*!50100 PARTITION BY HASH (id) */",
        "ENGINE=InnoDB ENCRYPTED=YES",
        "ENGINE=InnoDB WITH SYSTEM VERSIONING",
        "ENGINE=InnoDB DATA DIRECTORY='/etc'",
        "ENGINE='x y'",
    ],
)
def test_options_that_are_not_understood_are_refused(options: str) -> None:
    with pytest.raises(CannotCreateTarget):
        made("`id` int", options=options)


def test_storage_options_are_left_out_and_noted() -> None:
    plain = made("`id` int")
    table = made("`id` int", options="ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 PACK_KEYS=1 UNION=(`u`)")
    assert table.sql == plain.sql
    assert table.notes == tuple(f"{name} of the table is left out" for name in ("KEY_BLOCK_SIZE", "PACK_KEYS", "UNION"))


def test_an_option_that_was_a_string_stays_quoted() -> None:
    assert (
        made("`id` int", options="ENGINE=InnoDB ROW_FORMAT='; DROP TABLE y'").sql.count("ROW_FORMAT='; DROP TABLE y'")
        == 1
    )


@pytest.mark.parametrize(
    ("line", "collation"),
    [("`c` varchar(9) COLLATE utf8mb4_0900_as_cs", "utf8mb4_bin"), ("`c` varchar(9)", "utf8mb4_0900_ai_ci")],
)
def test_strict_collations_are_those_of_the_source_or_none(line: str, collation: str) -> None:
    with pytest.raises(CannotCreateTarget, match=r"the collation utf8mb4_0900_a\w+, which .* does not have"):
        made(line, collation=collation, strict=True)
    assert made(line, collation=collation, strict=True, way=(MYSQL, MYSQL)).sql.endswith(f"COLLATE={collation}")
    assert "COLLATE=utf8mb4_bin" in made("`c` varchar(9)", strict=True).sql
    schemas = [
        create_schema_like("s", "utf8mb4_0900_ai_ci", ServerPair(MYSQL, MARIADB, strict=strict)).collation
        for strict in (True, False)
    ]
    assert schemas == ["utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci"]


def test_features_that_tidb_lacks_are_reported_before_the_copy() -> None:
    way = (MYSQL, TIDB)
    table = made("`id` int NOT NULL INVISIBLE", "`c` text", "FULLTEXT KEY `f` (`c`)", way=way)
    assert "INVISIBLE" not in table.sql
    assert "FULLTEXT" not in table.sql
    assert table.notes == ("the FULLTEXT key f is left out", "`id` is visible")
    computed = made(
        "`id` int NOT NULL",
        "`g` int(11) GENERATED ALWAYS AS (`id` + 1) STORED",
        options="DEFAULT CHARSET=utf8mb4 PARTITION BY RANGE (`id`) (PARTITION `p` VALUES LESS THAN (9))",
        way=(MARIADB, TIDB),
    )
    assert "`g` int ( 11 ) GENERATED ALWAYS AS (`id` + 1) STORED" in computed.sql
    assert "PARTITION BY RANGE" in computed.sql
    with pytest.raises(CannotCreateTarget, match="a type that TiDB lacks: `p` point"):
        made("`p` point NOT NULL", way=way)
    with pytest.raises(CannotCreateTarget, match=r"a type that TiDB lacks: `v` vector"):
        made("`v` vector(3)", way=way)
    checked = made("`id` int", "CONSTRAINT `c` CHECK ((`id` > 0))", way=way)
    assert "CHECK" in checked.sql
    assert checked.notes == ("CHECK ((`id` > 0)) holds only while tidb_enable_check_constraint is ON",)


@pytest.mark.parametrize(
    ("collation", "becomes"),
    [
        ("latin1_swedish_ci", "latin1_bin"),
        ("utf8mb4_swedish_ci", "utf8mb4_bin"),
        ("utf8mb4_0900_as_ci", "utf8mb4_0900_bin"),
        ("utf16_general_ci", "utf8mb4_bin"),
    ],
)
def test_a_collation_that_tidb_lacks_is_replaced_by_code_points(collation: str, becomes: str) -> None:
    charset = collation.partition("_")[0]
    options = f"DEFAULT CHARSET={charset} COLLATE={collation}"
    table = made("`c` varchar(9)", "`d` text", "`n` int", options=options, way=(MYSQL, TIDB), collation=collation)
    other = becomes.partition("_")[0]
    assert f"CHARACTER SET {other} COLLATE {becomes}" in table.sql
    assert table.sql.endswith(f"DEFAULT CHARSET={other} COLLATE={becomes}")
    distinguishes = "which distinguishes upper and lower case and accents"
    assert table.notes == (f"collation {collation} becomes {becomes}, {distinguishes} (of `c`, `d`, the table)",)
    with pytest.raises(CannotCreateTarget, match=rf"{collation}, which .*strict\) \(of `c`\)"):
        made("`c` varchar(9)", options=options, way=(MYSQL, TIDB), collation=collation, strict=True)


@pytest.mark.parametrize(
    ("lines", "column", "options"),
    [
        (["`id` bigint NOT NULL AUTO_INCREMENT", "PRIMARY KEY (`id`)"], "bigint NOT NULL AUTO_RANDOM(5)", " PRE_SPLIT"),
        (["`id` int NOT NULL AUTO_INCREMENT", "PRIMARY KEY (`id`)"], "int NOT NULL AUTO_INCREMENT", None),
        (["`id` bigint NOT NULL", "PRIMARY KEY (`id`)"], "bigint NOT NULL", None),
        (["`id` bigint NOT NULL", "`b` int", "PRIMARY KEY (`id`,`b`)"], "bigint NOT NULL", None),
        (["`id` bigint NOT NULL", "KEY `k` (`id`)"], "bigint NOT NULL", None),
    ],
)
def test_new_tables_in_tidb_are_spread_over_the_cluster(lines: list[str], column: str, options: str | None) -> None:
    sql = made(*lines, way=(MYSQL, TIDB), spread=Spread(5, 3)).sql
    assert f"( `id` {column} , " in sql
    assert sql.endswith(f"{options}_REGIONS=3" if options else "COLLATE=utf8mb4_bin")
    assert made(*lines, way=(MYSQL, MYSQL), spread=Spread(5, 3)).sql == made(*lines, way=(MYSQL, MYSQL)).sql


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["`a` varchar(16384)"], "`a`, which is too long for a VARCHAR in utf8mb4"),
        (["`a` varchar(1000)", "KEY `k` (`a`)"], "the key k, which takes 4000 bytes in utf8mb4, above 3072"),
        (["`a` varchar(1000)", "`b` int", "KEY `k` (`b`,`a`(768))"], "the key k, which takes 3076 bytes"),
        (["`a` varchar(1000)", "KEY `k` (`a`(768))"], ""),
        (["`a` varchar(16383)", "FULLTEXT KEY `k` (`a`)"], ""),
    ],
)
def test_text_that_becomes_too_long_in_another_charset_is_named(lines: list[str], found: str) -> None:
    options = "ENGINE=InnoDB DEFAULT CHARSET=cp1251"
    if not found:
        assert "utf8mb4" in made(*lines, options=options, way=(MYSQL, TIDB), collation="cp1251_general_ci").sql
        return
    with pytest.raises(CannotCreateTarget, match=re.escape(found)):
        made(*lines, options=options, way=(MYSQL, TIDB), collation="cp1251_general_ci")


def test_all_columns_that_the_target_lacks_are_named() -> None:
    with pytest.raises(CannotCreateTarget) as caught:
        made("`a` point", "`b` int", "`c` text CHARACTER SET gb18030", "`d` polygon", way=(MYSQL, TIDB))
    kinds = ("a type that TiDB lacks: `a` point", "the character set gb18030", "a type that TiDB lacks: `d` polygon")
    assert caught.value.found == "; ".join(kinds)


def test_subpartitions_that_the_target_ignores_are_noted() -> None:
    options = "ENGINE=InnoDB PARTITION BY RANGE (`a`) SUBPARTITION BY HASH (`a`) (PARTITION p VALUES LESS THAN (9))"
    assert made("`a` int", options=options, way=(MYSQL, TIDB)).notes == ("the subpartitions are left out",)
    assert made("`a` int", options=options, way=(MYSQL, MYSQL)).notes == ()
