"""Statements about one table: judged by the table's role and by what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    DropTables,
    SetOptions,
    Statement,
    Upkeep,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import Change
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls, Remembered
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    CREATING,
    Act,
    Ordinary,
    Outcome,
    PassOver,
    Remember,
    Role,
    Step,
    Stop,
    View,
    shown,
)
from airflow_provider_dm.engine.rules.online_ddl.same_definition import difference
from airflow_provider_dm.engine.schema.charsets import UNSURE


@dataclass(frozen=True, slots=True)
class _Touch:
    """Effect of a statement on one of its tables."""

    view: View
    statement: Statement | NotRead
    table: TableName
    act: Act

    @property
    def memory(self) -> OnlineDdls:
        return self.view.memory


def judge_table(view: View, statement: Statement | NotRead, table: TableName, act: Act) -> Step:
    return _ONE_TABLE[view.role(table), act](_Touch(view, statement, table, act))


def judge_each(view: View, statement: DropTables | NotRead, tables: tuple[TableName, ...], act: Act) -> Step:
    """Judge a statement for each of its tables, one after the other; what is left of it is for others to judge."""
    outcomes: dict[TableName, Outcome] = {}
    for table in tables:
        memory, outcomes[table] = judge_table(view, statement, table, act)
        view = replace(view, memory=memory)
    for outcome in outcomes.values():
        if isinstance(outcome, Stop):
            return view.memory, outcome
    rest = tuple(table for table, outcome in outcomes.items() if isinstance(outcome, Ordinary))
    if outcomes and not rest:
        return view.memory, next(iter(outcomes.values()))
    if isinstance(statement, DropTables) and rest != tables:
        statement = replace(statement, tables=rest)
    return view.memory, Ordinary(statement)


def judge_alter(view: View, statement: AlterTable) -> Step:
    table, further = statement.table, statement.tables[1:]
    if further and (view.is_tools(table) or any(map(view.is_tools, further))):
        if Role.OURS in map(view.role, (table, *further)):
            return view.memory, Stop(f"it moves rows or names between {table} and {', '.join(map(str, further))}")
        memory = view.memory.with_flaw((table, *further), f"it took part in {shown(view.text)}")
        return memory, PassOver("it concerns tables of an online DDL tool only")
    memory, outcome = judge_table(view, statement, table, Act.CHANGE)
    for other in further:
        memory = memory.outdated(other, f"{other} was altered after it")
    return memory, outcome


def _ghost_created(touch: _Touch) -> Step:
    memory, ghost, statement = touch.memory, touch.table, touch.statement
    if_not_exists = isinstance(statement, CREATING) and statement.if_not_exists
    if if_not_exists and ghost in memory.ghosts:
        return memory, PassOver(f"{ghost} exists")
    made = _made(touch.view, statement, ghost)
    if if_not_exists:
        made = made.flawed("it was created IF NOT EXISTS, and may have been there, as another table")
    return memory.with_ghost(ghost, made), Remember(ghost)


def _made(view: View, statement: Statement | NotRead, ghost: TableName) -> Remembered:
    match statement:
        case CreateTableLike(like=like):
            return Remembered((like,))
        case CreateTable(definition=definition):
            reals = view.known_reals(ghost)
            if not reals:
                return Remembered(flaw="the task has no table that it could have been made like")
            found = {real: difference(definition, view.tables[real]) for real in reals}
            if alike := tuple(real for real, what in found.items() if what is None):
                return Remembered(alike)
            return Remembered(flaw=f"its CREATE TABLE says {found[reals[0]]}, otherwise than {reals[0]} was")
        case _:
            return Remembered(flaw="it was not created like a table")


def _ghost_changed(touch: _Touch) -> Step:
    memory, ghost, text = touch.memory, touch.table, touch.view.text
    known = memory.ghosts.get(ghost)
    if known is None:
        known = Remembered(flaw="its CREATE TABLE was not seen, as it was there before the task or its rules were")
    if not isinstance(touch.statement, Change):
        known = known.flawed(f"{shown(text)} is not repeated")
    if UNSURE in text.sql:
        known = known.flawed(f"{shown(text)} has a character that is not known")
    return memory.with_ghost(ghost, replace(known, statements=(*known.statements, text))), Remember(ghost)


def _ghost_unknown(touch: _Touch) -> Step:
    why = f"{shown(touch.view.text)} is not understood"
    known = touch.memory.ghosts.get(touch.table, Remembered()).flawed(why)
    return touch.memory.with_ghost(touch.table, known), Remember(touch.table)


def _ghost_emptied(touch: _Touch) -> Step:
    return touch.memory, PassOver(f"{touch.table} is a table of an online DDL tool")


def _ghost_dropped(touch: _Touch) -> Step:
    return touch.memory.with_ghost(touch.table, None), PassOver(f"{touch.table} is a table of an online DDL tool")


def _trash_touched(touch: _Touch) -> Step:
    if real := touch.memory.away.get(touch.table):
        return touch.memory, Stop(
            f"{real}, a table of the task, was renamed to {touch.table}, nothing has taken its place, and now it is "
            f"{touch.act.value}"
        )
    return touch.memory, PassOver(f"{touch.table} is a table of an online DDL tool")


def _ours_touched(touch: _Touch) -> Step:
    """Leave a table of the task to others; its ghosts are copies of what it was."""
    memory, real, statement = touch.memory, touch.table, touch.statement
    if trash := memory.trash_of(real):
        return memory, Stop(
            f"{real}, a table of the task, was renamed to {trash}, no ghost has taken its place, and now it is "
            f"{touch.act.value}"
        )
    there = isinstance(statement, CREATING) and statement.if_not_exists and real in touch.view.tables
    if there or (isinstance(statement, AlterTable) and _changes_nothing(statement)):
        return memory, Ordinary(statement)
    return memory.outdated(real, f"{real} was {touch.act.value} after it"), Ordinary(statement)


def _outside(touch: _Touch) -> Step:
    return touch.memory, Ordinary(touch.statement)


def _changes_nothing(statement: AlterTable) -> bool:
    return all(
        isinstance(spec, Upkeep)
        or (isinstance(spec, SetOptions) and {name for name, _ in spec.options} <= {"AUTO_INCREMENT"})
        for spec in statement.specs
    )


_ONE_TABLE: Final[dict[tuple[Role, Act], Callable[[_Touch], Step]]] = {
    (Role.GHOST, Act.CREATE): _ghost_created,
    (Role.GHOST, Act.CHANGE): _ghost_changed,
    (Role.GHOST, Act.EMPTY): _ghost_emptied,
    (Role.GHOST, Act.DROP): _ghost_dropped,
    (Role.GHOST, Act.UNKNOWN): _ghost_unknown,
    **{(Role.TRASH, act): _trash_touched for act in Act},
    **{(Role.OURS, act): _ours_touched for act in Act},
    **{(Role.OUTSIDE, act): _outside for act in Act},
}
assert _ONE_TABLE.keys() == {(role, act) for role in Role for act in Act}
