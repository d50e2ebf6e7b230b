r"""Online DDL: what gh-ost, pt-online-schema-change and their like do, made the one ALTER that they stand for.

    CREATE TABLE `_t_gho` LIKE `t`                         remembered: a ghost like t
    ALTER TABLE `_t_gho` ADD COLUMN c int                  remembered with it
    RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`     ─▶   Apply(t, ALTER TABLE `t` ADD COLUMN c int)
    DROP TABLE IF EXISTS `_t_del`                          passed over

Rows of the tools' tables are never taken (`BlockAllowRules.allows`): up to the RENAME those of `t` are what counts, and
after it the ghost's rows are those of `t`, changed by the ALTER.

What is remembered (`OnlineDdls`) is a value that goes with the frontier. Of each ghost: what it was made like, the
statements since, and the first thing, if any, that makes it no faithful copy (its flaw). Of a real table that was
renamed away and not replaced yet: where it lies. A flaw stops nobody until the ghost is to become the real table, as
most ghosts with a flaw are dropped: by a run that was given up and is begun again.

Where DM is content with names, this is not, since a change that is lost here is lost for good. A ghost has to have been
seen from its CREATE on; to be like the real table when it was made (`same_definition`); the real table must not have
been altered, truncated or replaced since; it must have been renamed away; and what is repeated has to come to the same
rows (`ghost_changes`). Else the answer is Stop, which says why.

One statement is judged by two tables. A statement about one table: by its `Role` and what it does (`_ONE_TABLE`). A
RENAME, or ALTER … RENAME: by the roles of the old name and the new (`_RENAMED`), for what it comes to as a whole, so a
detour over a third name is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.statements import (
    AlterSequence,
    AlterTable,
    CreateIndex,
    CreateSequence,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    DropDatabase,
    DropIndex,
    DropTables,
    RenameTables,
    RenameTo,
    SetOptions,
    Statement,
    TruncateTable,
    Upkeep,
)
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.ghost_changes import Change, about_real, not_repeatable
from airflow_provider_dm.engine.rules.online_memory import LoggedText, OnlineDdls, Remembered
from airflow_provider_dm.engine.rules.same_definition import difference
from airflow_provider_dm.engine.rules.tool_tables import Ghost, Real, Trash
from airflow_provider_dm.engine.schema.model import Table

UNSURE: Final = "\N{REPLACEMENT CHARACTER}"
"""What stands in a logged text for a character that is not known: `binlog.client_charsets.UNSURE`."""


WAY_OUT: Final = (
    f"Leave the table out by block-allow-list, and the task goes on without it; or {MIGRATE_AGAIN}, while no online "
    "DDL is under way. A table that was left out comes back by such a task of its own."
)


# What a statement comes to


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
_Step: TypeAlias = tuple[OnlineDdls, Outcome]


_CREATING: Final = (CreateTable, CreateTableLike, CreateTableSelect, CreateSequence)


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
class _View:
    """Knowledge of a step: memory, what the log has, the task's rules, and its tables as they are there."""

    memory: OnlineDdls
    text: LoggedText
    rules: BlockAllowRules
    tables: Mapping[TableName, Table]
    copied: Collection[TableName] = ()

    def role(self, table: TableName) -> Role:
        match self.rules.kind_of(table):
            case Ghost():
                return Role.GHOST
            case Trash():
                return Role.TRASH
            case Real():
                return Role.OURS if self.rules.allows(table) else Role.OUTSIDE

    def is_tools(self, table: TableName) -> bool:
        return self.role(table) in (Role.GHOST, Role.TRASH)

    def known_reals(self, ghost: TableName) -> list[TableName]:
        """Return the tables of the task that the ghost may stand for."""
        return [one for one in self.rules.tools.real_tables(ghost) if one in self.tables]


def step(
    memory: OnlineDdls,
    statement: Statement | NotRead,
    text: LoggedText,
    *,
    rules: BlockAllowRules,
    tables: Mapping[TableName, Table],
    copied: Collection[TableName] = (),
) -> tuple[OnlineDdls, Outcome]:
    """Return what is remembered after a statement of the log, and what it comes to.

    `statement` is what `text` says, or the error that still knows its tables. `tables`: those of the task, as the
    source has them in front of the statement. `copied`: those whose rows were copied behind it, so that their part of
    it is in the copy. What is returned first has to be saved with the place behind the
    statement, whatever the outcome, unless that is Stop: then it is what was given.
    """
    view = _View(memory, text, rules, tables, copied)
    named = statement.about.tables if isinstance(statement, NotRead) else statement.tables
    if not rules.tools:
        return OnlineDdls(), Ordinary(statement)  # what is not kept up to date must not be used when it is on again
    if any(UNSURE in str(table) for table in named):
        return memory, Ordinary(statement)
    after, outcome = _judged(view, statement)
    return (memory if isinstance(outcome, Stop) else after), outcome


def _judged(view: _View, statement: Statement | NotRead) -> _Step:
    match statement:
        case NotRead():
            return _each(view, statement, statement.about.tables, Act.UNKNOWN)
        case CreateTable() | CreateTableLike() | CreateTableSelect() | CreateSequence():
            return _one_table(view, statement, statement.table, Act.CREATE)
        case AlterTable(specs=(RenameTo(new),)):
            return _renamed(view, statement, [(statement.table, new)], if_exists=statement.if_exists)
        case AlterTable():
            return _altered(view, statement)
        case AlterSequence() | CreateIndex() | DropIndex():
            return _one_table(view, statement, statement.table, Act.CHANGE)
        case TruncateTable():
            return _one_table(view, statement, statement.table, Act.EMPTY)
        case DropTables():
            return _each(view, statement, statement.tables, Act.DROP)
        case RenameTables(pairs, if_exists):
            return _renamed(view, statement, list(pairs), if_exists=if_exists)
        case DropDatabase(name):
            return _schema_dropped(view, statement, name)
        case _:
            return view.memory, Ordinary(statement)


# One table


@dataclass(frozen=True, slots=True)
class _Touch:
    """Effect of a statement on one of its tables."""

    view: _View
    statement: Statement | NotRead
    table: TableName
    act: Act

    @property
    def memory(self) -> OnlineDdls:
        return self.view.memory


def _one_table(view: _View, statement: Statement | NotRead, table: TableName, act: Act) -> _Step:
    return _ONE_TABLE[view.role(table), act](_Touch(view, statement, table, act))


def _each(view: _View, statement: DropTables | NotRead, tables: tuple[TableName, ...], act: Act) -> _Step:
    """Judge a statement for each of its tables, one after the other; what is left of it is for others to judge."""
    outcomes: dict[TableName, Outcome] = {}
    for table in tables:
        memory, outcomes[table] = _one_table(view, statement, table, act)
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


def _altered(view: _View, statement: AlterTable) -> _Step:
    table, further = statement.table, statement.tables[1:]
    if further and (view.is_tools(table) or any(map(view.is_tools, further))):
        if Role.OURS in map(view.role, (table, *further)):
            return view.memory, Stop(f"it moves rows or names between {table} and {', '.join(map(str, further))}")
        memory = view.memory.with_flaw((table, *further), f"it took part in {_shown(view.text)}")
        return memory, PassOver("it concerns tables of an online DDL tool only")
    memory, outcome = _one_table(view, statement, table, Act.CHANGE)
    for other in further:
        memory = memory.outdated(other, f"{other} was altered after it")
    return memory, outcome


def _ghost_created(touch: _Touch) -> _Step:
    memory, ghost, statement = touch.memory, touch.table, touch.statement
    if_not_exists = isinstance(statement, _CREATING) and statement.if_not_exists
    if if_not_exists and ghost in memory.ghosts:
        return memory, PassOver(f"{ghost} exists")
    made = _made(touch.view, statement, ghost)
    if if_not_exists:
        made = made.flawed("it was created IF NOT EXISTS, and may have been there, as another table")
    return memory.with_ghost(ghost, made), Remember(ghost)


def _made(view: _View, statement: Statement | NotRead, ghost: TableName) -> Remembered:
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


def _ghost_changed(touch: _Touch) -> _Step:
    memory, ghost, text = touch.memory, touch.table, touch.view.text
    known = memory.ghosts.get(ghost)
    if known is None:
        known = Remembered(flaw="its CREATE TABLE was not seen, as it was there before the task or its rules were")
    if not isinstance(touch.statement, Change):
        known = known.flawed(f"{_shown(text)} is not repeated")
    if UNSURE in text.sql:
        known = known.flawed(f"{_shown(text)} has a character that is not known")
    return memory.with_ghost(ghost, replace(known, statements=(*known.statements, text))), Remember(ghost)


def _ghost_unknown(touch: _Touch) -> _Step:
    why = f"{_shown(touch.view.text)} is not understood"
    known = touch.memory.ghosts.get(touch.table, Remembered()).flawed(why)
    return touch.memory.with_ghost(touch.table, known), Remember(touch.table)


def _ghost_emptied(touch: _Touch) -> _Step:
    return touch.memory, PassOver(f"{touch.table} is a table of an online DDL tool")


def _ghost_dropped(touch: _Touch) -> _Step:
    return touch.memory.with_ghost(touch.table, None), PassOver(f"{touch.table} is a table of an online DDL tool")


def _trash_touched(touch: _Touch) -> _Step:
    if real := touch.memory.away.get(touch.table):
        return touch.memory, Stop(
            f"{real}, a table of the task, was renamed to {touch.table}, nothing has taken its place, and now it is "
            f"{touch.act.value}"
        )
    return touch.memory, PassOver(f"{touch.table} is a table of an online DDL tool")


def _ours_touched(touch: _Touch) -> _Step:
    """Leave a table of the task to others; its ghosts are copies of what it was."""
    memory, real, statement = touch.memory, touch.table, touch.statement
    if trash := _trash_of(memory, real):
        return memory, Stop(
            f"{real}, a table of the task, was renamed to {trash}, no ghost has taken its place, and now it is "
            f"{touch.act.value}"
        )
    there = isinstance(statement, _CREATING) and statement.if_not_exists and real in touch.view.tables
    if there or (isinstance(statement, AlterTable) and _changes_nothing(statement)):
        return memory, Ordinary(statement)
    return memory.outdated(real, f"{real} was {touch.act.value} after it"), Ordinary(statement)


def _outside(touch: _Touch) -> _Step:
    return touch.memory, Ordinary(touch.statement)


def _changes_nothing(statement: AlterTable) -> bool:
    return all(
        isinstance(spec, Upkeep)
        or (isinstance(spec, SetOptions) and {name for name, _ in spec.options} <= {"AUTO_INCREMENT"})
        for spec in statement.specs
    )


_ONE_TABLE: Final[dict[tuple[Role, Act], Callable[[_Touch], _Step]]] = {
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


def _schema_dropped(view: _View, statement: DropDatabase, name: str) -> _Step:
    lost = [real for trash, real in view.memory.away.items() if trash.schema == name and real.schema != name]
    if lost:
        return view.memory, Stop(f"it drops {lost[0]}, which was renamed into it")
    memory = OnlineDdls(
        {ghost: known for ghost, known in view.memory.ghosts.items() if ghost.schema != name},
        {trash: real for trash, real in view.memory.away.items() if trash.schema != name},
    )
    return memory, Ordinary(statement)


# Renames


@dataclass(frozen=True, slots=True)
class _Move:
    """One table's way from a name to another, as a whole RENAME has it. `held`: what was remembered of the old name."""

    old: TableName
    new: TableName
    held: Remembered | None = None
    holds: TableName | None = None
    """The table of the task that lies under the old name."""


def _renamed(
    view: _View, statement: AlterTable | RenameTables, pairs: list[tuple[TableName, TableName]], *, if_exists: bool
) -> _Step:
    """Judge a RENAME by what it comes to: all tables leave their names, then each arrives at its new one."""
    if not any(view.is_tools(table) for pair in pairs for table in pair):
        memory = view.memory
        for table in (table for pair in pairs for table in pair if view.role(table) is Role.OURS):
            if trash := _trash_of(memory, table):
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


def _moved(view: _View, move: _Move, role: tuple[Role, Role]) -> _Moved:
    """Judge one table's way, unless all that is the task's of it was copied behind the statement."""
    ours = [name for name, one in zip((move.old, move.new), role, strict=True) if one is Role.OURS]
    if not ours or not all(name in view.copied for name in ours):
        return _RENAMED[role](view, move)
    memory = view.memory
    for name in ours:
        memory = memory.outdated(name, f"{name} was renamed or replaced after it")
    return memory, PassOver(f"{' and '.join(map(str, ours))} was copied as it is later")


def _ours_to_trash(view: _View, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.old), _NOTHING


def _trash_to_ours(view: _View, move: _Move) -> _Moved:
    if move.holds == move.new:
        return view.memory, PassOver(f"{move.new} is back under its name")
    return view.memory, Stop(f"{move.old} becomes {move.new}, and what rows it has is not known")


def _trash_to_trash(view: _View, move: _Move) -> _Moved:
    return view.memory.with_away(move.new, move.holds), _NOTHING


def _trash_to_outside(view: _View, move: _Move) -> _Moved:
    if move.holds:
        return view.memory, Stop(f"{move.holds}, a table of the task, goes by way of {move.old} to {move.new}")
    return view.memory, _NOTHING


def _trash_to_ghost(view: _View, move: _Move) -> _Moved:
    if move.holds:
        return view.memory, Stop(f"{move.holds}, a table of the task, goes by way of {move.old} to {move.new}")
    return _outside_to_ghost(view, move)


def _outside_to_ghost(view: _View, move: _Move) -> _Moved:
    made = Remembered(flaw=f"it was {move.old} before, and what that was like is not known")
    return view.memory.with_ghost(move.new, made), _NOTHING


def _ghost_to_ghost(view: _View, move: _Move) -> _Moved:
    held = move.held or Remembered(flaw=f"it was {move.old} before, of which nothing is remembered")
    return view.memory.with_ghost(move.new, held), _NOTHING


def _forgotten(view: _View, _: _Move) -> _Moved:
    return view.memory, _NOTHING


def _ours_leaves(view: _View, move: _Move) -> _Moved:
    return view.memory, Stop(
        f"{move.old}, a table of the task, becomes {move.new}, which is not a name that trash-table-rules know"
    )


def _into_ours(view: _View, move: _Move) -> _Moved:
    return view.memory, Stop(f"{move.old} becomes {move.new}, a table of the task, and what rows it has is not known")


def _cut_over(view: _View, move: _Move) -> _Moved:
    """Make the ghost the real table: once, and with all that was done to it, or not at all."""
    ghost, real, memory, held = move.old, move.new, view.memory, move.held
    if real not in view.rules.tools.real_tables(ghost):
        return memory, Stop(f"{ghost} becomes {real}, which is not the table that its name is made of")
    if held is None:
        return memory, Stop(
            f"{ghost} becomes {real}, and nothing is remembered of {ghost}: the task began while an online DDL was "
            "under way, or a ghost that was left over was renamed by hand"
        )
    trash = _trash_of(memory, real)
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


def _trash_of(memory: OnlineDdls, real: TableName) -> TableName | None:
    return next((trash for trash, one in memory.away.items() if one == real), None)


def _folded(table: TableName) -> tuple[str, str]:
    return table.schema.casefold(), table.table.casefold()


def _shown(text: LoggedText) -> str:
    return " ".join(text.sql.split()[:4]) + " …"


_RENAMED: Final[dict[tuple[Role, Role], Callable[[_View, _Move], _Moved]]] = {
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
