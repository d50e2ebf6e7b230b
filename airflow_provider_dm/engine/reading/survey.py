"""Survey before a copy: a source's tables with their sizes, and the tables that the target already has. Reads only.

All sources of a run are surveyed before anything is changed anywhere, so that a mismatch in the last table of the last
source still leaves the target untouched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, query_whole, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.reading.chunks import TableSize
from airflow_provider_dm.engine.reading.errors import EngineNotTransactional
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import (
    create_statement_if_exists,
    existing_tables,
    list_tables,
    named,
    read_tables,
    schema_collations,
    stored_names,
)
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Table

TRANSACTIONAL: Final = frozenset({"innodb", "rocksdb", "tokudb"})
_BATCH: Final = 500


@dataclass(frozen=True)
class SourceTable:
    """One table to copy: its definition, its target table, its estimated size and its CREATE TABLE statement."""

    table: Table
    target: TableName
    rows: int
    """Estimated."""
    collation: str
    create: str
    """SHOW CREATE TABLE."""
    extracted: Mapping[str, str] = field(default_factory=dict)
    """Further columns of the target table, with the values that routing puts into them."""


@dataclass(frozen=True)
class SourceSurvey:
    """The part of a source that the task's rules select."""

    source_id: str
    flavour: Flavour
    server_uuid: str
    tables: tuple[SourceTable, ...]
    collations: dict[str, str]
    """The default collation of each schema with selected tables."""
    cascades_are_logged: bool = False


@dataclass(frozen=True)
class TargetSurvey:
    """The existing target tables among those that rows are routed to. `filled`: those with at least one row."""

    flavour: Flavour
    tables: dict[TableName, Table]
    filled: frozenset[TableName]
    rows: dict[TableName, int]
    """Estimated."""


def survey_source(endpoint: Endpoint, rules: SubtaskRules) -> SourceSurvey:
    """Read the tables of a source that belong to the task.

    Raises InvalidInput, EngineNotTransactional, and the errors of `connected`.
    """
    with connected(endpoint) as connection:
        present = list_tables(connection)
        names = select(present, rules.block_allow)
        if not names and not _are_empty_schemas(connection, present, rules):
            raise InvalidInput(
                f"the block-allow-list selects none of the {len(present)} tables that {endpoint.name} shows to this "
                "account.",
                "Check do-dbs and do-tables, and the SELECT privilege. A schema that has no table yet is enough to "
                "begin.",
            )
        return _surveyed(connection, endpoint, names, rules)


def _are_empty_schemas(connection: Connection, present: Sequence[TableName], rules: SubtaskRules) -> bool:
    """Return True if schemas of the task exist without any table, so that tables may be created later in the log."""
    allows = rules.block_allow.allows_schema
    if any(allows(name.schema) for name in present):
        return False
    return any(map(allows, schema_collations(connection)))


def _surveyed(
    connection: Connection, endpoint: Endpoint, names: Sequence[TableName], rules: SubtaskRules
) -> SourceSurvey:
    info = server_info(connection)
    existing = read_tables(connection, names)
    facts = _facts(connection, names)
    for name in names:
        _check_engine(endpoint.name, name, facts[name].engine)
    route = rules.router.route
    tables = tuple(
        SourceTable(
            table,
            route(name),
            facts[name].rows,
            facts[name].collation,
            _create_statement(connection, name),
            rules.router.extracted(name),
        )
        for name, table in existing.items()
    )
    known = schema_collations(connection)
    collations = {name.schema: known[name.schema] for name in names}
    cascades = cascades_are_logged(connection)
    return SourceSurvey(endpoint.name, info.flavour, info.server_uuid, tables, collations, cascades)


def cascades_are_logged(source: Connection) -> bool:
    """Return True if the source's log has the rows that its foreign keys change."""
    if not server_info(source).capabilities.cascades_can_be_logged:
        return False
    rows = query(source, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return bool(rows) and text(rows[0][1]).upper() == "OFF"


def survey_target(endpoint: Endpoint, names: Collection[TableName]) -> TargetSurvey:
    """Read the existing tables among `names`. Raises EngineNotTransactional, and the errors of `connected`."""
    with connected(endpoint) as connection:
        flavour = server_info(connection).flavour
        existing = existing_tables(connection, names)
        facts = _facts(connection, sorted(existing))
        for name in facts:
            _check_engine(endpoint.name, name, facts[name].engine)
        filled = {name for name in existing if query(connection, f"SELECT 1 FROM {name.quoted()} LIMIT 1")}
        rows = {name: fact.rows for name, fact in facts.items()}
        return TargetSurvey(flavour, read_tables(connection, sorted(existing)), frozenset(filled), rows)


def measure(endpoint: Endpoint, tables: Iterable[tuple[Table, int]]) -> list[TableSize]:
    """Measure tables for the chunk planner: MIN and MAX if the key begins with an integer, besides the estimated rows.

    Two index look-ups per table. A table that has changed since gets no span; the copy will detect the change.
    """
    with connected(endpoint) as connection:
        return [TableSize(table.name, rows, _span(connection, table)) for table, rows in tables]


def _span(connection: Connection, table: Table) -> tuple[int, int] | None:
    order = KeyOrder.of(table)
    if order is None or not order.splittable:
        return None
    column = quote(order.columns[0].name)
    try:
        ((low, high),) = query(connection, f"SELECT MIN({column}), MAX({column}) FROM {table.name.quoted()}")
        return None if low is None else (int(low), int(high))
    except ValueError:
        return None  # the column's type has changed since
    except pymysql.err.MySQLError as error:
        if error.args[0] in (ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR):
            return None
        raise


def _create_statement(connection: Connection, name: TableName) -> str:
    """Return SHOW CREATE TABLE. Raises TableNotFound if the table has been dropped since it was listed."""
    shown = create_statement_if_exists(connection, name)
    if shown is None:
        raise TableNotFound(str(name))
    return shown


@dataclass(frozen=True)
class _Facts:
    engine: str
    rows: int
    collation: str


def _facts(connection: Connection, names: Sequence[TableName]) -> dict[TableName, _Facts]:
    found: dict[TableName, _Facts] = {}
    as_given = {stored: name for name, stored in stored_names(connection, names).items()}
    stored = [*as_given]
    for start in range(0, len(stored), _BATCH):
        condition, arguments = named(stored[start : start + _BATCH])
        rows = query_whole(
            connection,
            "table_schema, table_name, engine, table_rows, table_collation",
            f"FROM information_schema.tables WHERE {condition}",
            arguments,
        )
        for schema, table, engine, estimate, collation in rows:
            facts = _Facts(text(engine or b""), int(estimate or 0), text(collation or b""))
            found[as_given.get(name := TableName(text(schema), text(table)), name)] = facts
    for name in names:
        if name not in found:
            raise TableNotFound(str(name))  # dropped since it was listed
    return {name: found[name] for name in names}


def _check_engine(server: str, name: TableName, engine: str) -> None:
    if engine.lower() not in TRANSACTIONAL:
        raise EngineNotTransactional(server, str(name), engine)
