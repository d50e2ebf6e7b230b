"""What a statement may come to for online DDL, and what it is judged by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.parse import NotRead
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
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import Change
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind
from airflow_provider_dm.engine.schema.model import Table

WAY_OUT: Final = (
    f"Leave the table out by block-allow-list, and the task goes on without it; or {MIGRATE_AGAIN}, while no online "
    "DDL is under way. A table that was left out comes back by such a task of its own."
)


@dataclass(frozen=True, slots=True)
class PassOver:
    """The statement changes no table of the task."""

    why: str


@dataclass(frozen=True, slots=True)
class Remember:
    """The statement changes no table of the task yet, and is kept."""

    ghost: TableName


@dataclass(frozen=True, slots=True)
class RealChange:
    """A change of the real table. `text`: as it was made to the ghost; under its sql_mode the Code in it is read."""

    statement: Change
    text: LoggedText


@dataclass(frozen=True, slots=True)
class Apply:
    """The ghost has become the real table, to which these changes, one or more, are to be made in this order."""

    real: TableName
    changes: tuple[RealChange, ...]


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Statement that has nothing to do with online DDL, or what is left of one without the tools' tables."""

    statement: Statement | NotRead


@dataclass(frozen=True, slots=True)
class Stop:
    """The statement may change a table of the task in a way that is not known."""

    why: str
    way_out: str = WAY_OUT


Outcome: TypeAlias = PassOver | Remember | Apply | Ordinary | Stop
Step: TypeAlias = tuple[OnlineDdls, Outcome]


CREATING: Final = (CreateTable, CreateTableLike, CreateTableSelect, CreateSequence)


class Role(Enum):
    """Part that a table plays in the task."""

    OURS = "of the task"
    GHOST = "a ghost"
    TRASH = "trash"
    OUTSIDE = "of nobody"


class Act(Enum):
    """Kind of a statement's effect on one table."""

    CREATE = "created"
    CHANGE = "altered"
    EMPTY = "truncated"
    DROP = "dropped"
    UNKNOWN = "changed by a statement that is not understood"


@dataclass(frozen=True, slots=True)
class View:
    """Knowledge of a step: memory, what the log has, the task's rules, and its tables as they are there."""

    memory: OnlineDdls
    text: LoggedText
    rules: BlockAllowRules
    tables: Mapping[TableName, Table]
    applied: Collection[TableName] = ()

    def role(self, table: TableName) -> Role:
        match self.rules.kind_of(table):
            case TableKind.GHOST:
                return Role.GHOST
            case TableKind.TRASH:
                return Role.TRASH
            case TableKind.REAL:
                return Role.OURS if self.rules.allows(table) else Role.OUTSIDE

    def is_tools(self, table: TableName) -> bool:
        return self.rules.kind_of(table) is not TableKind.REAL

    def known_reals(self, ghost: TableName) -> list[TableName]:
        """Return the tables of the task that the ghost may stand for."""
        return [one for one in self.rules.tools.real_tables(ghost) if one in self.tables]


def shown(text: LoggedText) -> str:
    return " ".join(text.sql.split()[:4]) + " …"
