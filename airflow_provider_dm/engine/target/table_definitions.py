"""dm_table_definition: a source's tables as CREATE TABLE, at the place of the log up to which all is applied.

It commits with the rows, like everything in the meta-schema. The text is the source's, whole and with the table's full
name; `engine.ddl.parse` has read each one before it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import SubtaskRef

_NAME = "dm_table_definition"


@dataclass(frozen=True)
class Definition:
    """A table's CREATE TABLE. `collation`: what its columns have that name none; "" where nobody has said."""

    create_sql: str
    collation: str = ""


def load_definitions(connection: Connection, ref: SubtaskRef) -> dict[TableName, Definition]:
    """Return the subtask's definitions by name, in the order of the names. Raises AnswerCut."""
    rows = query_whole(
        connection,
        "table_schema, table_name, create_sql, collation",
        f"FROM {ref.table(_NAME)} WHERE task = %s AND source = %s",
        ref.key,
        tail="ORDER BY table_schema, table_name",
    )
    return {
        TableName(text(schema), text(table)): Definition(text(sql), text(collation))
        for schema, table, sql, collation in rows
    }


def save_definition(
    connection: Connection, ref: SubtaskRef, name: TableName, create_sql: str, *, collation: str = ""
) -> None:
    """Write or replace one, inside a transaction whose first statement has checked the generation."""
    query(
        connection,
        f"REPLACE INTO {ref.table(_NAME)} (task, source, table_schema, table_name, create_sql, collation) "
        "VALUES (%s, %s, %s, %s, %s, %s)",
        (*ref.key, *name, create_sql, collation),
    )


def delete_definition(connection: Connection, ref: SubtaskRef, name: TableName) -> bool:
    """Remove one, inside a transaction that has checked the generation. Return whether it was there."""
    with connection.cursor() as cursor:
        removed = cursor.execute(
            f"DELETE FROM {ref.table(_NAME)} WHERE task = %s AND source = %s AND table_schema = %s AND table_name = %s",
            (*ref.key, *name),
        )
    return bool(removed)
