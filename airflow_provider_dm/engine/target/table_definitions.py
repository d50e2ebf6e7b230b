"""dm_table_definition: the source's tables as SQL, as they are where the frontier stands: what DDL is applied to.

`dm_table_schema` has what rows are decoded by. That does not tell what a further DDL statement makes of a table: its
default charset, its plain keys, its CHECKs. Both change in the transaction that moves the frontier over a statement.
A row without a table's name is a schema; it says the default collation.

What a person has written (`dmctl binlog-schema update`) counts from the next start on, for reading rows as well.
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
    """Definitions of a source's tables and schemas: each table's CREATE TABLE, each schema's default collation."""

    tables: Mapping[TableName, str]
    collations: Mapping[str, str]

    @classmethod
    def read(cls, source: Connection, names: Iterable[TableName]) -> Definitions:
        """Ask the source. Raises AnswerCut."""
        return cls(create_statements(source, names), schema_collations(source))


@dataclass(frozen=True)
class Definition:
    """A table's CREATE TABLE. `collation`: the table's, where the text names none; "" where nobody has said.

    `by_hand`: a person wrote it, and rows are not read by it yet.
    """

    create_sql: str
    collation: str = ""
    by_hand: bool = False


def said(definition: Definition) -> str:
    """Return the text with the table's collation, where that is known and the text names neither that nor a charset."""
    if not definition.collation or "COLLATE" in definition.create_sql.upper():
        return definition.create_sql
    return f"{definition.create_sql} COLLATE={definition.collation}"


def load_definitions(connection: Connection, ref: SubtaskRef) -> dict[TableName, Definition]:
    """Return the subtask's definitions by name, in the order of the names. Raises AnswerCut."""
    rows = query_whole(
        connection,
        "table_schema, table_name, create_sql, collation, by_hand",
        f"FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND table_name <> ''",
        ref.key,
        tail="ORDER BY table_schema, table_name",
    )
    return {
        TableName(text(schema), text(table)): Definition(text(sql), text(collation), bool(int(by_hand)))
        for schema, table, sql, collation, by_hand in rows
    }


def save_definitions(connection: Connection, ref: SubtaskRef, definitions: Mapping[TableName, Definition]) -> None:
    """Write these, in the place of others, in a transaction that has checked the generation."""
    _put(connection, ref, [(*name, *_cells(one)) for name, one in definitions.items()])


def delete_definitions(connection: Connection, ref: SubtaskRef, names: Iterable[TableName]) -> int:
    """Remove these, in a transaction that has checked the generation. Return how many were there."""
    with connection.cursor() as cursor:
        return sum(
            cursor.execute(
                f"DELETE FROM {ref.table(_TABLE)} "
                "WHERE task = %s AND source = %s AND table_schema = %s AND table_name = %s",
                (*ref.key, *name),
            )
            for name in names
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
    _put(connection, ref, [(schema, "", "", collation, False) for schema, collation in collations.items()])


def begin_definitions(
    connection: Connection, ref: SubtaskRef, definitions: Definitions, by_hand: Mapping[TableName, Definition]
) -> None:
    """Replace all that is known, in the transaction that begins the subtask. `by_hand`: what people have written."""
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s", ref.key)
    found = {name: Definition(sql) for name, sql in definitions.tables.items()}
    save_definitions(connection, ref, {**found, **by_hand})
    save_schema_collations(connection, ref, definitions.collations)


def _cells(definition: Definition) -> tuple[str, str, bool]:
    return definition.create_sql, definition.collation, definition.by_hand


def _put(connection: Connection, ref: SubtaskRef, rows: list[tuple[str, str, str, str, bool]]) -> None:
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            f"REPLACE INTO {ref.table(_TABLE)} (task, source, table_schema, table_name, create_sql, collation, by_hand)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [(*ref.key, *row) for row in rows],
        )
