"""The tables of a subtask at one location of its log, and the change that one statement makes (`schema_change`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from airflow_provider_dm.engine.ddl.server import SessionDefaults
from airflow_provider_dm.engine.ddl.statements import Code
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.zones import NO_ZONE, ZoneNeed
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import NO_FILTER
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules


@dataclass(frozen=True)
class SubtaskTables:
    """The tables of a subtask at one location of its log: their targets and definitions.

    `schemas`: in the order of their names. `tracker`: lacks the tables whose definitions it cannot model.
    """

    schemas: tuple[TableSchema, ...]
    tracker: Tracker
    cascades_are_logged: bool = False
    """True if the source logs the rows that its foreign keys change."""

    def schema(self, name: TableName) -> TableSchema | None:
        """Return the table with this name; None if the subtask does not have it."""
        return next((schema for schema in self.schemas if schema.table.name == name), None)

    def put(self, schema: TableSchema, *, instead_of: TableName | None = None) -> SubtaskTables:
        """Return a copy with this table, which replaces the table of the same name or of the name `instead_of`."""
        replaced = {schema.table.name, instead_of}
        kept = [one for one in self.schemas if one.table.name not in replaced]
        return replace(self, schemas=tuple(sorted((*kept, schema), key=lambda one: one.table.name)))

    def without(self, name: TableName) -> SubtaskTables:
        """Return a copy without a table."""
        kept = tuple(schema for schema in self.schemas if schema.table.name != name)
        return replace(self, schemas=kept, tracker=self.tracker.without([name]))


@dataclass(frozen=True)
class SchemaChange:
    """The meaning of one statement. `renamed`: tables of the subtask, (old, new) in the order of the statement.

    `ended`: tables that leave the task. `notes`: messages for the log. `agreed`: the shard that has changed, if the
    statements need the agreement of all shards; None: the target may execute them at once. `zone`: how the target's
    statements depend on the session's time zone.
    """

    tables: SubtaskTables
    statements: tuple[TargetDdl, ...] = ()
    renamed: tuple[tuple[TableName, TableName], ...] = ()
    ended: tuple[TableName, ...] = ()
    notes: tuple[str, ...] = ()
    agreed: TableName | None = None
    zone: ZoneNeed = NO_ZONE

    def altered(self, before: SubtaskTables) -> list[TableSchema]:
        """Return the tables that differ from `before`, and new tables."""
        known = {schema.table.name: schema for schema in before.schemas}
        return [schema for schema in self.tables.schemas if known.get(schema.table.name) != schema]


class Execution(Enum):
    """The statements that the target executes for a DDL."""

    ITSELF = auto()
    """The statement's own effect."""
    GIVEN = auto()
    """A statement that a user has given."""
    NOTHING = auto()
    """Nothing: only the model of the source's tables follows the statement."""


@dataclass(frozen=True)
class DdlContext:
    """The facts, besides the tables, on which the meaning of a statement depends.

    `position`: the end of the statement, as `Location.sort_key`. `fed_elsewhere`: target tables with rows of other
    sources of the task. `once_merged`: target tables that have received rows of several tables, some of which may have
    ended. `sql`: the statement's text. `agreeing`: the shards of a merged table agree on its DDL. `strict_collations`:
    no collation is replaced by a similar one. `overwrites`: the target may have rows of other origin. `unlike`: the
    names of source and target if they may convert rows differently (ddl/conversions.py); "" if they compute the same
    values, or a user has decided. `ordered_differently`: tables whose target does not have the order of their primary
    key. `json_columns`: columns, in lower case, that are JSON in the target. `partitions`: the partition clause of the
    target table from which the statement removes partitions.
    """

    rules: SubtaskRules
    target: Capabilities
    session: SessionDefaults
    position: str
    fed_elsewhere: frozenset[TableName] = frozenset()
    once_merged: frozenset[TableName] = frozenset()
    sql: str = ""
    agreeing: bool = False
    strict_collations: bool = False
    overwrites: bool = False
    unlike: str = ""
    executed: Execution = Execution.ITSELF
    ordered_differently: frozenset[TableName] = frozenset()
    json_columns: frozenset[tuple[TableName, str]] = frozenset()
    partitions: Code | None = None

    def by_hand(self, executed: Execution) -> DdlContext:
        """Return the facts for a user's decision: no event filter, and the target converts rows in its own way."""
        return replace(self, rules=replace(self.rules, events=NO_FILTER), unlike="", executed=executed, partitions=None)

    def allows(self, table: TableName) -> bool:
        return self.rules.block_allow.allows(table)

    def route(self, table: TableName) -> TableName:
        return self.rules.router.route(table)
