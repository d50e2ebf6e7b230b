"""The state of running online DDL: values that `online_ddl` computes and the target stores."""

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
    """A statement as logged, and the session that is needed to parse it again."""

    sql: str
    sql_mode: int
    schema: str

    def read(self) -> Statement:
        """Parse the statement. Raises Unreadable."""
        return parse(self.sql, self.sql_mode, self.schema)


@dataclass(frozen=True, slots=True)
class GhostState:
    """The state of a ghost table, and the statements on it.

    `like`: the possible real tables, which had its definition when it was created; empty if it has a flaw. There are
    two if the ghost's name fits two tables with that definition: the RENAME decides.
    """

    like: tuple[TableName, ...] = ()
    statements: tuple[LoggedText, ...] = ()
    flaw: str = ""
    """Why these statements on the real table would not make it equal to the ghost; "" if they would."""

    def with_flaw(self, why: str) -> GhostState:
        return self if self.flaw else replace(self, flaw=why)

    def outdated(self, real: TableName, why: str) -> GhostState:
        """Return the state after a change of `real`, which is no longer in `like`."""
        rest = replace(self, like=tuple(name for name in self.like if name != real))
        return rest if rest.like or rest == self else rest.with_flaw(why)


@dataclass(frozen=True)
class OnlineDdls:
    """The state of a subtask's running online DDL. Immutable; equal to its copy in the target after a save."""

    ghosts: Mapping[TableName, GhostState] = field(default_factory=dict)
    away: Mapping[TableName, TableName] = field(default_factory=dict)
    """Real tables that were renamed away and not replaced yet: trash name -> real table."""

    def under_rules(self, rules: BlockAllowRules) -> OnlineDdls:
        """Return the state under the current rules: tables that are no longer ghosts are not tracked."""
        ghosts = {name: kept for name, kept in self.ghosts.items() if rules.kind_of(name) is TableKind.GHOST}
        return replace(self, ghosts=ghosts)

    def with_ghost(self, name: TableName, ghost: GhostState | None) -> OnlineDdls:
        return replace(self, ghosts=_with(self.ghosts, name, ghost))

    def with_away(self, trash: TableName, real: TableName | None) -> OnlineDdls:
        return replace(self, away=_with(self.away, trash, real))

    def trash_of(self, real: TableName) -> TableName | None:
        """Return the trash name of a real table that was renamed away and not replaced yet."""
        return next((trash for trash, one in self.away.items() if one == real), None)

    def outdated(self, real: TableName, why: str) -> OnlineDdls:
        """Return the state after a change of a table of the task: its ghosts are copies of the previous version."""
        ghosts = {name: ghost.outdated(real, why) for name, ghost in self.ghosts.items()}
        return replace(self, ghosts=ghosts)

    def with_flaw(self, ghosts: Iterable[TableName], why: str) -> OnlineDdls:
        found = {name: self.ghosts[name].with_flaw(why) for name in ghosts if name in self.ghosts}
        return replace(self, ghosts={**self.ghosts, **found}) if found else self


def _with(mapping: Mapping[TableName, Any], name: TableName, value: object) -> dict[TableName, Any]:
    rest = {one: kept for one, kept in mapping.items() if one != name}
    return rest if value is None else {**rest, name: value}
