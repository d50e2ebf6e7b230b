"""From SHOW CREATE TABLE of a source to CREATE TABLE at the target: what changes, and what is refused."""

import pytest

from airflow_provider_dm.engine.copy.target_ddl import CannotCreateTarget, CreateTable, create_table_like
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
) -> CreateTable:
    statement = "CREATE TABLE `t` (\n  " + ",\n  ".join(lines) + f"\n) {options}"
    source = Table(TableName("old", "t"), columns, ())
    return create_table_like(
        statement,
        source,
        TableName("new`s", "all"),
        source_flavour=way[0],
        target_flavour=way[1],
        collation=collation,
    )


def test_the_name_is_routed_and_quoted_and_counters_are_dropped() -> None:
    options = "ENGINE=InnoDB AUTO_INCREMENT=77 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='it''s'"

    sql = made("`id` int NOT NULL AUTO_INCREMENT", "PRIMARY KEY (`id`)", options=options).sql

    assert sql == (
        "CREATE TABLE `new``s`.`all` (`id` int NOT NULL AUTO_INCREMENT , PRIMARY KEY ( `id` )) "
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
    ],
)
def test_what_is_understood(line: str) -> None:
    squeezed = made(line).sql.replace(" ", "")

    assert line.replace(" ", "") in squeezed


@pytest.mark.parametrize(
    "line",
    [
        "`g` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL",
        "`j` json DEFAULT NULL",
        "`v` int DEFAULT (uuid_short())",
        "CONSTRAINT `fk` FOREIGN KEY (`a`) REFERENCES `o` (`id`)",
        "CONSTRAINT `c` CHECK (`a` > 0)",
        "`i` int NOT NULL /*!80023 INVISIBLE */",
        "`x` int; DROP TABLE `y`",
        "`p` point NOT NULL",
    ],
)
def test_what_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(CannotCreateTarget, match=r"new`s\.all"):
        made(line)


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
