"""What the target has still that a statement is to make: something took it away at the source, and was left out.

Where no filter leaves out DDL, a column or a table that is there already is one that a person has made, or that this
subtask has made before it died: that is the same. Where one may, it can be an old one with old values, which the rows
at the source have not got; nothing in the target tells the two apart.
"""

from __future__ import annotations

from collections.abc import Iterable

import pymysql

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.ddl_execution import TargetDdl
from airflow_provider_dm.engine.target.ddl_journal import read_entries
from airflow_provider_dm.engine.target.errors import NOT_THERE, number_of
from airflow_provider_dm.engine.target.identity import SubtaskRef


def left_behind(connection: Connection, ref: SubtaskRef, position: str, statements: Iterable[TargetDdl]) -> str:
    """Return what the target has of what the statements of the DDL at `position` make, for people; "": nothing.

    What was begun is not looked at: the journal has it, and it may have been made by then.
    """
    new = [one for statement in statements for one in statement.new]
    if not new or read_entries(connection, ref, position):
        return ""
    there = {name: _columns(connection, name) for name in dict.fromkeys(name for name, _ in new)}
    found = (
        f"column {column} of {name}" if column else f"table {name}" for name, column in new if column in there[name]
    )
    return ", ".join(found)


def _columns(connection: Connection, name: TableName) -> frozenset[str]:
    """Return the names of its columns in lower case, and "" for itself; nothing where it is not there."""
    try:
        rows = query(connection, f"SHOW COLUMNS FROM {name.quoted()}")
    except pymysql.err.MySQLError as error:
        if number_of(error) in NOT_THERE:
            return frozenset()
        raise
    return frozenset({"", *(text(row[0]).lower() for row in rows)})
