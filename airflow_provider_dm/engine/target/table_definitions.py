"""dm_table_definition: the source's tables as SQL, as they are where the frontier stands: what DDL is applied to.

`dm_table_schema` has what rows are decoded by. That does not tell what a further DDL statement makes of a table: its
default charset, its plain keys, its CHECKs. Both change in the transaction that moves the frontier over a statement.
A row without a table's name is a schema; it says the default collation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statements, schema_collations
from airflow_provider_dm.engine.target.identity import SubtaskRef

_TABLE: Final = "dm_table_definition"


@dataclass(frozen=True)
class Definitions:
    """What a source says of its tables and schemas: each table's CREATE TABLE, each schema's default collation."""

    tables: Mapping[TableName, str]
    collations: Mapping[str, str]

    @classmethod
    def read(cls, source: Connection, names: Iterable[TableName]) -> Definitions:
        """Ask the source. Raises AnswerCut."""
        return cls(create_statements(source, names), schema_collations(source))


def load_definitions(connection: Connection, ref: SubtaskRef) -> dict[TableName, str]:
    """Return the CREATE TABLE of each table of the subtask. Raises AnswerCut."""
    rows = query_whole(
        connection,
        "table_schema, table_name, create_sql",
        f"FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND table_name <> ''",
        ref.key,
    )
    return {TableName(text(schema), text(table)): text(sql) for schema, table, sql in rows}


def save_definitions(connection: Connection, ref: SubtaskRef, definitions: Mapping[TableName, str]) -> None:
    """Write these CREATE TABLEs, in a transaction that has checked the generation."""
    _put(connection, ref, [(*name, sql, "") for name, sql in definitions.items()])


def delete_definitions(connection: Connection, ref: SubtaskRef, names: Iterable[TableName]) -> None:
    """Remove these tables, in a transaction that has checked the generation."""
    for name in names:
        query(
            connection,
            f"DELETE FROM {ref.table(_TABLE)} "
            "WHERE task = %s AND source = %s AND table_schema = %s AND table_name = %s",
            (*ref.key, *name),
        )


def load_schema_collations(connection: Connection, ref: SubtaskRef) -> dict[str, str]:
    """Return the default collation of each schema of the source that is known. Raises AnswerCut."""
    rows = query_whole(
        connection,
        "table_schema, collation",
        f"FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND table_name = ''",
        ref.key,
    )
    return {text(schema): text(collation) for schema, collation in rows}


def save_schema_collations(connection: Connection, ref: SubtaskRef, collations: Mapping[str, str]) -> None:
    """Replace what is known of schemas, in a transaction that has checked the generation."""
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND table_name = ''", ref.key)
    _put(connection, ref, [(schema, "", "", collation) for schema, collation in collations.items()])


def begin_definitions(connection: Connection, ref: SubtaskRef, definitions: Definitions) -> None:
    """Replace all that is known, in the transaction that begins the subtask."""
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s", ref.key)
    save_definitions(connection, ref, definitions.tables)
    save_schema_collations(connection, ref, definitions.collations)


def _put(connection: Connection, ref: SubtaskRef, rows: list[tuple[str, str, str, str]]) -> None:
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            f"REPLACE INTO {ref.table(_TABLE)} (task, source, table_schema, table_name, create_sql, collation) "
            "VALUES (%s, %s, %s, %s, %s, %s)",
            [(*ref.key, *row) for row in rows],
        )
