"""The ALTER TABLE that makes of one table another one that was made from it, by their definitions. Pure.

    t (id, a int, b int, KEY k (a))  ─▶  t (id, a bigint, b int, x int)
    MODIFY a bigint, ADD x int, DROP KEY k

Columns are the same by their names, as a tool that copies rows from one table to the other has to take them. Only where
columns have gone and others have come at once, definitions do not tell a renamed one from a dropped and a new one; nor,
where they stand in another order, those that were moved from those that have given each other their names.

It is said as a person would say it, columns in front of keys: shards of a merged table have to make the same statement,
and that of another one may be in the log. What is found is not trusted: it is made to the one table in the model, which
has to give the other (NotTold). Foreign keys are left as they are where both tables have the same or one has none, as
CREATE TABLE … LIKE makes it; their names say nothing, nor do those of CHECKs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.expressions import mentions
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    After,
    AlterTable,
    ChangeColumn,
    Check,
    ColumnDefinition,
    DropColumn,
    DropConstraint,
    DropKey,
    First,
    ForeignKey,
    Key,
    KeyKind,
    Place,
    Repartition,
    SetKeyVisibility,
    SetOptions,
    Spec,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.tracker import AS_SHOWN, Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName

_NUMBERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_SETS: Final = ("enum", "set")
_NUMBER: Final = re.compile(r"'(-?[0-9]+(?:\.[0-9]+)?)'")
_HIDDEN: Final = ("IGNORED", "INVISIBLE")
"""What MariaDB and MySQL call an index that is not used."""
_NOT_TOLD: Final = "what it was altered by is not told by its definition"


class NotTold(Exception):
    """Two tables of which nobody is certain what makes one of the other; the argument says why."""


def alter_between(tracker: Tracker, before: TableName, after: TableName) -> AlterTable | None:
    """Return what makes `before` what `after` is; None: it is so already. Raises NotTold."""
    old, new = (_bare(tracker.definition(name)) for name in (before, after))
    specs = (*_columns(old, new), *_constraints(old, new), *_options(old, new), *_partitions(old, new))
    made = AlterTable(before, specs)
    try:
        became = _bare(tracker.after(made, AS_SHOWN).definition(before)) if specs else old
    except CannotTrack as error:
        raise NotTold(f"{_NOT_TOLD}: {error}") from None
    if _compared(became) != _compared(new):
        raise NotTold(_NOT_TOLD)
    return made if specs else None


def _columns(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    theirs = {one.name.lower(): one for one in old.columns}
    ours = {one.name.lower(): one for one in new.columns}
    gone = [one for name, one in theirs.items() if name not in ours]
    come = [one for name, one in ours.items() if name not in theirs]
    stored = [next((one.name for one in some if one.generated is None), None) for some in (gone, come)]
    if None not in stored:
        raise NotTold(f"whether its column {stored[1]} has the values of {stored[0]} is not told by its definition")
    yield from (DropColumn(one.name) for one in gone)
    for number, (name, column) in enumerate(ours.items()):
        before = theirs.get(name)
        if before != column and column.type.name in _SETS and _has_doubles(column.type.arguments):
            raise NotTold(
                f"its column {column.name} has a member twice: its character set lacks what they were made of"
            )
        if before is None:
            last = theirs.keys().isdisjoint(list(ours)[number:])
            yield AddColumn(_said_column(column, old, new), None if last else _place(new, number))
        elif before != column:
            if (before.generated is None) != (column.generated is None):
                raise NotTold(f"its column {column.name} is computed, or is so no more")
            yield ChangeColumn(before.name, _said_column(column, old, new), None)
    if [name for name in theirs if name in ours] != [name for name in ours if name in theirs]:
        raise NotTold("whether its columns were moved or have changed names is not told by their order")


def _has_doubles(members: tuple[str, ...]) -> bool:
    """Return whether CONVERT TO has made two members alike (`?`), which no server takes in a statement."""
    return len(set(members)) < len(members)


def _said_column(column: ColumnDefinition, old: TableDefinition, new: TableDefinition) -> ColumnDefinition:
    """Return the column without what goes without saying."""
    kind, collation = column.type, dict(new.options)["COLLATE"]
    if kind.collation == collation == dict(old.options)["COLLATE"]:
        kind = replace(kind, charset=None, collation=None)
    goes = column.nullable and kind.name != "timestamp"
    return replace(column, type=kind, nullable=None if goes else column.nullable)


def _place(table: TableDefinition, number: int) -> Place:
    return After(table.columns[number - 1].name) if number else First()


def _constraints(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    keys, made = _keys(old), _keys(new)
    shown = {name for name, one in made.items() if name in keys and _visible(one) == _visible(keys[name])}
    yield from (DropKey(str(one.name)) for name, one in keys.items() if name not in shown)
    yield from (AddConstraint(_said(one)) for name, one in made.items() if name not in shown)
    for one in (made[name] for name in made if name in shown and made[name] != keys[name]):
        yield SetKeyVisibility(str(one.name), one != _visible(one))
    checks, wanted = _checks(old), _checks(new)
    gone = {one.name.lower() for one in old.columns} - {one.name.lower() for one in new.columns}
    lost = [one for code, one in checks.items() if code not in wanted]
    yield from (  # what is about a column that is gone goes with it
        DropConstraint(str(one.constraint)) for one in lost if not any(mentions(one.expression, n) for n in gone)
    )
    yield from (AddConstraint(replace(one, constraint=None)) for code, one in wanted.items() if code not in checks)
    if _references(new) not in ((), _references(old)):
        raise NotTold("its foreign keys are others")


def _visible(key: Key) -> Key:
    return replace(key, options=tuple(one for one in key.options if one[0] not in _HIDDEN))


def _said(key: Key) -> Key:
    return replace(key, name=None) if key.kind is KeyKind.PRIMARY else key


def _keys(table: TableDefinition) -> dict[str, Key]:
    return {str(one.name).lower(): one for one in table.constraints if isinstance(one, Key)}


def _checks(table: TableDefinition) -> dict[tuple[str, bool], Check]:
    return {(one.expression, one.enforced): one for one in table.constraints if isinstance(one, Check)}


def _references(table: TableDefinition) -> tuple[str, ...]:
    keys = (replace(one, constraint=None, name=None) for one in table.constraints if isinstance(one, ForeignKey))
    return tuple(sorted(map(str, keys)))


def _options(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    theirs, ours = dict(old.options), dict(new.options)
    changed = {name: value for name, value in ours.items() if theirs.get(name) != value}
    if "COLLATE" in changed:
        changed["CHARSET"] = ours["CHARSET"]
    if "COMMENT" in theirs.keys() - ours.keys():
        changed["COMMENT"] = ""
    if changed:
        yield SetOptions(tuple(sorted(changed.items())))


def _partitions(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    if old.partitioning != new.partitioning:
        yield Repartition(new.partitioning or "REMOVE PARTITIONING")


def _bare(table: TableDefinition) -> TableDefinition:
    """Return the definition with numbers without quotes, in which MySQL shows them as defaults."""
    return replace(table, columns=tuple(map(_bare_column, table.columns)))


def _bare_column(column: ColumnDefinition) -> ColumnDefinition:
    number = _NUMBER.fullmatch(column.default or "") if column.type.name in _NUMBERS else None
    return replace(column, default=number[1]) if number is not None else column


def _compared(table: TableDefinition) -> TableDefinition:
    """Return the definition without what is not compared, nor in which order CHECKs are."""
    keys = tuple(one for one in table.constraints if isinstance(one, Key))
    checks = sorted((replace(one, constraint=None) for one in table.constraints if isinstance(one, Check)), key=str)
    return replace(table, constraints=(*keys, *checks))
