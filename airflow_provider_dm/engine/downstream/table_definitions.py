"""dm_table_definition: the source's tables as SQL, at the frontier: the next DDL is applied to them.

`dm_table_schema` has the tables by which rows are decoded. It lacks what a DDL statement may depend on: the default
charset, plain keys, CHECKs. Both change in the transaction that moves the frontier past a statement. A row without a
table's name is a schema, with its default collation. A row with a name and without a definition is a view.

A user's definition (`dmctl binlog-schema update`) is used from the next start on, for decoding rows as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import OF_TABLE, MetaRows, name_of
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_views, schema_collations

_ROWS: Final = MetaRows("dm_table_definition")


_COLUMNS: Final = "table_schema, table_name, create_sql, collation, by_hand"
_OF_VIEWS: Final = "table_name <> '' AND create_sql = ''"


@dataclass(frozen=True)
class Definitions:
    """Definitions of a source: each table's CREATE TABLE, each schema's default collation, and the names of views."""

    tables: Mapping[TableName, str]
    collations: Mapping[str, str]
    views: Collection[TableName] = ()

    @classmethod
    def read(cls, source: Connection, names: Iterable[TableName], schemas: Callable[[str], bool]) -> Definitions:
        """Read them from the source. `schemas`: those whose views matter. Raises IncompleteResult."""
        tables = {name: create_statement(source, name) for name in names}
        return cls(tables, schema_collations(source), list_views(source, schemas))


@dataclass(frozen=True)
class Definition:
    """A table's CREATE TABLE. `collation`: the table's, if the text has none; "" if it is unknown.

    `by_hand`: a user wrote it, and it is not used for decoding yet.
    """

    create_sql: str
    collation: str = ""
    by_hand: bool = False


def explicit_sql(definition: Definition) -> str:
    """Return the text, with the table's collation added if it is known and the text has neither it nor a charset."""
    if not definition.collation or "COLLATE" in definition.create_sql.upper():
        return definition.create_sql
    return f"{definition.create_sql} COLLATE={definition.collation}"


def load_definitions(connection: Connection, ref: SubtaskRef) -> dict[TableName, Definition]:
    """Return the subtask's definitions by name, in the order of the names. Raises IncompleteResult."""
    rows = _ROWS.read(connection, ref, _COLUMNS, "create_sql <> ''", tail="ORDER BY table_schema, table_name")
    return {
        name_of(schema, table): Definition(text(sql), text(collation), bool(int(by_hand)))
        for schema, table, sql, collation, by_hand in rows
    }


def save_definitions(connection: Connection, ref: SubtaskRef, definitions: Mapping[TableName, Definition]) -> None:
    """Store or replace these definitions, in a transaction that has checked the generation."""
    rows = [(*name, one.create_sql, one.collation, one.by_hand) for name, one in definitions.items()]
    _ROWS.put(connection, ref, _COLUMNS, rows)


def delete_definitions(connection: Connection, ref: SubtaskRef, names: Iterable[TableName]) -> int:
    """Remove these definitions, in a transaction that has checked the generation. Return their number."""
    return sum(_ROWS.delete(connection, ref, OF_TABLE, name) for name in names)


def load_schema_collations(connection: Connection, ref: SubtaskRef) -> dict[str, str]:
    """Return the stored default collation of each schema of the source. Raises IncompleteResult."""
    rows = _ROWS.read(connection, ref, "table_schema, collation", "table_name = ''")
    return {text(schema): text(collation) for schema, collation in rows}


def save_schema_collations(connection: Connection, ref: SubtaskRef, collations: Mapping[str, str]) -> None:
    """Replace the stored schemas, in a transaction that has checked the generation."""
    _ROWS.delete(connection, ref, "table_name = ''")
    _ROWS.put(connection, ref, _COLUMNS, [(schema, "", "", one, False) for schema, one in collations.items()])


def load_views(connection: Connection, ref: SubtaskRef) -> list[TableName]:
    """Return the stored views of the source. Raises IncompleteResult."""
    rows = _ROWS.read(connection, ref, "table_schema, table_name", _OF_VIEWS)
    return [name_of(schema, table) for schema, table in rows]


def save_views(connection: Connection, ref: SubtaskRef, views: Iterable[TableName]) -> None:
    """Replace the stored views, in a transaction that has checked the generation."""
    _ROWS.delete(connection, ref, _OF_VIEWS)
    _ROWS.put(connection, ref, _COLUMNS, [(*name, "", "", False) for name in views])


def begin_definitions(
    connection: Connection, ref: SubtaskRef, definitions: Definitions, by_hand: Mapping[TableName, Definition]
) -> None:
    """Replace all definitions, in the transaction that starts the subtask. `by_hand`: those written by users."""
    _ROWS.delete(connection, ref)
    stored = {name: Definition(sql) for name, sql in definitions.tables.items()}
    save_definitions(connection, ref, {**stored, **by_hand})
    save_schema_collations(connection, ref, definitions.collations)
    save_views(connection, ref, definitions.views)
