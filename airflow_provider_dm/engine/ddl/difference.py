"""The ALTER TABLE that makes one table's definition equal to that of another table derived from it. Pure.

    t (id, a int, b int, KEY k (a))  ─▶  t (id, a bigint, b int, x int)
    MODIFY a bigint, ADD x int, DROP KEY k

Columns are matched by name, as a tool that copies rows from one table to the other must match them. The definitions are
ambiguous in two cases: if columns are missing and others are new, a column may have been renamed or replaced; if the
order of columns differs, columns may have been moved or may have exchanged names.

Columns come before keys, as users write them: all shards of a merged table have to make the same statement,
and another shard's statement may be in the log. The result is verified: the model applies it to the first table and the
outcome must equal the second one (CannotTrack). Foreign keys are kept if both tables have the same or one has none, as
after CREATE TABLE … LIKE; names of foreign keys and CHECKs are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.expressions import mentions
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    After,
    AlterTable,
    ChangeColumn,
    CheckConstraint,
    ColumnDefinition,
    DropColumn,
    DropConstraint,
    DropKey,
    First,
    ForeignKey,
    KeyDefinition,
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
"""The option of an index that the optimizer ignores, in MariaDB and in MySQL."""
_NOT_DERIVABLE: Final = "the definitions do not determine the ALTER TABLE"


def alter_between(tracker: Tracker, before: TableName, after: TableName) -> AlterTable | None:
    """Return the ALTER TABLE that makes `before` equal to `after`; None if they are equal. Raises CannotTrack."""
    old, new = (_bare(tracker.definition(name)) for name in (before, after))
    specs = (*_columns(old, new), *_constraints(old, new), *_options(old, new), *_partitions(old, new))
    made = AlterTable(before, specs)
    try:
        altered = _bare(tracker.after(made, AS_SHOWN).definition(before)) if specs else old
    except CannotTrack as error:
        raise CannotTrack(f"{_NOT_DERIVABLE}: {error}") from None
    if _compared(altered) != _compared(new):
        raise CannotTrack(_NOT_DERIVABLE)
    return made if specs else None


def _columns(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    theirs = {one.name.lower(): one for one in old.columns}
    ours = {one.name.lower(): one for one in new.columns}
    dropped = [one for name, one in theirs.items() if name not in ours]
    added = [one for name, one in ours.items() if name not in theirs]
    stored = [next((one.name for one in some if one.generated is None), None) for some in (dropped, added)]
    if None not in stored:
        raise CannotTrack(f"its column {stored[1]} may be {stored[0]} under a new name, or a new column")
    yield from (DropColumn(one.name) for one in dropped)
    for number, (name, column) in enumerate(ours.items()):
        before, members = theirs.get(name), column.type.arguments
        if before != column and column.type.name in _SETS and len(set(members)) < len(members):
            raise CannotTrack(
                f"its column {column.name} has a member twice: its character set lacks characters of the old members"
            )
        if before is None:
            last = theirs.keys().isdisjoint(list(ours)[number:])
            yield AddColumn(_concise_column(column, old, new), None if last else _place(new, number))
        elif before != column:
            if (before.generated is None) != (column.generated is None):
                raise CannotTrack(f"its column {column.name} was or became a generated column")
            yield ChangeColumn(before.name, _concise_column(column, old, new), None)
    if [name for name in theirs if name in ours] != [name for name in ours if name in theirs]:
        raise CannotTrack("its columns were either moved or have exchanged names")


def _concise_column(column: ColumnDefinition, old: TableDefinition, new: TableDefinition) -> ColumnDefinition:
    """Return the column without attributes that are the default."""
    kind, collation = column.type, dict(new.options)["COLLATE"]
    if kind.collation == collation == dict(old.options)["COLLATE"]:
        kind = replace(kind, charset=None, collation=None)
    is_default = column.nullable and kind.name != "timestamp"
    return replace(column, type=kind, nullable=None if is_default else column.nullable)


def _place(table: TableDefinition, number: int) -> Place:
    return After(table.columns[number - 1].name) if number else First()


def _constraints(old: TableDefinition, new: TableDefinition) -> Iterator[Spec]:
    keys, made = _keys(old), _keys(new)
    shown = {name for name, key in made.items() if name in keys and _visible(key) == _visible(keys[name])}
    yield from (DropKey(str(key.name)) for name, key in keys.items() if name not in shown)
    added = (key for name, key in made.items() if name not in shown)
    yield from (AddConstraint(replace(key, name=None) if key.kind is KeyKind.PRIMARY else key) for key in added)
    for key in (made[name] for name in made if name in shown and made[name] != keys[name]):
        yield SetKeyVisibility(str(key.name), key != _visible(key))
    checks, wanted = _checks(old), _checks(new)
    dropped = {column.name.lower() for column in old.columns} - {column.name.lower() for column in new.columns}
    lost = [check for code, check in checks.items() if code not in wanted]
    yield from (  # a CHECK over a dropped column is dropped with it
        DropConstraint(str(one.constraint)) for one in lost if not any(mentions(one.expression, n) for n in dropped)
    )
    yield from (AddConstraint(replace(check, constraint=None)) for code, check in wanted.items() if code not in checks)
    if _references(new) not in ((), _references(old)):
        raise CannotTrack("its foreign keys differ")


def _visible(key: KeyDefinition) -> KeyDefinition:
    return replace(key, options=tuple(option for option in key.options if option[0] not in _HIDDEN))


def _keys(table: TableDefinition) -> dict[str, KeyDefinition]:
    return {str(one.name).lower(): one for one in table.constraints if isinstance(one, KeyDefinition)}


def _checks(table: TableDefinition) -> dict[tuple[str, bool], CheckConstraint]:
    return {(one.expression, one.enforced): one for one in table.constraints if isinstance(one, CheckConstraint)}


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
    """Return the definition with defaults that are numbers unquoted; MySQL shows them in quotes."""
    return replace(table, columns=tuple(map(_bare_column, table.columns)))


def _bare_column(column: ColumnDefinition) -> ColumnDefinition:
    number = _NUMBER.fullmatch(column.default or "") if column.type.name in _NUMBERS else None
    return replace(column, default=number[1]) if number is not None else column


def _compared(table: TableDefinition) -> TableDefinition:
    """Return the definition for comparison: without names of CHECKs and foreign keys, CHECKs sorted."""
    keys = tuple(constraint for constraint in table.constraints if isinstance(constraint, KeyDefinition))
    checks = sorted(
        (replace(one, constraint=None) for one in table.constraints if isinstance(one, CheckConstraint)), key=str
    )
    return replace(table, constraints=(*keys, *checks))
