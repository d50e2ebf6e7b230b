"""Statements are parsed to the values in statements.txt; unknown syntax is never guessed."""

import pytest

from airflow_provider_dm.engine.ddl.errors import NotRead, Unreadable
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES
from airflow_provider_dm.engine.ddl.parse import AffectedTables, parse
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.table_of_statements import Entry, entries, meaning

TABLE = entries()


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: f"{entry.head}: {entry.sql[:60]}")
def test_a_statement_is_parsed_as_the_table_expects(entry: Entry) -> None:
    assert meaning(entry.sql, entry.sql_mode) == entry.expected


def test_the_table_is_large_and_has_both_flavours_and_every_kind() -> None:
    assert len(TABLE) > 400
    assert sum("mariadb" in entry.head for entry in TABLE) > 40
    assert sum("mysql" in entry.head for entry in TABLE) > 30
    assert sum(not entry.readable for entry in TABLE) > 70
    assert len({entry.expected.partition("(")[0] for entry in TABLE}) == 17, "all statements, and Unreadable"


def test_the_notation_of_a_statement_does_not_matter() -> None:
    plain = parse("ALTER TABLE shop.t ADD COLUMN a INTEGER DEFAULT 5, RENAME TO shop.u", 0, "")
    odd = parse('/*!50001 alter*/ table/**/"t"add a int default 5,rename"u"-- x', ANSI_QUOTES, "shop")
    assert plain == odd
    assert plain.tables == (TableName("shop", "t"), TableName("shop", "u"))


@pytest.mark.parametrize(
    ("sql", "about"),
    [
        ("ALTER TABLE t FROB", AffectedTables((TableName("s", "t"),))),
        ("ALTER TABLE t RENAME COLUMN a TO b, CONVERT TO CHARSET utf8, FROB", AffectedTables((TableName("s", "t"),))),
        ("CREATE TABLE IF NOT EXISTS a.t (a frob)", AffectedTables((TableName("a", "t"),), if_not_exists=True)),
        ("CREATE TABLE t (a int COMMENT 'open)", AffectedTables((TableName("s", "t"),))),
        ("CREATE INDEX i ON t FROB", AffectedTables((TableName("s", "t"),))),
        ("ALTER DATABASE d FROB", AffectedTables(())),
    ],
)
def test_the_certain_parts_of_an_unreadable_statement_are_returned(sql: str, about: AffectedTables) -> None:
    with pytest.raises(NotRead) as not_read:
        parse(sql, 0, "s")
    assert not_read.value.about == about


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t FROB, RENAME TO u",
        "ALTER TABLE t FROB, EXCHANGE PARTITION p WITH TABLE u",
        "ALTER TABLE t FROB, CONVERT TABLE u TO PARTITION p",
        "ALTER TABLE t COMMENT 'open",
        "ALTER TABLE t FROB; DROP TABLE u",
        "CREATE INDEX i ON t (a); DROP TABLE u",
        "TRUNCATE t; DROP TABLE u",
        "DROP TABLE t u",
    ],
)
def test_a_statement_that_may_change_another_table_is_unreadable(sql: str) -> None:
    with pytest.raises(Unreadable) as unreadable:
        parse(sql, 0, "s")
    assert not isinstance(unreadable.value, NotRead)


def test_the_schemas_of_references_and_of_new_table_names() -> None:
    altered = parse("ALTER TABLE a.t ADD FOREIGN KEY (x) REFERENCES u (y), RENAME v", 0, "b")
    assert isinstance(altered, AlterTable)
    assert "Reference(table=TableName(schema='a', table='u')" in repr(altered.specs[0])
    assert altered.tables == (TableName("a", "t"), TableName("b", "v"))
