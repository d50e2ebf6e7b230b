"""Finds objects that a statement is to create, that exist in the target already and may have other values in their
rows.

A new table has no rows at its source. If the target's table has rows, they are foreign, unless another source table of
the task feeds it or has fed it. A column, or a table without rows, that exists already was created by a user, or by
this subtask before a crash, and is the same. But if a filter may ignore the DDL that drops it, it can be an old one
with old values; the target does not show which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pymysql

from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.ddl_journal import IN_FRONT, read_entries
from airflow_provider_dm.engine.downstream.errors import NOT_THERE, number_of
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.shard_groups import merged_targets
from airflow_provider_dm.engine.downstream.table_schema import load_feeders
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import stored_names


def left_behind(connection: Connection, ref: SubtaskRef, position: str, statements: Iterable[TargetDdl]) -> str:
    """Describe the existing objects of those that the statements of the DDL at `position` create; "" if none exist.

    Started statements are not examined: they are in the journal, and may have created their objects.
    """
    new = _not_begun(connection, ref, position, statements)
    there = {name: column_names(connection, name) for name in dict.fromkeys(name for name, _ in new)}
    found = (
        f"column {column} of {name}" if column else f"table {name}" for name, column in new if column in there[name]
    )
    return ", ".join(found)


def tables_with_rows(
    connection: Connection, ref: SubtaskRef, position: str, statements: Iterable[TargetDdl]
) -> list[TableName]:
    """Return the tables that the statements of the DDL at `position` create, and that have foreign rows. Started
    statements are skipped. Raises IncompleteResult, and InvalidInput if the server takes the name of a created table
    for that of another one of the task."""
    created = [name for name, column in _not_begun(connection, ref, position, statements) if not column]
    if not created:
        return []
    filled = [name for name in created if _rows_if_exists(connection, f"SELECT 1 FROM {name.quoted()} LIMIT 1")]
    # Read after the rows: another source may have created and filled the table in the meantime.
    fed = {feeder.target for feeder in load_feeders(connection, ref)} | merged_targets(connection, ref)
    stored_names(connection, {*fed, *created})
    return [name for name in filled if name not in fed]


def _not_begun(
    connection: Connection, ref: SubtaskRef, position: str, statements: Iterable[TargetDdl]
) -> Collection[tuple[TableName, str]]:
    """Return the objects that the statements create; none if the journal has any of the statements."""
    new = [table for statement in statements for table in statement.new]
    if new and any(number < IN_FRONT for number in read_entries(connection, ref, position)):
        return []
    return new


def column_names(connection: Connection, name: TableName) -> frozenset[str]:
    """Return the names of a table's columns in lower case, and "" for the table; empty if it does not exist."""
    rows = _rows_if_exists(connection, f"SHOW COLUMNS FROM {name.quoted()}")
    return frozenset({"", *(text(row[0]).lower() for row in rows)}) if rows else frozenset()


def _rows_if_exists(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    """Return the result of a query about a table; empty if the table does not exist."""
    try:
        return query(connection, sql)
    except pymysql.err.MySQLError as error:
        if number_of(error) in NOT_THERE:
            return []
        raise
