"""What a statement makes that may not be there yet: a table, or a column under a name that the table has not got."""

from __future__ import annotations

from typing import TypeAlias

from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropTables,
    RenameColumn,
    Statement,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName

Named: TypeAlias = tuple[TableName, str]
"""A table and its column in lower case; "": the table itself."""


def newly_made(statement: Statement, gone: set[Named]) -> tuple[Named, ...]:
    """Return what the statement makes. `gone`: what statements in front of it take away, which may come back; what this
    one takes away is added.
    """
    made: set[Named] = set()
    taken: set[Named] = set()
    match statement:
        case CreateTable(table):
            made.add((table, ""))
        case DropTables(tables):
            taken |= {(table, "") for table in tables}
        case AlterTable(table, specs):
            for spec in specs:
                match spec:
                    case AddColumn(column):
                        made.add((table, column.name.lower()))
                    case DropColumn(name):
                        taken.add((table, name.lower()))
                    case ChangeColumn(name, column) if name.lower() != column.name.lower():
                        made.add((table, column.name.lower()))
                        taken.add((table, name.lower()))
                    case RenameColumn(name, to) if name.lower() != to.lower():
                        made.add((table, to.lower()))
                        taken.add((table, name.lower()))
    gone |= taken
    return tuple(sorted(made - gone))
