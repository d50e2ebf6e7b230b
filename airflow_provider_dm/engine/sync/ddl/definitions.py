"""The model of a source's tables as it is kept in the target: read when a DDL comes, and when a person has changed it.

A definition counts only if it has the columns and keys by which the table's rows are read. A definition that a person
has removed (`dmctl binlog-schema delete`) is taken from the source of today, if its table is still of that form.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from airflow_provider_dm.engine.ddl.server import CannotTrack, server_of
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
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables, read_tables
from airflow_provider_dm.engine.sync.coverage import Part, coverages
from airflow_provider_dm.engine.sync.ddl.chunks_behind import copied_by
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SubtaskTables
from airflow_provider_dm.engine.sync.source import SyncSource

log = logging.getLogger(__name__)


class DefinitionUnusable(DmError):
    """A definition that a person has given, and by which no rows can be read."""

    table: str
    why: str

    code = "DM-6035"
    what = "the definition of {table} that was given by hand cannot be used: {why}."
    hint = (
        "Give another one by `dmctl binlog-schema update`, as SHOW CREATE TABLE of the source printed it at the "
        "checkpoint."
    )


def load_tables(source: SyncSource) -> SubtaskTables:
    """Return the tables at the frontier; the tracker lacks those that it has no model of."""
    connection, ref = target_connection(source.target), source.fence.ref
    schemas = tuple(
        one for one in load_table_schemas(connection, ref) if source.rules.block_allow.allows(one.table.name)
    )
    known = load_definitions(connection, ref)
    with connected(source.spec.endpoint.resolve()) as upstream:
        server = server_of(upstream)
        cascades = _cascades_are_logged(upstream)
        known = {**_of_today(upstream, [one for one in schemas if one.table.name not in known]), **known}
    tracker = Tracker.of(server, {}, load_schema_collations(connection, ref), load_views(connection, ref))
    for schema in schemas:
        if schema.table.name in known:
            tracker = _with(tracker, schema, known[schema.table.name])
    return SubtaskTables(schemas, tracker, cascades)


def _cascades_are_logged(upstream: Connection) -> bool:
    if not server_info(upstream).capabilities.cascades_can_be_logged:
        return False
    found = query(upstream, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return bool(found) and text(found[0][1]).upper() == "OFF"


def _of_today(upstream: Connection, lacking: list[TableSchema]) -> dict[TableName, Definition]:
    there = set(list_tables(upstream)) if lacking else set()
    tables = [one.table for one in lacking if one.table.name in there]
    now = read_tables(upstream, [table.name for table in tables])
    same = [table.name for table in tables if now[table.name] == table]
    return {name: Definition(create_statement(upstream, name)) for name in same}


def _with(tracker: Tracker, schema: TableSchema, definition: Definition) -> Tracker:
    name = schema.table.name
    try:
        found = tracker.with_table(name, explicit_sql(definition))
        if found.table(name) == schema.table:
            return found
    except CannotTrack as error:
        log.warning("DDL of %s cannot be followed: %s", name, error)
        return tracker
    log.warning("DDL of %s cannot be followed: its definition is not the one that its rows are read by", name)
    return tracker


def take_definitions_by_hand(source: SyncSource) -> None:
    """Read rows by the definitions that people have written since the last run. Raises DefinitionUnusable, Fenced."""
    connection, ref = target_connection(source.target), source.fence.ref
    known = load_definitions(connection, ref)
    written = {name: one for name, one in known.items() if one.by_hand}
    if not written:
        return
    with connected(source.spec.endpoint.resolve()) as upstream:
        tracker = Tracker.of(server_of(upstream), {}, load_schema_collations(connection, ref))
    schemas = {one.table.name: one for one in load_table_schemas(connection, ref)}
    changed = [_read_by(tracker, name, one, schemas.get(name), source) for name, one in written.items()]
    covered = coverages(load_chunks(connection, ref))
    for one in changed:
        name = one.table.name
        in_part = isinstance(covered.get(name), Part) and name in schemas
        if in_part and copied_by(one.table) != copied_by(schemas[name].table):
            why = "the table is copied in part, in the order of another key; the DDL that changes it is still to come"
            raise DefinitionUnusable(str(name), why)

    def body(tx: Connection) -> None:
        source.fence.check(tx)
        put_table_schemas(tx, ref, changed)
        save_definitions(tx, ref, {name: replace(one, by_hand=False) for name, one in written.items()})

    run_transaction(source.target, body)
    log.info("rows of %s are read by definitions that were given by hand", ", ".join(map(str, written)))


def _read_by(
    tracker: Tracker, name: TableName, definition: Definition, schema: TableSchema | None, source: SyncSource
) -> TableSchema:
    try:
        table = tracker.with_table(name, explicit_sql(definition)).table(name)
    except CannotTrack as error:
        raise DefinitionUnusable(str(name), str(error)) from None
    if schema is None:
        return TableSchema(table, source.rules.router.route(name))
    return replace(schema, table=table)


def definitions_of(before: Tracker, after: Tracker, renamed: Collection[TableName]) -> Mapping[TableName, Definition]:
    """Return the definitions that `after` has and `before` has not, and those of tables with another name."""
    return {
        name: Definition(after.create_sql(name))
        for name in after.names()
        if name in renamed or name not in before.names() or before.definition(name) != after.definition(name)
    }
