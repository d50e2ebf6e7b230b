"""From SHOW CREATE TABLE of a source to CREATE TABLE at the target: what changes, and what is refused."""

import pytest

from airflow_provider_dm.engine.ddl.create_like import (
    CannotCreateTarget,
    NewTable,
    create_schema_like,
    create_table_like,
)
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Table

MARIADB, MYSQL = Flavour.MARIADB, Flavour.MYSQL


def made(
    *lines: str,
    options: str = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    way: tuple[Flavour, Flavour] = (MYSQL, MARIADB),
    collation: str = "utf8mb4_bin",
    columns: tuple[Column, ...] = (),
    strict: bool = False,
) -> NewTable:
    statement = "CREATE TABLE `t` (\n  " + ",\n  ".join(lines) + f"\n) {options}"
    source = Table(TableName("old", "t"), columns, ())
    return create_table_like(
        statement,
        source,
        TableName("new`s", "all"),
        source_flavour=way[0],
        target_flavour=way[1],
        collation=collation,
        strict=strict,
    )


def test_the_name_is_routed_and_quoted_and_counters_are_dropped() -> None:
    options = "ENGINE=InnoDB AUTO_INCREMENT=77 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'"

    sql = made("`id` int NOT NULL AUTO_INCREMENT", "PRIMARY KEY (`id`)", options=options).sql

    assert sql == (
        "CREATE TABLE `new``s`.`all` ( `id` int NOT NULL AUTO_INCREMENT , PRIMARY KEY ( `id` ) ) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'"
    )


def test_a_collation_that_is_not_said_is_said() -> None:
    column = Column("c", 0, "varchar", "varchar(9)", nullable=True, charset="latin1", collation="latin1_bin")

    sql = made(
        "`c` varchar(9) CHARACTER SET latin1 DEFAULT NULL", columns=(column,), collation="utf8mb4_general_ci"
    ).sql

    assert "CHARACTER SET latin1 COLLATE latin1_bin" in sql
    assert sql.endswith("DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")


@pytest.mark.parametrize(
    ("way", "collation", "becomes"),
    [
        ((MYSQL, MARIADB), "utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci"),
        ((MARIADB, MYSQL), "utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci"),
        ((MYSQL, MYSQL), "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
        ((MYSQL, Flavour.TIDB), "utf8mb4_0900_ai_ci", "utf8mb4_0900_ai_ci"),
    ],
)
def test_collations_of_the_other_family_are_swapped_and_told(
    way: tuple[Flavour, Flavour], collation: str, becomes: str
) -> None:
    table = made(f"`c` varchar(9) COLLATE {collation} NOT NULL", way=way, collation=collation)

    assert f"`c` varchar ( 9 ) COLLATE {becomes} NOT NULL" in table.sql
    assert table.sql.endswith(f"COLLATE={becomes}")
    assert bool(table.notes) == (collation != becomes)


@pytest.mark.parametrize(
    "line",
    [
        "`e` enum('a','it''s','x,y)','CHECK (') NOT NULL DEFAULT 'a' COMMENT 'no /* comment */ `here`'",
        "`b` bit(4) DEFAULT b'101'",
        "`t` timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6)",
        "`d` decimal(9,2) unsigned zerofill DEFAULT -1.50",
        "UNIQUE KEY `k` (`a`(10),`b` DESC) USING BTREE COMMENT 'k'",
        "FULLTEXT KEY `f` (`txt`)",
        "SPATIAL KEY `p` (`p`)",
        "`p` point NOT NULL",
        "`u` uuid DEFAULT NULL",
        "`i` int(11) INVISIBLE DEFAULT 7",
        "`v` vector(3) DEFAULT NULL",
        "UNIQUE KEY `b` (`b`) USING HASH",
        "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`))",
        "`g` int GENERATED ALWAYS AS (((`a` + 1) * -(2))) STORED",
        "`g` varchar(9) GENERATED ALWAYS AS (concat(_utf8mb4'it\\'s) /* x',`a`)) VIRTUAL COMMENT 'x'",
        "`g` int GENERATED ALWAYS AS (json_unquote(json_extract(`j`,_utf8mb4'$.a'))) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (case when `a` is null then 0x00 else cast(`a` as unsigned) end) VIRTUAL",
        "UNIQUE KEY `f` ((`a` * 2),`b`,(lower(`c`)) DESC)",
    ],
)
def test_what_is_understood(line: str) -> None:
    squeezed = made(line, way=(MARIADB, MARIADB)).sql.replace(" ", "")

    assert line.replace(" ", "") in squeezed


@pytest.mark.parametrize(
    "line",
    [
        "`g` int GENERATED ALWAYS AS (load_file('x')) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (`db`.`f`(1)) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1 /* x */) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1 -- x) VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1 + (2) VIRTUAL",
        "`g` int GENERATED ALWAYS AS 1 VIRTUAL",
        "`g` int GENERATED ALWAYS AS (1; drop table `t`) VIRTUAL",
        "`v` int DEFAULT (uuid_short())",
        "KEY `f` ((sleep(1)))",
        "CONSTRAINT `fk` FOREIGN KEY (`a`) REFERENCES `o` (`id`)",
        "CONSTRAINT `c` CHECK (`a` > 0)",
        "`j` int CHECK (json_valid(`j`) or sleep(1))",
        "`i` int NOT NULL /*!80023 DEFAULT (sleep(1)) */",
        "`i` int NOT NULL /* INVISIBLE */",
        "`x` int; DROP TABLE `y`",
    ],
)
def test_what_is_not_understood_is_refused(line: str) -> None:
    for way in ((MYSQL, MYSQL), (MARIADB, MARIADB), (MYSQL, MARIADB), (MARIADB, MYSQL)):
        with pytest.raises(CannotCreateTarget, match=r"new`s\.all"):
            made(line, way=way)


@pytest.mark.parametrize(
    ("way", "line", "becomes", "noted"),
    [
        ((MYSQL, MYSQL), "`i` int NOT NULL /*!80023 INVISIBLE */", "`i` int NOT NULL INVISIBLE", False),
        ((MYSQL, MYSQL), "`p` point NOT NULL /*!80003 SRID 4326 */", "`p` point NOT NULL SRID 4326", False),
        ((MYSQL, MYSQL), "`j` json DEFAULT NULL", "`j` json DEFAULT NULL", False),
        ((MYSQL, Flavour.TIDB), "`j` json DEFAULT NULL", "`j` json DEFAULT NULL", False),
        ((MARIADB, MARIADB), "`t` text /*M!100301 COMPRESSED*/ NOT NULL", "`t` text COMPRESSED NOT NULL", False),
        ((MYSQL, MARIADB), "`i` int /*!80023 INVISIBLE */", "`i` int INVISIBLE", False),
        ((MYSQL, MARIADB), "`p` point NOT NULL /*!80003 SRID 4326 */", "`p` point NOT NULL", True),
        ((MYSQL, MARIADB), "`g` geomcollection NOT NULL", "`g` geometrycollection NOT NULL", False),
        ((MYSQL, MARIADB), "`j` json", "`j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", True),
        ((MYSQL, MARIADB), "KEY `k` (`a`) /*!80000 INVISIBLE */", "KEY `k` ( `a` )", True),
        ((MARIADB, MYSQL), "`t` text /*M!100301 COMPRESSED*/ DEFAULT NULL", "`t` text DEFAULT NULL", True),
        ((MARIADB, MYSQL), "`j` longtext CHECK (json_valid(`j`))", "`j` longtext", True),
    ],
)  # fmt: skip
def test_what_another_flavour_writes_in_another_way(
    way: tuple[Flavour, Flavour], line: str, becomes: str, noted: bool
) -> None:
    table = made(line, way=way, collation="utf8mb4_bin")
    assert f"( {becomes} )" in table.sql
    assert bool(table.notes) is noted


@pytest.mark.parametrize(
    ("way", "line"),
    [
        ((MYSQL, MARIADB), "`g` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL"),
        ((MARIADB, MYSQL), "`g` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL"),
        ((MYSQL, MARIADB), "KEY `f` ((`a` * 2))"),
        ((MYSQL, MARIADB), "`c` varchar(9) CHARACTER SET gb18030 COLLATE gb18030_bin"),
        ((MYSQL, MARIADB), "`v` vector(3)"),
        ((MARIADB, MYSQL), "`u` uuid"),
        ((MARIADB, MYSQL), "`i` inet6 NOT NULL"),
        ((MARIADB, MYSQL), "UNIQUE KEY `b` (`b`) USING HASH"),
    ],
)
def test_what_the_other_flavour_does_not_have_is_refused(way: tuple[Flavour, Flavour], line: str) -> None:
    with pytest.raises(CannotCreateTarget):
        made(line, way=way)


@pytest.mark.parametrize(
    "options",
    [
        "ENGINE=InnoDB /*!50100 PARTITION BY HASH (id) */",
        "ENGINE=InnoDB ENCRYPTED=YES",
        "ENGINE=InnoDB WITH SYSTEM VERSIONING",
        "ENGINE=InnoDB DATA DIRECTORY='/etc'",
    ],
)
def test_options_that_are_not_understood_are_refused(options: str) -> None:
    with pytest.raises(CannotCreateTarget):
        made("`id` int", options=options)


def test_options_of_how_it_is_stored_are_left_out_and_told() -> None:
    plain = made("`id` int")
    table = made("`id` int", options="ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 PACK_KEYS=1 UNION=(`u`)")
    assert table.sql == plain.sql
    assert table.notes == tuple(f"{name} of the table is left out" for name in ("KEY_BLOCK_SIZE", "PACK_KEYS", "UNION"))


@pytest.mark.parametrize(
    "options",
    [
        "ENGINE='x y'",
        "ENGINE=InnoDB COLLATE='utf8mb4_bin COMMENT=1'",
        "ENGINE=InnoDB ROW_FORMAT='; DROP TABLE y'",
    ],
)
def test_what_was_a_string_is_not_written_as_words(options: str) -> None:
    with pytest.raises(CannotCreateTarget):
        made("`id` int", options=options)


def test_a_vector_key_stays_in_its_flavour() -> None:
    lines = ("`v` vector(3) NOT NULL", "VECTOR KEY `k` (`v`) `M`=8 `DISTANCE`=cosine")
    assert "VECTOR KEY `k` ( `v` ) M=8 DISTANCE=cosine" in made(*lines, way=(MARIADB, MARIADB)).sql
    with pytest.raises(CannotCreateTarget):
        made(*lines, way=(MARIADB, MYSQL))


def test_strings_mean_the_same_when_they_are_written_anew() -> None:
    assert r"( `a` int COMMENT 'a''b\\c' )" in made(r"`a` int COMMENT 'a\'b\\c'").sql


@pytest.mark.parametrize(
    ("line", "collation"),
    [
        ("`c` varchar(9) COLLATE utf8mb4_0900_as_cs", "utf8mb4_bin"),
        ("`c` varchar(9)", "utf8mb4_0900_ai_ci"),
    ],
)
def test_strict_collations_are_those_of_the_source_or_none(line: str, collation: str) -> None:
    with pytest.raises(CannotCreateTarget, match=r"the collation utf8mb4_0900_a\w+, which .* does not have"):
        made(line, collation=collation, strict=True)
    assert made(line, collation=collation, strict=True, way=(MYSQL, MYSQL)).sql.endswith(f"COLLATE={collation}")
    assert "COLLATE=utf8mb4_bin" in made("`c` varchar(9)", strict=True).sql
    schemas = [
        create_schema_like(
            "s", "utf8mb4_0900_ai_ci", source_flavour=MYSQL, target_flavour=MARIADB, strict=strict
        ).collation
        for strict in (True, False)
    ]
    assert schemas == ["utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci"]


def test_what_tidb_lacks_is_left_out_or_named_before_the_copy() -> None:
    way = (MYSQL, Flavour.TIDB)
    table = made("`id` int NOT NULL INVISIBLE", "`c` text", "FULLTEXT KEY `f` (`c`)", way=way)
    assert "INVISIBLE" not in table.sql
    assert "FULLTEXT" not in table.sql
    assert table.notes == ("`id` is visible", "the FULLTEXT key f is left out")

    with pytest.raises(CannotCreateTarget, match=r"latin1_swedish_ci, which TiDB lacks: choose .* \(of c\)"):
        made("`c` varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci", way=way)
    text = Column("c", 0, "varchar", "varchar(9)", nullable=True, charset="latin1", collation="latin1_swedish_ci")
    with pytest.raises(CannotCreateTarget, match="its text columns"):
        made("`c` varchar(9)", way=way, collation="latin1_swedish_ci", columns=(text,))
    number = Column("c", 0, "int", "int", nullable=True)
    options = "DEFAULT CHARSET=latin1"
    numbers = made("`c` int", options=options, way=way, collation="latin1_swedish_ci", columns=(number,))
    assert numbers.sql.endswith("DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin")
