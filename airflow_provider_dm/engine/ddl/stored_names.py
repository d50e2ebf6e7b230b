"""Names of schemas and tables as a server stores them; in the log they are as a user typed them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.mysql.identifiers import TableName


def stored_name(name: TableName, server: Server) -> TableName:
    """Return a name as the server stores it."""
    return TableName(name.schema.lower(), name.table.lower()) if server.lower_case_table_names == 1 else name


def as_stored(statement: ddl.Statement, server: Server) -> ddl.Statement:
    """Return the statement with the names of schemas and tables as the server stores them.

    With lower_case_table_names=1 they are stored in lower case, but logged as typed.
    """
    if server.lower_case_table_names != 1:
        return statement
    stored = partial(stored_name, server=server)
    match statement:
        case ddl.RenameTables(pairs):
            return replace(statement, pairs=tuple((stored(old), stored(new)) for old, new in pairs))
        case ddl.DropTables(tables):
            return replace(statement, tables=tuple(map(stored, tables)))
        case ddl.CreateDatabase(name) | ddl.AlterDatabase(name) | ddl.DropDatabase(name):
            return replace(statement, name=name.lower())
        case ddl.ViewStatement(created, dropped):
            return ddl.ViewStatement(tuple(map(stored, created)), tuple(map(stored, dropped)))
        case ddl.IrrelevantStatement():
            return statement
        case ddl.CreateTableLike(table, like):
            return replace(statement, table=stored(table), like=stored(like))
        case ddl.AlterTable(table, specs):
            renamed = (ddl.RenameTo(stored(spec.table)) if isinstance(spec, ddl.RenameTo) else spec for spec in specs)
            return replace(statement, table=stored(table), specs=tuple(renamed))
        case _:
            return replace(statement, table=stored(statement.table))
