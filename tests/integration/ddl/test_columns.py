"""The columns that servers make of the statements in the table of the unit tests, and those that we read there."""

import pymysql

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, CreateTable
from testbed import Server
from tests.unit.ddl.table_of_statements import MODES, Entry, entries

CREATED = [
    one for one in entries() if one.expected.startswith("CreateTable(shop.") and "START TRANSACTION" not in one.sql
]
DECIDED_LATER = {("blob", "tinyblob"), ("json", "longtext"), ("geometrycollection", "geomcollection")}
"""(ours, theirs): by the length, and by the flavour."""


def columns_there(server: Server, schema: str, entry: Entry) -> dict[str, tuple[str, str]] | None:
    """(type, full type) of each column of the table that the server makes in this schema; None if it refuses."""
    modes = [name for name, bit in MODES.items() if entry.sql_mode & bit]
    sql = entry.sql.replace("`shop`", f"`{schema}`").replace('"shop"', f"`{schema}`").replace("shop.", f"{schema}.")
    with server.connect() as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SET SESSION foreign_key_checks = 0, sql_mode = %s", [",".join(modes)])
            cursor.execute(f"USE `{schema}`")
            cursor.execute(sql)
        except pymysql.Error:
            return None
    found = server.sql(
        f"SELECT column_name, data_type, column_type FROM information_schema.columns WHERE table_schema = '{schema}'"
    )
    return {name: (data_type, column_type) for name, data_type, column_type in found}


def agrees(ours: ColumnDefinition, theirs: tuple[str, str]) -> bool:
    same = ours.type.name == theirs[0] or (ours.type.name, theirs[0]) in DECIDED_LATER
    return same and ours.type.unsigned == ("unsigned" in theirs[1])


def test_the_columns_are_those_that_the_server_makes(source: Server, schema: str) -> None:
    compared = 0
    for entry in CREATED:
        source.sql(f"DROP DATABASE `{schema}`; CREATE DATABASE `{schema}`")
        theirs = columns_there(source, schema, entry)
        if theirs is None:
            continue  # it is the other flavour's, or needs a plug-in, a tablespace or a directory
        ours = parse(entry.sql, entry.sql_mode, "shop")
        assert isinstance(ours, CreateTable)
        for column in ours.definition.columns:
            assert agrees(column, theirs[column.name]), (entry.sql, column, theirs[column.name])
            compared += 1
    assert compared > 250
