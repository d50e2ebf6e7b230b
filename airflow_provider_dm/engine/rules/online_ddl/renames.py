"""Renames: judged by the roles of the old name and the new, for what the whole statement comes to.

RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`      t: OURS to TRASH     it lies away
                                                   _t_gho: GHOST to OURS     cut over
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.statements import AlterTable, RenameTables
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import Change, about_real, not_repeatable
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls, Remembered
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    Apply,
    Ordinary,
    PassOver,
    RealChange,
    Remember,
    Role,
    Step,
    Stop,
    View,
)


@dataclass(frozen=True, slots=True)
class _Move:
    """One table's way from a name to another, as a whole RENAME has it. `held`: what was remembered of the old name."""

    old: TableName
    new: TableName
    held: Remembered | None = None
    holds: TableName | None = None
    """The table of the task that lies under the old name."""


def judge_rename(
    view: View, statement: AlterTable | RenameTables, pairs: list[tuple[TableName, TableName]], *, if_exists: bool
) -> Step:
    """Judge a RENAME by what it comes to: all tables leave their names, then each arrives at its new one."""
    if not any(view.is_tools(table) for pair in pairs for table in pair):
        memory = view.memory
        for table in (table for pair in pairs for table in pair if view.role(table) is Role.OURS):
            if trash := memory.trash_of(table):
                return view.memory, Stop(f"{table} was renamed to {trash}, and no ghost has taken its place")
            memory = memory.outdated(table, f"{table} was renamed after it")
        return memory, Ordinary(statement)
    memory, moves = _taken_off(view.memory, _net(pairs))
    roles = [(view.role(move.old), view.role(move.new)) for move in moves]
    if if_exists and any(role[0] is not Role.TRASH or move.holds for role, move in zip(roles, moves, strict=True)):
        return view.memory, Stop("whether a RENAME … IF EXISTS of a ghost did anything is not known")
    applied: list[tuple[TableName, Apply | PassOver]] = []
    # Those that leave come first: which of the pairs stands first in the text says nothing about the whole.
    for move, role in sorted(zip(moves, roles, strict=True), key=lambda one: one[1] == (Role.GHOST, Role.OURS)):
        memory, outcome = _moved(replace(view, memory=memory), move, role)
        if isinstance(outcome, Stop):
            return view.memory, outcome
        if role == (Role.GHOST, Role.OURS):
            assert isinstance(outcome, Apply | PassOver)
            applied.append((move.new, outcome))
    if len(applied) > 1:
        return view.memory, Stop(f"it replaces {' and '.join(str(real) for real, _ in applied)} at once")
    if applied:
        return memory, applied[0][1]
    changed = [move.new for move in moves if move.new in memory.ghosts or move.new in memory.away]
    return memory, Remember(changed[0]) if changed else PassOver("it concerns tables of an online DDL tool only")


def _net(pairs: list[tuple[TableName, TableName]]) -> list[tuple[TableName, TableName]]:
    """Return (first name, last name) of each table that has another one afterwards.

    >>> a, b, c = (TableName("s", name) for name in "abc")
    >>> [f"{old.table}>{new.table}" for old, new in _net([(a, c), (b, a), (c, b)])]
    ['a>b', 'b>a']
    """
    now: dict[TableName, TableName] = {}
    for old, new in pairs:
        first = next((one for one, name in now.items() if name == old), old)
        now[first] = new
    return [(old, new) for old, new in now.items() if old != new]


def _taken_off(memory: OnlineDdls, pairs: list[tuple[TableName, TableName]]) -> tuple[OnlineDdls, list[_Move]]:
    moves = [_Move(old, new, memory.ghosts.get(old), memory.away.get(old)) for old, new in pairs]
    for old, _ in pairs:
        memory = memory.with_ghost(old, None).with_away(old, None)
    return memory, moves


_Moved: TypeAlias = tuple[OnlineDdls, Apply | PassOver | Stop]
_NOTHING: Final = PassOver("")


def _moved(view: View, move: _Move, role: tuple[Role, Role]) -> _Moved:
    """Judge one table's way, unless DM has applied all that is the task's of it up to a place behind the statement."""
    ours = [name for name, one in zip((move.old, move.new), role, strict=True) if one is Role.OURS]
    if not ours or not all(name in view.applied for name in ours):
        return _RENAMED[role](view, move)
    memory = view.memory
    for name in ours:
        memory = memory.outdated(name, f"{name} was renamed or replaced after it")
    return memory, PassOver(f"{' and '.join(map(str, ours))} is applied up to a later place")


def _ours_to_trash(view: View, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.old), _NOTHING


def _trash_to_ours(view: View, move: _Move) -> _Moved:
    if move.holds == move.new:
        return view.memory, PassOver(f"{move.new} is back under its name")
    return view.memory, Stop(f"{move.old} becomes {move.new}, and what rows it has is not known")


def _trash_to_trash(view: View, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.holds), _NOTHING


def _trash_to_outside(view: View, move: _Move) -> _Moved:
    if move.holds:
        return view.memory, Stop(f"{move.holds}, a table of the task, goes by way of {move.old} to {move.new}")
    return view.memory, _NOTHING


def _trash_to_ghost(view: View, move: _Move) -> _Moved:
    return _trash_to_outside(view, move) if move.holds else _outside_to_ghost(view, move)


def _outside_to_ghost(view: View, move: _Move) -> _Moved:
    made = Remembered(flaw=f"it was {move.old} before, and what that was like is not known")
    return view.memory.with_ghost(move.new, made), _NOTHING


def _ghost_to_ghost(view: View, move: _Move) -> _Moved:
    held = move.held or Remembered(flaw=f"it was {move.old} before, of which nothing is remembered")
    return view.memory.with_ghost(move.new, held), _NOTHING


def _forgotten(view: View, _: _Move) -> _Moved:
    return view.memory, _NOTHING


def _ours_leaves(view: View, move: _Move) -> _Moved:
    return view.memory, Stop(
        f"{move.old}, a table of the task, becomes {move.new}, which is not a name that trash-table-rules know"
    )


def _into_ours(view: View, move: _Move) -> _Moved:
    return view.memory, Stop(f"{move.old} becomes {move.new}, a table of the task, and what rows it has is not known")


def _cut_over(view: View, move: _Move) -> _Moved:
    """Make the ghost the real table: once, and with all that was done to it, or not at all."""
    ghost, real, memory, held = move.old, move.new, view.memory, move.held
    if real not in view.rules.tools.real_tables(ghost):
        return memory, Stop(f"{ghost} becomes {real}, which is not the table that its name is made of")
    if held is None:
        return memory, Stop(
            f"{ghost} becomes {real}, and nothing is remembered of {ghost}: the task began while an online DDL was "
            "under way, or a ghost that was left over was renamed by hand"
        )
    trash = memory.trash_of(real)
    if trash is None:
        return memory, Stop(f"{ghost} becomes {real}, which was not seen to be renamed to a name of trash-table-rules")
    if held.flaw:
        return memory, Stop(f"{ghost} becomes {real}, and may be more than its ALTERs made it: {held.flaw}")
    if real not in held.like:
        return memory, Stop(f"{ghost} becomes {real}, and was made like {' and '.join(map(str, held.like))}")
    if twin := next((one for one in memory.ghosts if _folded(one) == _folded(ghost)), None):
        return memory, Stop(f"{ghost} becomes {real}, and {twin} may be the same table in another spelling")
    memory = memory.with_away(trash, None).outdated(real, f"{real} was replaced by {ghost} after it")
    try:
        changes = [_change(text) for text in held.statements]
    except Unreadable as error:
        return memory, Stop(f"{ghost} becomes {real}, and what was done to it is not understood any more: {error}")
    if why := not_repeatable(changes):
        return memory, Stop(f"{ghost} becomes {real}, whose rows would not be the same: {why}")
    if not changes:
        return memory, PassOver(f"{ghost} becomes {real}, and is no other table")
    texts = zip(changes, held.statements, strict=True)
    return memory, Apply(real, tuple(RealChange(about_real(one, ghost, real), text) for one, text in texts))


def _change(text: LoggedText) -> Change:
    statement = text.read()
    if not isinstance(statement, Change):
        raise Unreadable("it changes no table")
    return statement


def _folded(table: TableName) -> tuple[str, str]:
    return table.schema.casefold(), table.table.casefold()


_RENAMED: Final[dict[tuple[Role, Role], Callable[[View, _Move], _Moved]]] = {
    (Role.GHOST, Role.OURS): _cut_over,
    (Role.GHOST, Role.GHOST): _ghost_to_ghost,
    (Role.GHOST, Role.TRASH): _forgotten,
    (Role.GHOST, Role.OUTSIDE): _forgotten,
    (Role.TRASH, Role.OURS): _trash_to_ours,
    (Role.TRASH, Role.GHOST): _trash_to_ghost,
    (Role.TRASH, Role.TRASH): _trash_to_trash,
    (Role.TRASH, Role.OUTSIDE): _trash_to_outside,
    (Role.OURS, Role.TRASH): _ours_to_trash,
    (Role.OURS, Role.GHOST): _ours_leaves,
    (Role.OURS, Role.OURS): _ours_leaves,
    (Role.OURS, Role.OUTSIDE): _ours_leaves,
    (Role.OUTSIDE, Role.OURS): _into_ours,
    (Role.OUTSIDE, Role.GHOST): _outside_to_ghost,
    (Role.OUTSIDE, Role.TRASH): _forgotten,
    (Role.OUTSIDE, Role.OUTSIDE): _forgotten,
}
assert _RENAMED.keys() == {(old, new) for old in Role for new in Role}
