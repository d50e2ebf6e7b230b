"""A CREATE TABLE like pt-online-schema-change's compared with the catalogue, on each flavour of source."""

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.same_definition import definition_difference
from airflow_provider_dm.engine.schema.catalogue import create_statement, read_tables
from testbed import Server
from tests.conftest import FreshSchema

TABLE = r"""CREATE TABLE {0} (id int PRIMARY KEY, a varchar(20), `b c` int,
    g varchar(200) AS (concat(a, 'B c', 'it''s "x"', 'd\\e', '', '(x)', '\n', x'41')),
    h int AS ((`b c` + 1) * 2), k varchar(20) AS (if(a LIKE 'x\%', 'Y', NULL)) STORED)"""


def difference(source: Server, schema: str, copy: str) -> str | None:
    name = TableName(schema, "real")
    source.sql(TABLE.format(f"{schema}.`real`"))
    source.sql(copy.format(f"{schema}.`copy`"))
    with source.connect() as connection:
        made = parse(create_statement(connection, TableName(schema, "copy")), 0, schema)
        assert isinstance(made, CreateTable)
        return definition_difference(made.definition, read_tables(connection, [name])[name])


def test_an_equal_definition_does_not_differ(source: Server, fresh_schema: FreshSchema) -> None:
    assert difference(source, fresh_schema(source), TABLE) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("'B c'", "'b c'"),
        ("'B c'", "'Bc'"),
        ("'(x)'", "'x'"),
        (r"'d\\e'", r"'d\e'"),
        (r"'\n'", "'n'"),
        ("(`b c` + 1) * 2", "`b c` + (1 * 2)"),
    ],
)
def test_other_strings_and_parentheses_differ(
    source: Server, fresh_schema: FreshSchema, before: str, after: str
) -> None:
    assert before in TABLE
    column = "h" if "`b c`" in before else "g"
    assert difference(source, fresh_schema(source), TABLE.replace(before, after)) == f"another expression of {column}"
