"""The tables of a subtask at one place of its log, and what one statement makes of them (`schema_change`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar

from airflow_provider_dm.engine.ddl.server import SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.zones import NO_ZONE, ZoneNeed
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import NO_FILTER
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.sync.ddl.verdict import AFTER_DDL, NOT_UNDERSTOOD, OF_DEFINITION, OF_VALUES


class CannotFollow(Exception):
    """A statement that the target's tables cannot follow by themselves; the argument says why."""

    way_out: ClassVar[str] = AFTER_DDL


class RefusedByFilter(CannotFollow):
    """A statement of which a rule of the binlog event filter says that it is an error."""


class ValuesDiffer(CannotFollow):
    """A statement of which the target would make other values of the rows than the source has."""

    way_out = OF_VALUES


class NotUnderstood(CannotFollow):
    """A statement behind which the definition of its table is not certain."""

    way_out = NOT_UNDERSTOOD


class DefinitionDiffers(CannotFollow):
    """A statement about something that the definition of its table, as far as it is known, does not have."""

    way_out = OF_DEFINITION


class NeedsAgreement(CannotFollow):
    """A statement that is for all source tables of a merged table to agree on."""


@dataclass(frozen=True)
class SubtaskTables:
    """The tables of a subtask at one place of its log: where their rows go, and what they consist of.

    `schemas` in the order of their names. The tracker may not know all of them: it has no equal model of some
    definitions.
    """

    schemas: tuple[TableSchema, ...]
    tracker: Tracker
    cascades_are_logged: bool = False
    """The source's log has the rows that its foreign keys change."""

    def schema(self, name: TableName) -> TableSchema | None:
        """Return the table of this name; None if it is none of the subtask's."""
        return next((one for one in self.schemas if one.table.name == name), None)

    def put(self, schema: TableSchema, *, instead_of: TableName | None = None) -> SubtaskTables:
        """Return the same with this table, new or in place of the one of its name, or of `instead_of`."""
        gone = {schema.table.name, instead_of}
        kept = [one for one in self.schemas if one.table.name not in gone]
        return replace(self, schemas=tuple(sorted((*kept, schema), key=lambda one: one.table.name)))

    def without(self, name: TableName) -> SubtaskTables:
        """Return the same without a table."""
        kept = tuple(one for one in self.schemas if one.table.name != name)
        return replace(self, schemas=kept, tracker=self.tracker.without([name]))


@dataclass(frozen=True)
class SchemaChange:
    """The meaning of one statement. `renamed`: of the subtask's tables, (old, new) in the order of the statement.

    `ended`: tables that are no part of the task any more. `notes`: what a person may want to know. `agreed`: the table
    that has changed and whose target takes the rows of others as well; None: the target may follow at once. `zone`:
    what the statements of the target need to know of the session's time zone.
    """

    tables: SubtaskTables
    statements: tuple[TargetDdl, ...] = ()
    renamed: tuple[tuple[TableName, TableName], ...] = ()
    ended: tuple[TableName, ...] = ()
    notes: tuple[str, ...] = ()
    agreed: TableName | None = None
    zone: ZoneNeed = NO_ZONE

    def altered(self, before: SubtaskTables) -> list[TableSchema]:
        """Return the tables that are not as they were `before`, and new ones."""
        known = {one.table.name: one for one in before.schemas}
        return [one for one in self.tables.schemas if known.get(one.table.name) != one]


class Executed(Enum):
    """What the target executes for a statement."""

    ITSELF = auto()
    GIVEN = auto()
    """A statement that a person has given."""
    NOTHING = auto()
    """The source's tables follow it, and that is all."""


@dataclass(frozen=True)
class Surroundings:
    """Facts besides the tables that decide. `position`: where the statement ends, as `Location.sort_key`.

    `fed_elsewhere`: target tables that take the rows of other sources of the task. `once_merged`: those that have taken
    the rows of several tables, of which some may have ended. `sql`: the statement's text. `agreeing`: the shards of a
    merged table agree on its DDL. `strict_collations`: none is replaced by its nearest. `overwrites`: the target may
    have rows of others. `unlike`: the names of source and target if
    they may convert rows in different ways (ddl/conversions.py); "" if they compute the same, or a person has decided.
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
    executed: Executed = Executed.ITSELF

    def by_hand(self, executed: Executed) -> Surroundings:
        """Return the same for what a person has decided: nothing is filtered, and the target converts rows itself."""
        return replace(self, rules=replace(self.rules, events=NO_FILTER), unlike="", executed=executed)

    def allows(self, table: TableName) -> bool:
        return self.rules.block_allow.allows(table)

    def route(self, table: TableName) -> TableName:
        return self.rules.router.route(table)
