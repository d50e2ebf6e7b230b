"""A statement that is written again has the same meaning, under the sql_mode in which it was parsed."""

import pytest

from airflow_provider_dm.engine.ddl.errors import NotWritten
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateIndex,
    CreateTable,
    DropIndex,
    DropTables,
    KeyDefinition,
    KeyKind,
    KeyPart,
    RenameTables,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.write import key_sql, statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from tests.unit.ddl.table_of_statements import Entry, entries

READ = [(entry, parse(entry.sql, entry.sql_mode, "shop")) for entry in entries() if entry.readable]


def is_written(statement: Statement) -> bool:
    written = CreateTable | AlterTable | CreateIndex | DropIndex | DropTables | RenameTables | TruncateTable
    return isinstance(statement, written) and not (isinstance(statement, DropTables) and statement.sequences)


WRITTEN = [(entry, statement) for entry, statement in READ if is_written(statement)]


@pytest.mark.parametrize("flavour", [Flavour.MYSQL, Flavour.MARIADB])
@pytest.mark.parametrize(
    ("entry", "statement"), WRITTEN, ids=lambda one: one.sql[:60] if isinstance(one, Entry) else ""
)
def test_a_written_statement_has_the_same_meaning(entry: Entry, statement: Statement, flavour: Flavour) -> None:
    sql = statement_sql(statement, entry.sql_mode, flavour)
    assert parse(sql, entry.sql_mode, "another") == statement, sql


def test_nearly_all_statements_can_be_written() -> None:
    assert len(WRITTEN) > 240


def test_statements_that_cannot_be_written_are_refused() -> None:
    refused = [statement for _, statement in READ if not is_written(statement)]
    assert len(refused) > 50
    for statement in refused:
        with pytest.raises(NotWritten, match=type(statement).__name__):
            statement_sql(statement, 0, Flavour.MARIADB)


@pytest.mark.parametrize("sql_mode", [0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ANSI_QUOTES | NO_BACKSLASH_ESCAPES])
def test_strings_fit_the_mode_that_they_are_written_for(sql_mode: int) -> None:
    """The comment ends in a backslash and holds quotes of all kinds; the value was read under another mode."""
    read = parse(r"""ALTER TABLE t COMMENT 'a''b"c`d\\', ADD e enum('x\\', '"')""", 0, "shop")
    assert parse(statement_sql(read, sql_mode, Flavour.MYSQL), sql_mode, "") == read


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("drop table a, `b``c`.d", "DROP TABLE `shop`.`a`, `b``c`.`d`"),
        ("ALTER TABLE t ADD a int FIRST, DROP PRIMARY KEY REMOVE PARTITIONING",
         "ALTER TABLE `shop`.`t` ADD COLUMN `a` int FIRST, DROP PRIMARY KEY REMOVE PARTITIONING"),
        ("ALTER TABLE t CHANGE a a int, CHANGE b c int AFTER a",
         "ALTER TABLE `shop`.`t` MODIFY COLUMN `a` int, CHANGE COLUMN `b` `c` int AFTER `a`"),
        ("ALTER TABLE t ALTER INDEX i INVISIBLE", "ALTER TABLE `shop`.`t` ALTER INDEX `i` IGNORED"),
        ("CREATE TABLE t (a int) COMPRESSION='zlib' TABLESPACE=`a b` ENGINE='x y'",
         "CREATE TABLE `shop`.`t` ( `a` int ) COMPRESSION='zlib' TABLESPACE `a b` ENGINE='x y'"),
        ("CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (b) ON DELETE CASCADE)",
         "CREATE TABLE `shop`.`t` ( `a` int , FOREIGN KEY ( `a` ) REFERENCES `shop`.`u` ( `b` ) ON DELETE CASCADE )"),
        ("ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 0), ADD KEY IF NOT EXISTS k (a)",
         "ALTER TABLE `shop`.`t` ADD CONSTRAINT IF NOT EXISTS `c` CHECK (a > 0), ADD KEY IF NOT EXISTS `k` ( `a` )"),
    ],
)  # fmt: skip
def test_statements_are_written_in_normal_form(text: str, written: str) -> None:
    assert statement_sql(parse(text, 0, "shop"), 0, Flavour.MARIADB) == written


def test_a_primary_key_has_no_name() -> None:
    """TiDB refuses one (1280); the model of a source's table calls the key PRIMARY."""
    assert key_sql(KeyDefinition(KeyKind.PRIMARY, (KeyPart("a"),), "PRIMARY")) == "PRIMARY KEY ( `a` )"
    assert key_sql(KeyDefinition(KeyKind.UNIQUE, (KeyPart("a"),), "u")) == "UNIQUE KEY `u` ( `a` )"
