"""The outcomes of a statement with regard to online DDL, and the context of the decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.errors import NotRead
from airflow_provider_dm.engine.ddl.statements import (
    CreateSequence,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    Statement,
)
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import GhostChange
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind
from airflow_provider_dm.engine.schema.model import Table

REMEDY: Final = (
    f"Leave the table out by block-allow-list, and the task continues without it; or {MIGRATE_AGAIN}, while no online "
    "DDL is running. To include that table again, migrate it alone by such a task."
)


@dataclass(frozen=True, slots=True)
class SkipDdl:
    """The statement changes no table of the task, or not yet: a statement about a ghost is recorded."""

    why: str


@dataclass(frozen=True, slots=True)
class RealChange:
    """A change of the real table. `text`: as applied to the ghost; its Code is read under the text's sql_mode."""

    statement: GhostChange
    text: LoggedText


@dataclass(frozen=True, slots=True)
class ApplyDdl:
    """The ghost has become the real table, to which these changes, one or more, have to be applied in this order."""

    real: TableName
    changes: tuple[RealChange, ...]


@dataclass(frozen=True, slots=True)
class OrdinaryDdl:
    """A statement that has nothing to do with online DDL, or the rest of a statement without the tools' tables."""

    statement: Statement | NotRead


@dataclass(frozen=True, slots=True)
class StopAtDdl:
    """The statement may change a table of the task in an unknown way."""

    why: str
    remedy: str = REMEDY


def recorded(ghost: TableName) -> SkipDdl:
    return SkipDdl(f"it is recorded for the ghost table {ghost}")


GhostOutcome: TypeAlias = SkipDdl | ApplyDdl | OrdinaryDdl | StopAtDdl
GhostStep: TypeAlias = tuple[OnlineDdls, GhostOutcome]


CREATING: Final = (CreateTable, CreateTableLike, CreateTableSelect, CreateSequence)


Difference: TypeAlias = Callable[[TableName, CreateTable], str | None]
"""Describes how a table that a statement creates differs from a table of the task; None if it does not."""


class TableRole(Enum):
    """The role of a table in the task."""

    OURS = "of the task"
    GHOST = "a ghost"
    TRASH = "trash"
    OUTSIDE = "outside of the task"


class TableEffect(Enum):
    """The kind of a statement's effect on one table."""

    CREATE = "created"
    CHANGE = "altered"
    EMPTY = "truncated"
    DROP = "dropped"
    UNKNOWN = "changed by a statement that cannot be parsed"


@dataclass(frozen=True, slots=True)
class DdlView:
    """The context of a decision: state, logged statement, the task's rules, and its tables at this location."""

    memory: OnlineDdls
    text: LoggedText
    rules: BlockAllowRules
    tables: Mapping[TableName, Table]
    difference: Difference
    applied: Collection[TableName] = ()

    def role(self, table: TableName) -> TableRole:
        match self.rules.kind_of(table):
            case TableKind.GHOST:
                return TableRole.GHOST
            case TableKind.TRASH:
                return TableRole.TRASH
            case TableKind.REAL:
                return TableRole.OURS if self.rules.allows(table) else TableRole.OUTSIDE

    def is_tool_table(self, table: TableName) -> bool:
        return self.rules.kind_of(table) is not TableKind.REAL

    def known_reals(self, ghost: TableName) -> list[TableName]:
        """Return the tables of the task whose ghost this table may be."""
        return [table for table in self.rules.tools.real_tables(ghost) if table in self.tables]


def statement_head(text: LoggedText) -> str:
    return " ".join(text.sql.split()[:4]) + " …"
