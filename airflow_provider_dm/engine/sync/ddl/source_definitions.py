"""The definitions of a source's tables, which the target stores, and which a run reads at its first DDL.

A definition is used only if it has the columns and keys with which the table's rows are decoded. A definition that a
user has deleted (`dmctl binlog-schema delete`) is read from the source, if the table there still has these columns.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.downstream.copy_progress import load_chunks
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.table_definitions import (
    Definition,
    explicit_sql,
    load_definitions,
    load_schema_collations,
    load_views,
    save_definitions,
)
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_table_schemas, put_table_schemas
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.survey import cascades_are_logged
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables, read_tables
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, coverages
from airflow_provider_dm.engine.sync.ddl.chunks_after import copied_by
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SubtaskTables
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)


def _definition_unusable(table: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the definition of {table} that was set with `dmctl binlog-schema update` cannot be used: {why}.",
        "Set the definition that the table had at the checkpoint, as SHOW CREATE TABLE of the source "
        "prints it, with `dmctl binlog-schema update`.",
    )


def load_tables(source: SyncSource) -> SubtaskTables:
    """Return the tables at the frontier. The tracker does not contain the tables that it cannot model."""
    connection, ref = target_connection(source.target), source.fence.ref
    schemas = tuple(
        one for one in load_table_schemas(connection, ref) if source.rules.block_allow.allows(one.table.name)
    )
    known = load_definitions(connection, ref)
    with connected(source.upstream) as upstream:
        server = server_of(upstream)
        cascades = cascades_are_logged(upstream)
        known = {**_unchanged_definitions(upstream, [one for one in schemas if one.table.name not in known]), **known}
    tracker = Tracker.of(server, {}, load_schema_collations(connection, ref), load_views(connection, ref))
    for schema in schemas:
        if schema.table.name in known:
            tracker = _with(tracker, schema, known[schema.table.name])
    return SubtaskTables(schemas, tracker, cascades)


def _unchanged_definitions(upstream: Connection, lacking: list[TableSchema]) -> dict[TableName, Definition]:
    existing = set(list_tables(upstream)) if lacking else set()
    tables = [schema.table for schema in lacking if schema.table.name in existing]
    now = read_tables(upstream, [table.name for table in tables])
    same = [table.name for table in tables if now[table.name] == table]
    return {name: Definition(create_statement(upstream, name)) for name in same}


def _with(tracker: Tracker, schema: TableSchema, definition: Definition) -> Tracker:
    name = schema.table.name
    try:
        tracked = tracker.with_table(name, explicit_sql(definition))
        if tracked.table(name) == schema.table:
            return tracked
    except CannotTrack as error:
        log.warning("DDL of %s cannot be followed: %s", name, error)
        return tracker
    log.warning("DDL of %s cannot be followed: its stored definition differs from the columns of its rows", name)
    return tracker


def adopt_user_definitions(source: SyncSource) -> None:
    """Decode rows with the definitions that users have set since the last run. Raises InvalidInput, Fenced."""
    connection, ref = target_connection(source.target), source.fence.ref
    known = load_definitions(connection, ref)
    written = {name: definition for name, definition in known.items() if definition.by_hand}
    if not written:
        return
    with connected(source.upstream) as upstream:
        tracker = Tracker.of(server_of(upstream), {}, load_schema_collations(connection, ref))
    schemas = {schema.table.name: schema for schema in load_table_schemas(connection, ref)}
    changed = [_schema_decoded_by(tracker, name, one, schemas.get(name), source) for name, one in written.items()]
    covered = coverages(load_chunks(connection, ref))
    for one in changed:
        name = one.table.name
        in_part = covered.get(name, ALL) not in (ALL, NONE) and name in schemas
        if in_part and copied_by(one.table) != copied_by(schemas[name].table):
            why = "the table is copied in part by another key, whose DDL is not reached yet"
            raise _definition_unusable(str(name), why)

    def body(tx: Connection) -> None:
        source.fence.check(tx)
        put_table_schemas(tx, ref, changed)
        save_definitions(tx, ref, {name: replace(definition, by_hand=False) for name, definition in written.items()})

    run_transaction(source.target, body)
    log.info("using the definitions that a user has set for %s", ", ".join(map(str, written)))


def _schema_decoded_by(
    tracker: Tracker, name: TableName, definition: Definition, schema: TableSchema | None, source: SyncSource
) -> TableSchema:
    try:
        table = tracker.with_table(name, explicit_sql(definition)).table(name)
    except CannotTrack as error:
        raise _definition_unusable(str(name), str(error)) from None
    if schema is None:
        return TableSchema.routed(table, source.rules.router)
    return replace(schema, table=table)


def definitions_of(before: Tracker, after: Tracker, renamed: Collection[TableName]) -> Mapping[TableName, Definition]:
    """Return the definitions in `after` that are new or differ from `before`, and those of renamed tables."""
    return {
        name: Definition(after.create_sql(name))
        for name in after.names()
        if name in renamed or name not in before.names() or before.definition(name) != after.definition(name)
    }
