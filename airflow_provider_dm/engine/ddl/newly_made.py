"""Tables and columns that a statement creates, under names that may not exist before it."""

from __future__ import annotations

from typing import TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.mysql.identifiers import TableName

Named: TypeAlias = tuple[TableName, str]
"""A table and its column in lower case; "": the table itself."""


def newly_made(statement: ddl.Statement, gone: set[Named]) -> tuple[Named, ...]:
    """Return the tables and columns that the statement creates, except names in `gone`.

    `gone`: names that earlier statements drop, which may exist again; those that this statement drops are added.
    """
    made: set[Named] = set()
    taken: set[Named] = set()
    match statement:
        case ddl.CreateTable(table):
            made.add((table, ""))
        case ddl.DropTables(tables):
            taken |= {(table, "") for table in tables}
        case ddl.AlterTable(table, specs):
            for spec in specs:
                match spec:
                    case ddl.AddColumn(column):
                        made.add((table, column.name.lower()))
                    case ddl.DropColumn(name):
                        taken.add((table, name.lower()))
                    case ddl.ChangeColumn(name, column) if name.lower() != column.name.lower():
                        made.add((table, column.name.lower()))
                        taken.add((table, name.lower()))
                    case ddl.RenameColumn(name, to) if name.lower() != to.lower():
                        made.add((table, to.lower()))
                        taken.add((table, name.lower()))
    gone |= taken
    return tuple(sorted(made - gone))
