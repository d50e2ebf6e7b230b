"""Statements about one table: the outcome by the table's role and the statement's effect on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl.errors import NotRead
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    DropTables,
    MaintenanceClause,
    SetOptions,
    Statement,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import GhostChange
from airflow_provider_dm.engine.rules.online_ddl.memory import GhostState, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    CREATING,
    DdlView,
    GhostOutcome,
    GhostStep,
    OrdinaryDdl,
    SkipDdl,
    StopAtDdl,
    TableEffect,
    TableRole,
    recorded,
    statement_head,
)
from airflow_provider_dm.engine.schema.charsets import UNSURE


@dataclass(frozen=True, slots=True)
class _Touch:
    """The effect of a statement on one of its tables."""

    view: DdlView
    statement: Statement | NotRead
    table: TableName
    effect: TableEffect

    @property
    def memory(self) -> OnlineDdls:
        return self.view.memory


def judge_table(view: DdlView, statement: Statement | NotRead, table: TableName, effect: TableEffect) -> GhostStep:
    return _ONE_TABLE[view.role(table), effect](_Touch(view, statement, table, effect))


def judge_each(
    view: DdlView, statement: DropTables | NotRead, tables: tuple[TableName, ...], effect: TableEffect
) -> GhostStep:
    """Decide about each table of a statement in turn; what remains of it is returned as an ordinary statement."""
    outcomes: dict[TableName, GhostOutcome] = {}
    for table in tables:
        memory, outcomes[table] = judge_table(view, statement, table, effect)
        view = replace(view, memory=memory)
    for outcome in outcomes.values():
        if isinstance(outcome, StopAtDdl):
            return view.memory, outcome
    rest = tuple(table for table, outcome in outcomes.items() if isinstance(outcome, OrdinaryDdl))
    if outcomes and not rest:
        return view.memory, next(iter(outcomes.values()))
    if isinstance(statement, DropTables) and rest != tables:
        statement = replace(statement, tables=rest)
    return view.memory, OrdinaryDdl(statement)


def judge_alter(view: DdlView, statement: AlterTable) -> GhostStep:
    table, further = statement.table, statement.tables[1:]
    if further and (view.is_tool_table(table) or any(map(view.is_tool_table, further))):
        if TableRole.OURS in map(view.role, (table, *further)):
            return view.memory, StopAtDdl(f"it moves rows or names between {table} and {', '.join(map(str, further))}")
        memory = view.memory.with_flaw((table, *further), f"it was changed by {statement_head(view.text)}")
        return memory, SkipDdl("it affects tables of an online DDL tool only")
    memory, outcome = judge_table(view, statement, table, TableEffect.CHANGE)
    for other in further:
        memory = memory.outdated(other, f"{other} was altered after it")
    return memory, outcome


def _ghost_created(touch: _Touch) -> GhostStep:
    memory, ghost, statement = touch.memory, touch.table, touch.statement
    if_not_exists = isinstance(statement, CREATING) and statement.if_not_exists
    if if_not_exists and ghost in memory.ghosts:
        return memory, SkipDdl(f"{ghost} exists")
    made = _made(touch.view, statement, ghost)
    if if_not_exists:
        made = made.with_flaw("it was created IF NOT EXISTS, and may have existed with another definition")
    return memory.with_ghost(ghost, made), recorded(ghost)


def _made(view: DdlView, statement: Statement | NotRead, ghost: TableName) -> GhostState:
    match statement:
        case CreateTableLike(like=like):
            return GhostState((like,))
        case CreateTable():
            reals = view.known_reals(ghost)
            if not reals:
                return GhostState(flaw="the task has no table of which it could be a copy")
            differences = {real: view.difference(real, statement) for real in reals}
            if alike := tuple(real for real, what in differences.items() if what is None):
                return GhostState(alike)
            return GhostState(flaw=f"its CREATE TABLE differs from {reals[0]} in {differences[reals[0]]}")
        case _:
            return GhostState(flaw="it was not created by CREATE TABLE or CREATE TABLE … LIKE")


def _ghost_changed(touch: _Touch) -> GhostStep:
    memory, ghost, text = touch.memory, touch.table, touch.view.text
    known = memory.ghosts.get(ghost)
    if known is None:
        known = GhostState(flaw="its CREATE TABLE is unknown, as it existed before the task or its rules")
    if not isinstance(touch.statement, GhostChange):
        known = known.with_flaw(f"{statement_head(text)} is not repeated")
    if UNSURE in text.sql:
        known = known.with_flaw(f"{statement_head(text)} has an unknown character")
    return memory.with_ghost(ghost, replace(known, statements=(*known.statements, text))), recorded(ghost)


def _ghost_unknown(touch: _Touch) -> GhostStep:
    why = f"{statement_head(touch.view.text)} is not understood"
    known = touch.memory.ghosts.get(touch.table, GhostState()).with_flaw(why)
    return touch.memory.with_ghost(touch.table, known), recorded(touch.table)


def _ghost_emptied(touch: _Touch) -> GhostStep:
    return touch.memory, SkipDdl(f"{touch.table} is a table of an online DDL tool")


def _ghost_dropped(touch: _Touch) -> GhostStep:
    return touch.memory.with_ghost(touch.table, None), SkipDdl(f"{touch.table} is a table of an online DDL tool")


def _trash_touched(touch: _Touch) -> GhostStep:
    if real := touch.memory.away.get(touch.table):
        return touch.memory, StopAtDdl(
            f"{real}, a table of the task, was renamed to {touch.table}, no table has replaced it, and now it is "
            f"{touch.effect.value}"
        )
    return touch.memory, SkipDdl(f"{touch.table} is a table of an online DDL tool")


def _ours_touched(touch: _Touch) -> GhostStep:
    """Leave a table of the task to the ordinary handling; its ghosts are copies of the previous version."""
    memory, real, statement = touch.memory, touch.table, touch.statement
    if trash := memory.trash_of(real):
        return memory, StopAtDdl(
            f"{real}, a table of the task, was renamed to {trash}, no ghost has replaced it, and now it is "
            f"{touch.effect.value}"
        )
    exists = isinstance(statement, CREATING) and statement.if_not_exists and real in touch.view.tables
    if exists or (isinstance(statement, AlterTable) and _changes_nothing(statement)):
        return memory, OrdinaryDdl(statement)
    return memory.outdated(real, f"{real} was {touch.effect.value} after it"), OrdinaryDdl(statement)


def _outside(touch: _Touch) -> GhostStep:
    return touch.memory, OrdinaryDdl(touch.statement)


def _changes_nothing(statement: AlterTable) -> bool:
    return all(
        isinstance(spec, MaintenanceClause)
        or (isinstance(spec, SetOptions) and {name for name, _ in spec.options} <= {"AUTO_INCREMENT"})
        for spec in statement.specs
    )


_ONE_TABLE: Final[dict[tuple[TableRole, TableEffect], Callable[[_Touch], GhostStep]]] = {
    (TableRole.GHOST, TableEffect.CREATE): _ghost_created,
    (TableRole.GHOST, TableEffect.CHANGE): _ghost_changed,
    (TableRole.GHOST, TableEffect.EMPTY): _ghost_emptied,
    (TableRole.GHOST, TableEffect.DROP): _ghost_dropped,
    (TableRole.GHOST, TableEffect.UNKNOWN): _ghost_unknown,
    **{(TableRole.TRASH, effect): _trash_touched for effect in TableEffect},
    **{(TableRole.OURS, effect): _ours_touched for effect in TableEffect},
    **{(TableRole.OUTSIDE, effect): _outside for effect in TableEffect},
}
assert _ONE_TABLE.keys() == {(role, effect) for role in TableRole for effect in TableEffect}
