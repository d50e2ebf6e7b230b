"""DDL whose result the target already has: a column with the same values in old rows, a key with its new name."""

import pytest

from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES
from airflow_provider_dm.engine.downstream.already import has_result

SAME = [
    ("int NULL", "int(11) DEFAULT NULL"),
    ("int NOT NULL", "int NOT NULL"),
    ("int NOT NULL DEFAULT 5", "bigint(20) NOT NULL DEFAULT '5'"),
    ("int NULL DEFAULT -5", "int DEFAULT '-5'"),
    ("boolean NOT NULL DEFAULT TRUE", "tinyint(1) NOT NULL DEFAULT 1"),
    ("decimal(10,2) NULL DEFAULT .5", "decimal(10,2) DEFAULT '0.50'"),
    ("varchar(9) NULL DEFAULT 5", "varchar(9) COLLATE utf8mb4_bin DEFAULT '5' COMMENT 'x'"),
    ("varchar(9) NULL DEFAULT 'it''s'", r"varchar(9) DEFAULT 'it\'s'"),
    ("bit(3) NULL DEFAULT 5", "bit(3) DEFAULT b'101'"),
    ("datetime(3) NULL DEFAULT '2024-1-01'", "datetime(3) DEFAULT '2024-01-01 00:00:00.000'"),
    ("time NULL DEFAULT '-1:30'", "time DEFAULT '-01:30:00'"),
    ("int AS (a * 2) STORED", "int GENERATED ALWAYS AS ((`a` * 2)) STORED"),
    ("varchar(9) AS (CONCAT('x', a)) VIRTUAL", "varchar(9) GENERATED ALWAYS AS (concat(_utf8mb4'x',`a`)) VIRTUAL"),
    ("int NULL DEFAULT (1 + 1)", "int DEFAULT ((1 + 1))"),
    ("int NOT NULL AUTO_INCREMENT UNIQUE", "int(11) NOT NULL AUTO_INCREMENT"),
]
ANOTHER = [
    ("int NULL DEFAULT 5", "int DEFAULT NULL"),
    ("int NULL", "int DEFAULT '0'"),
    ("int NULL", "int NOT NULL"),
    ("int NOT NULL", "int DEFAULT NULL"),
    ("varchar(9) NULL DEFAULT 'a'", "varchar(9) DEFAULT 'A'"),
    ("varchar(9) NULL DEFAULT 'NULL'", "varchar(9) DEFAULT NULL"),
    ("time NULL DEFAULT '10'", "time DEFAULT '10:00:00'"),
    ("time NULL DEFAULT '-01:30'", "time DEFAULT '01:30:00'"),
    ("datetime NULL DEFAULT '2024-01-01'", "datetime DEFAULT '2024-01-01 00:01:00'"),
    ("datetime NOT NULL DEFAULT CURRENT_TIMESTAMP", "datetime NOT NULL DEFAULT current_timestamp()"),
    ("int AS ((a + 1) * 2) STORED", "int GENERATED ALWAYS AS (`a` + 1 * 2) STORED"),
    ("int AS (a + 1) STORED", "int DEFAULT NULL"),
    ("int NULL", "int GENERATED ALWAYS AS (`a` + 1) STORED"),
    ("int NOT NULL AUTO_INCREMENT UNIQUE", "int NOT NULL"),
]


@pytest.mark.parametrize(
    ("definition", "there", "same"), [(*one, True) for one in SAME] + [(*one, False) for one in ANOTHER], ids=str
)
def test_an_existing_column_is_equal_if_old_rows_have_the_same_value(definition: str, there: str, same: bool) -> None:
    shown = f"CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `W` {there},\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
    assert has_result(f"ALTER TABLE `s`.`t` ADD COLUMN `w` {definition}", 0, shown) is same


def test_a_definition_is_parsed_under_the_sql_mode_of_the_session() -> None:
    add, shown = 'ALTER TABLE "s"."t" ADD COLUMN "w" int NULL', 'CREATE TABLE "t" ("w" int DEFAULT NULL)'
    assert has_result(add, ANSI_QUOTES, shown)
    assert not has_result(add, 0, shown)
    assert not has_result(add, ANSI_QUOTES, None)
    assert not has_result('ALTER TABLE "s"."t" RENAME COLUMN "v" TO "w"', ANSI_QUOTES, shown)
    assert not has_result('ALTER TABLE "s"."t" CHANGE "v" "w" int', ANSI_QUOTES, shown)


@pytest.mark.parametrize(("name", "there"), [("K2", True), ("k1", False), ("k3", False)])
def test_a_key_was_renamed_if_the_new_name_exists(name: str, there: bool) -> None:
    shown = f"CREATE TABLE `t` (`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`), KEY `{name}` (`a`,`b`))"
    assert has_result("ALTER TABLE `s`.`t` RENAME KEY `k1` TO `k2`", 0, shown) is there


def test_a_generated_key_is_not_hidden_if_the_target_needs_none() -> None:
    assert has_result("ALTER TABLE `t` ALTER INDEX `k` INVISIBLE", 0, "CREATE TABLE `t` (`a` int NOT NULL)")
