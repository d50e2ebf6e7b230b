"""Both flavours' catalogues give the same picture of a table."""

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables, read_tables
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Index, Table
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, session


def test_columns_and_keys(source: Server, schema: str) -> None:
    connection = session(source)
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{schema}`")
        cursor.execute("CREATE TABLE parent (id INT PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE child (b BIGINT UNSIGNED NOT NULL, A VARCHAR(20) CHARACTER SET latin1, d DECIMAL(10,2), "
            "e DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), p INT, g INT AS (p + 1) STORED, h INT AS (p + 2), "
            "i INT DEFAULT 5 INVISIBLE, PRIMARY KEY (b), UNIQUE KEY z (A(3), d), UNIQUE KEY k (e), KEY n (p), "
            "FOREIGN KEY (p) REFERENCES parent (id))"
        )
    name = TableName(schema, "child")
    table = read_tables(connection, [name])[name]
    by_name = {column.name: column for column in table.columns}

    assert [column.position for column in table.columns] == list(range(8))
    assert by_name["b"].unsigned
    assert (by_name["A"].charset, by_name["A"].octet_length) == ("latin1", 20)
    assert (by_name["d"].numeric_precision, by_name["d"].numeric_scale) == (10, 2)
    assert (by_name["e"].datetime_precision, by_name["e"].nullable) == (3, False)
    assert [column.name for column in table.columns if column.generated] == ["g", "h"]
    assert [column.name for column in table.columns if column.invisible] == ["i"]
    assert table.unique_keys == (
        Index("PRIMARY", ("b",), prefixes=(None,)),
        Index("k", ("e",), prefixes=(None,)),
        Index("z", ("A", "d"), prefixes=(3, None)),
    )
    assert table.has_foreign_keys
    assert Table.from_json(table.to_json()) == table


def test_keys_whose_names_differ_in_an_accent_only_are_two(source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(source), "t")
    connection = session(source)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name.quoted()} (a INT, b INT, UNIQUE KEY `ä` (b), UNIQUE KEY `a` (a, b))")
    keys = read_tables(connection, [name])[name].unique_keys
    assert [(key.name, key.columns) for key in keys] == [("a", ("a", "b")), ("ä", ("b",))]


def test_an_index_over_an_expression_is_marked(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name.quoted()} (id INT, v INT, UNIQUE KEY f (id, (v + 1)))")
    keys = read_tables(connection, [name])[name].unique_keys
    assert [key.columns for key in keys if key.expression] == [("id",)]


def test_a_default_of_bytes_can_be_read(source: Server, fresh_schema: FreshSchema) -> None:
    """MariaDB shows the bytes themselves."""
    schema, value = fresh_schema(source), "00FF41275C0A"
    source.sql(f"CREATE TABLE t (id int, b varbinary(9) DEFAULT 0x{value}, c char(3) DEFAULT 'é')", database=schema)
    with session(source) as connection:
        shown = create_statement(connection, TableName(schema, "t"))
    source.sql(f"DROP TABLE t; {shown}; INSERT INTO t (id) VALUES (1)", database=schema)
    assert source.sql("SELECT HEX(b), c FROM t", database=schema) == [(value, "é")]


def test_strange_names_and_views(source: Server, schema: str) -> None:
    names = [TableName(schema, table) for table in ("B", "b", "o`d%d")]
    connection = session(source)
    with connection.cursor() as cursor:
        for number, name in enumerate(names):
            cursor.execute(
                f"CREATE TABLE {name.quoted()} (id INT PRIMARY KEY, `c``{number}` INT, UNIQUE (`c``{number}`))"
            )
        cursor.execute(f"CREATE VIEW `{schema}`.v AS SELECT 1 AS one")
    assert [name for name in list_tables(connection) if name.schema == schema] == sorted(names)
    tables = read_tables(connection, names)
    assert list(tables) == names
    assert [tables[name].columns[1].name for name in names] == ["c`0", "c`1", "c`2"]
    assert [len(tables[name].unique_keys) for name in names] == [2, 2, 2]
    assert "CREATE TABLE" in create_statement(connection, names[2])
    assert read_tables(connection, names[:2]) == {name: tables[name] for name in names[:2]}  # equal without case
    for missing in ("v", "nothing"):
        with pytest.raises(TableNotFound):
            read_tables(connection, [TableName(schema, missing)])


def test_system_schemas_are_not_listed(source: Server) -> None:
    assert {name.schema for name in list_tables(session(source))} & {"mysql", "sys", "information_schema"} == set()


def test_a_system_versioned_table_is_refused(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name.quoted()} (id INT) WITH SYSTEM VERSIONING")
    assert name in list_tables(connection)
    with pytest.raises(NotSupportedYet):
        read_tables(connection, [name])
