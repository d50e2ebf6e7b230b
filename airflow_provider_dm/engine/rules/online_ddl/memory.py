"""What is remembered of online DDL under way: values that `online_ddl` makes, and that the target keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind


@dataclass(frozen=True, slots=True)
class LoggedText:
    """A statement as the log has it, and what it takes to read it again."""

    sql: str
    sql_mode: int
    schema: str

    def read(self) -> Statement:
        """Return what it says. Raises Unreadable."""
        return parse(self.sql, self.sql_mode, self.schema)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A ghost. `like`: the tables that are as it was when it was made. None left: it has a flaw.

    They may be two, where its name says two and both are alike: only its RENAME tells which of them is meant.
    """

    like: tuple[TableName, ...] = ()
    statements: tuple[LoggedText, ...] = ()
    flaw: str = ""
    """Why the statements are not what makes the real table the ghost; "" if they are."""

    def flawed(self, why: str) -> Remembered:
        return self if self.flaw else replace(self, flaw=why)

    def outdated(self, real: TableName, why: str) -> Remembered:
        """Return it without `real` among what it is like, as that was changed."""
        rest = replace(self, like=tuple(one for one in self.like if one != real))
        return rest if rest.like or rest == self else rest.flawed(why)


@dataclass(frozen=True)
class OnlineDdls:
    """Everything that a subtask remembers of online DDL under way. Immutable; equal to what is loaded after a save."""

    ghosts: Mapping[TableName, Remembered] = field(default_factory=dict)
    away: Mapping[TableName, TableName] = field(default_factory=dict)
    """Where a real table lies that nothing has replaced yet: the trash name -> the real table."""

    def known_to(self, rules: BlockAllowRules) -> OnlineDdls:
        """Return what is left under the rules of today: what they call no ghost is not kept up to date."""
        ghosts = {name: kept for name, kept in self.ghosts.items() if rules.kind_of(name) is TableKind.GHOST}
        return replace(self, ghosts=ghosts)

    def with_ghost(self, name: TableName, ghost: Remembered | None) -> OnlineDdls:
        return replace(self, ghosts=_with(self.ghosts, name, ghost))

    def with_away(self, trash: TableName, real: TableName | None) -> OnlineDdls:
        return replace(self, away=_with(self.away, trash, real))

    def trash_of(self, real: TableName) -> TableName | None:
        """Return where a real table lies that nothing has replaced yet."""
        return next((trash for trash, one in self.away.items() if one == real), None)

    def outdated(self, real: TableName, why: str) -> OnlineDdls:
        """Return it after a change of a table of the task: its ghosts are copies of what it was."""
        found = {name: ghost.outdated(real, why) for name, ghost in self.ghosts.items()}
        return replace(self, ghosts=found)

    def with_flaw(self, ghosts: Iterable[TableName], why: str) -> OnlineDdls:
        found = {name: self.ghosts[name].flawed(why) for name in ghosts if name in self.ghosts}
        return replace(self, ghosts={**self.ghosts, **found}) if found else self


def _with(mapping: Mapping[TableName, Any], name: TableName, value: object) -> dict[TableName, Any]:
    rest = {one: kept for one, kept in mapping.items() if one != name}
    return rest if value is None else {**rest, name: value}
