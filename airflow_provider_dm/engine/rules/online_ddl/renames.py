"""Renames: decided by the roles of the old name and the new name, for the net effect of the whole statement.

RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`      t: OURS to TRASH          renamed away
                                                   _t_gho: GHOST to OURS     cut-over
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.statements import AlterTable, RenameTables
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.ghost_changes import GhostChange, about_real, not_repeatable
from airflow_provider_dm.engine.rules.online_ddl.memory import GhostState, LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    ApplyDdl,
    DdlView,
    GhostStep,
    OrdinaryDdl,
    RealChange,
    SkipDdl,
    StopAtDdl,
    TableRole,
    recorded,
)


@dataclass(frozen=True, slots=True)
class _Move:
    """The net rename of one table by a whole RENAME. `held`: the state of the old name."""

    old: TableName
    new: TableName
    held: GhostState | None = None
    holds: TableName | None = None
    """The table of the task that has the old name now."""


def judge_rename(
    view: DdlView, statement: AlterTable | RenameTables, pairs: list[tuple[TableName, TableName]], *, if_exists: bool
) -> GhostStep:
    """Decide about a RENAME by its net effect: all tables leave their names, then each gets its new one."""
    if not any(view.is_tool_table(table) for pair in pairs for table in pair):
        memory = view.memory
        for table in (table for pair in pairs for table in pair if view.role(table) is TableRole.OURS):
            if trash := memory.trash_of(table):
                return view.memory, StopAtDdl(f"{table} was renamed to {trash}, and no ghost has replaced it")
            memory = memory.outdated(table, f"{table} was renamed after it")
        return memory, OrdinaryDdl(statement)
    memory, moves = _without_old_names(view.memory, _net(pairs))
    roles = [(view.role(move.old), view.role(move.new)) for move in moves]
    if if_exists and any(role[0] is not TableRole.TRASH or move.holds for role, move in zip(roles, moves, strict=True)):
        return view.memory, StopAtDdl("the effect of RENAME … IF EXISTS on a ghost is not known")
    applied: list[tuple[TableName, ApplyDdl | SkipDdl]] = []
    # Tables that leave come first: the order of pairs in the text does not matter for the whole.
    for move, role in sorted(
        zip(moves, roles, strict=True), key=lambda one: one[1] == (TableRole.GHOST, TableRole.OURS)
    ):
        memory, outcome = _moved(replace(view, memory=memory), move, role)
        if isinstance(outcome, StopAtDdl):
            return view.memory, outcome
        if role == (TableRole.GHOST, TableRole.OURS):
            assert isinstance(outcome, ApplyDdl | SkipDdl)
            applied.append((move.new, outcome))
    if len(applied) > 1:
        return view.memory, StopAtDdl(f"it replaces {' and '.join(str(real) for real, _ in applied)} in one statement")
    if applied:
        return memory, applied[0][1]
    changed = [move.new for move in moves if move.new in memory.ghosts or move.new in memory.away]
    return memory, recorded(changed[0]) if changed else SkipDdl("it affects tables of an online DDL tool only")


def _net(pairs: list[tuple[TableName, TableName]]) -> list[tuple[TableName, TableName]]:
    """Return (first name, last name) of each table whose name changes.

    >>> a, b, c = (TableName("s", name) for name in "abc")
    >>> [f"{old.table}>{new.table}" for old, new in _net([(a, c), (b, a), (c, b)])]
    ['a>b', 'b>a']
    """
    now: dict[TableName, TableName] = {}
    for old, new in pairs:
        first = next((one for one, name in now.items() if name == old), old)
        now[first] = new
    return [(old, new) for old, new in now.items() if old != new]


def _without_old_names(memory: OnlineDdls, pairs: list[tuple[TableName, TableName]]) -> tuple[OnlineDdls, list[_Move]]:
    moves = [_Move(old, new, memory.ghosts.get(old), memory.away.get(old)) for old, new in pairs]
    for old, _ in pairs:
        memory = memory.with_ghost(old, None).with_away(old, None)
    return memory, moves


_Moved: TypeAlias = tuple[OnlineDdls, ApplyDdl | SkipDdl | StopAtDdl]
_NOTHING: Final = SkipDdl("")


def _moved(view: DdlView, move: _Move, role: tuple[TableRole, TableRole]) -> _Moved:
    """Decide about one table's rename, unless DM has applied all of the task's part of it up to a later location."""
    ours = [name for name, one in zip((move.old, move.new), role, strict=True) if one is TableRole.OURS]
    if not ours or not all(name in view.applied for name in ours):
        return _RENAMED[role](view, move)
    memory = view.memory
    for name in ours:
        memory = memory.outdated(name, f"{name} was renamed or replaced after it")
    return memory, SkipDdl(f"{' and '.join(map(str, ours))} is applied up to a later location")


def _ours_to_trash(view: DdlView, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.old), _NOTHING


def _trash_to_ours(view: DdlView, move: _Move) -> _Moved:
    if move.holds == move.new:
        return view.memory, SkipDdl(f"{move.new} has its name again")
    return view.memory, StopAtDdl(f"{move.old} becomes {move.new}, and its rows are not known")


def _trash_to_trash(view: DdlView, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.holds), _NOTHING


def _trash_to_outside(view: DdlView, move: _Move) -> _Moved:
    if move.holds:
        return view.memory, StopAtDdl(
            f"{move.holds}, a table of the task, is renamed by way of {move.old} to {move.new}"
        )
    return view.memory, _NOTHING


def _trash_to_ghost(view: DdlView, move: _Move) -> _Moved:
    return _trash_to_outside(view, move) if move.holds else _outside_to_ghost(view, move)


def _outside_to_ghost(view: DdlView, move: _Move) -> _Moved:
    made = GhostState(flaw=f"it was {move.old} before, whose definition is not known")
    return view.memory.with_ghost(move.new, made), _NOTHING


def _ghost_to_ghost(view: DdlView, move: _Move) -> _Moved:
    held = move.held or GhostState(flaw=f"it was {move.old} before, of which nothing is recorded")
    return view.memory.with_ghost(move.new, held), _NOTHING


def _untracked(view: DdlView, _: _Move) -> _Moved:
    return view.memory, _NOTHING


def _ours_leaves(view: DdlView, move: _Move) -> _Moved:
    return view.memory, StopAtDdl(
        f"{move.old}, a table of the task, becomes {move.new}, which trash-table-rules do not match"
    )


def _into_ours(view: DdlView, move: _Move) -> _Moved:
    return view.memory, StopAtDdl(f"{move.old} becomes {move.new}, a table of the task, and its rows are not known")


def _cut_over(view: DdlView, move: _Move) -> _Moved:
    """Replace the real table by the ghost: once, with all changes of the ghost, or not at all."""
    ghost, real, memory, held = move.old, move.new, view.memory, move.held
    if real not in view.rules.tools.real_tables(ghost):
        return memory, StopAtDdl(f"{ghost} becomes {real}, which is not the table in its name")
    if held is None:
        return memory, StopAtDdl(
            f"{ghost} becomes {real}, and nothing is recorded of {ghost}: the task began while an online DDL was "
            "running, or a leftover ghost was renamed by hand"
        )
    trash = memory.trash_of(real)
    if trash is None:
        return memory, StopAtDdl(f"{ghost} becomes {real}, which was not renamed to a name of trash-table-rules before")
    if held.flaw:
        return memory, StopAtDdl(f"{ghost} becomes {real}, and its ALTERs may not be complete: {held.flaw}")
    if real not in held.like:
        return memory, StopAtDdl(f"{ghost} becomes {real}, but was created like {' and '.join(map(str, held.like))}")
    if twin := next((name for name in memory.ghosts if _folded(name) == _folded(ghost)), None):
        return memory, StopAtDdl(f"{ghost} becomes {real}, and {twin} may be the same table in another spelling")
    memory = memory.with_away(trash, None)
    try:
        changes = [_change(text) for text in held.statements]
    except Unreadable as error:
        return memory, StopAtDdl(f"{ghost} becomes {real}, and its changes cannot be parsed any more: {error}")
    if why := not_repeatable(changes):
        return memory, StopAtDdl(f"{ghost} becomes {real}, whose rows would not be the same: {why}")
    if not changes:
        return memory, SkipDdl(f"{ghost} becomes {real}, without a change of its definition")
    memory = memory.outdated(real, f"{real} was replaced by {ghost} after it")
    texts = zip(changes, held.statements, strict=True)
    return memory, ApplyDdl(real, tuple(RealChange(about_real(one, ghost, real), text) for one, text in texts))


def _change(text: LoggedText) -> GhostChange:
    statement = text.read()
    if not isinstance(statement, GhostChange):
        raise Unreadable("it changes no table's definition")
    return statement


def _folded(table: TableName) -> tuple[str, str]:
    return table.schema.casefold(), table.table.casefold()


_RENAMED: Final[dict[tuple[TableRole, TableRole], Callable[[DdlView, _Move], _Moved]]] = {
    (TableRole.GHOST, TableRole.OURS): _cut_over,
    (TableRole.GHOST, TableRole.GHOST): _ghost_to_ghost,
    (TableRole.GHOST, TableRole.TRASH): _untracked,
    (TableRole.GHOST, TableRole.OUTSIDE): _untracked,
    (TableRole.TRASH, TableRole.OURS): _trash_to_ours,
    (TableRole.TRASH, TableRole.GHOST): _trash_to_ghost,
    (TableRole.TRASH, TableRole.TRASH): _trash_to_trash,
    (TableRole.TRASH, TableRole.OUTSIDE): _trash_to_outside,
    (TableRole.OURS, TableRole.TRASH): _ours_to_trash,
    (TableRole.OURS, TableRole.GHOST): _ours_leaves,
    (TableRole.OURS, TableRole.OURS): _ours_leaves,
    (TableRole.OURS, TableRole.OUTSIDE): _ours_leaves,
    (TableRole.OUTSIDE, TableRole.OURS): _into_ours,
    (TableRole.OUTSIDE, TableRole.GHOST): _outside_to_ghost,
    (TableRole.OUTSIDE, TableRole.TRASH): _untracked,
    (TableRole.OUTSIDE, TableRole.OUTSIDE): _untracked,
}
assert _RENAMED.keys() == {(old, new) for old in TableRole for new in TableRole}
