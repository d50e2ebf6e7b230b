"""A resolved definition as CREATE TABLE: canonical, read back as an equal definition.

It is what the model of a source's tables is kept as, and what people see of it.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dm.engine.ddl.statements import (
    Check,
    ColumnDefinition,
    Constraint,
    ForeignKey,
    Key,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.write import column_sql, key_sql, string_sql
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote


def create_table_sql(name: TableName, definition: TableDefinition) -> str:
    """Return the statement, to be read without sql_mode. The table is named without its schema, as servers show it."""
    elements = [_column(column) for column in definition.columns] + [_constraint(one) for one in definition.constraints]
    lines = ",\n".join(f"  {element}" for element in elements)
    options = "".join(f" {_option(*option)}" for option in definition.options)
    partitioning = f"\n{definition.partitioning}" if definition.partitioning is not None else ""
    return f"CREATE TABLE {quote(name.table)} (\n{lines}\n){options}{partitioning}"


def _column(column: ColumnDefinition) -> str:
    said = column.type.name == "timestamp" or not column.nullable
    return column_sql(column if said else replace(column, nullable=None))


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case Key():
            return key_sql(constraint)
        case ForeignKey():
            columns = " , ".join(map(quote, constraint.columns))
            target = constraint.references
            referenced = f" ( {' , '.join(map(quote, target.columns))} )" if target.columns else ""
            actions = "".join(f" {when} {what}" for when, what in target.actions)
            named = f"CONSTRAINT {quote(str(constraint.constraint))} FOREIGN KEY ( {columns} )"
            return f"{named} REFERENCES {target.table.quoted()}{referenced}{actions}"
        case Check():
            enforced = "" if constraint.enforced else " NOT ENFORCED"
            return f"CONSTRAINT {quote(str(constraint.constraint))} CHECK {constraint.expression}{enforced}"


def _option(name: str, value: str) -> str:
    if name in ("COMMENT", "CONNECTION", "DATA DIRECTORY", "INDEX DIRECTORY", "COMPRESSION", "PASSWORD"):
        return f"{name}={string_sql(value)}"
    return f"DEFAULT CHARSET={value}" if name == "CHARSET" else f"{name}={value}"
