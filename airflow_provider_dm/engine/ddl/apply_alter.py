"""What ALTER TABLE makes of a table. Not part by part: all its parts are about the table as it was.

    t (a, b, c), KEY k (a, b):  ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)
    1. the columns that were there, under their new definitions, without those dropped:  b c
    2. what is new and what gets another place, in the order of the text:                b d c ─▶ d c b
    3. the keys that were there, without the columns dropped; then the new ones, which get their names:  k (b), c (c)

A statement that the server refuses is never logged, so what cannot be is not looked for, except where the model must
have been wrong before (CannotTrack).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl.collations import Collation, collation_named
from airflow_provider_dm.engine.ddl.column_types import OF_CHARACTERS, with_collation
from airflow_provider_dm.engine.ddl.expressions import mentions, with_names, without_mode
from airflow_provider_dm.engine.ddl.if_exists import without_needless
from airflow_provider_dm.engine.ddl.keys import by_name, carried
from airflow_provider_dm.engine.ddl.resolve import (
    Context,
    columns_as_said,
    constraint_as_said,
    kept_options,
    settled,
    table_collation,
)
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    After,
    ChangeColumn,
    Check,
    Code,
    ColumnDefinition,
    Constraint,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropKey,
    EnforceCheck,
    First,
    ForeignKey,
    Key,
    RenameColumn,
    RenameKey,
    Repartition,
    SetColumnVisibility,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    Spec,
    TableDefinition,
)

_HIDDEN = {True: ("IGNORED", ""), False: ("INVISIBLE", "")}
"""What an index that is not used is called: in MariaDB, in MySQL."""


def altered(context: Context, table: TableDefinition, specs: Sequence[Spec]) -> TableDefinition:
    """Return the table after the parts of one ALTER TABLE, under its old name. Raises CannotTrack."""
    specs = without_needless(table, specs)
    options = tuple(option for spec in specs if isinstance(spec, SetOptions) for option in spec.options)
    converted = _conversion(context, specs)
    current = collation_named(context.server, dict(table.options)["COLLATE"])
    collation = converted or table_collation(context, options, current)

    said = _said(context, specs, collation)
    fates = _fates(context, table, specs, said)
    columns = _ordered(table, specs, said, fates)
    if converted is not None:
        new = {id(column) for column, _ in said.values()}
        columns = [_converted(context, column, converted, new=id(column) in new) for column in columns]
    names = {name: column.name for name, column in fates.items() if column is not None}
    columns = [_with_names(column, names) for column in columns]

    changed = replace(
        table,
        columns=tuple(columns),
        constraints=tuple(_kept(context, table, specs, fates)),
        options=kept_options((*table.options, *options), collation),
        partitioning=_partitioning(table, specs),
    )
    return settled(context, changed, list(_added(context, specs, said)))


# Charsets


def _conversion(context: Context, specs: Sequence[Spec]) -> Collation | None:
    """Return what CONVERT TO CHARACTER SET says, the last of them; None: it is not there."""
    found: Collation | None = None
    for spec in specs:
        if isinstance(spec, ConvertCharset):
            charset = (("CHARSET", spec.charset or "default"),)
            collate = () if spec.collation is None else (("COLLATE", spec.collation),)
            found = table_collation(context, charset + collate, None)
    return found


def _converted(context: Context, column: ColumnDefinition, to: Collation, *, new: bool) -> ColumnDefinition:
    kind = column.type
    if new and kind.name in OF_CHARACTERS and kind.charset != "binary":
        return replace(column, type=replace(kind, charset=to.charset, collation=to.name))
    return replace(column, type=with_collation(context.server, kind, to))


# Columns

Said = dict[int, tuple[ColumnDefinition, tuple[Constraint, ...]]]
"""Columns that the statement defines, resolved, and the constraints said with them, by the number of the part."""
Fates = dict[str, ColumnDefinition | None]
"""What the table's columns become, by their old names in lower case; None: dropped."""


def _said(context: Context, specs: Sequence[Spec], collation: Collation) -> Said:
    numbered = [(number, spec) for number, spec in enumerate(specs) if isinstance(spec, AddColumn | ChangeColumn)]
    resolved = columns_as_said(context, [spec.column for _, spec in numbered], collation)
    return {number: one for (number, _), one in zip(numbered, resolved, strict=True)}


def _fates(context: Context, table: TableDefinition, specs: Sequence[Spec], said: Said) -> Fates:
    fates: Fates = {column.name.lower(): column for column in table.columns}

    def current(name: str) -> ColumnDefinition:
        column = fates.get(name.lower())
        if column is None:
            raise CannotTrack(f"the column {name} is not known")
        return column

    for number, spec in enumerate(specs):
        match spec:
            case DropColumn(name):
                current(name)
                fates[name.lower()] = None
            case ChangeColumn(name):
                current(name)
                fates[name.lower()] = said[number][0]
            case RenameColumn(name, to):
                fates[name.lower()] = replace(current(name), name=to)
            case SetDefault(name, default):
                mode = context.session.sql_mode
                plain = None if default is None or default.upper() == "NULL" else without_mode(default, mode)
                fates[name.lower()] = replace(current(name), default=plain)
            case SetColumnVisibility(name, invisible):
                fates[name.lower()] = replace(current(name), invisible=invisible)
    return fates


def _ordered(table: TableDefinition, specs: Sequence[Spec], said: Said, fates: Fates) -> list[ColumnDefinition]:
    """Return the columns in their new order."""
    columns = [column for one in table.columns if (column := fates[one.name.lower()]) is not None]
    for number, spec in enumerate(specs):
        if not isinstance(spec, AddColumn | ChangeColumn) or (isinstance(spec, ChangeColumn) and spec.place is None):
            continue
        column = said[number][0]
        columns = [one for one in columns if one is not column]
        match spec.place:
            case First():
                columns.insert(0, column)
            case After(name):
                places = [place for place, one in enumerate(columns) if one.name.lower() == name.lower()]
                if not places:
                    raise CannotTrack(f"the column {name} is not known")
                columns.insert(places[0] + 1, column)
            case None:
                columns.append(column)
    return columns


def _with_names(column: ColumnDefinition, names: dict[str, str]) -> ColumnDefinition:
    """Return the column with other columns under their new names in its expressions."""
    return replace(
        column,
        generated=None if column.generated is None else _renamed(column.generated, names),
        checks=tuple(replace(one, expression=_renamed(one.expression, names)) for one in column.checks),
    )


def _renamed(code: Code, names: dict[str, str]) -> Code:
    changed = {old: new for old, new in names.items() if old != new.lower()}
    return with_names(code, changed) if changed else code


# Constraints


def _kept(context: Context, table: TableDefinition, specs: Sequence[Spec], fates: Fates) -> Iterator[Constraint]:
    """Yield what is left of the table's constraints. Raises CannotTrack where one is dropped that is not there."""
    columns = by_name(table.columns)
    names = {name: column.name for name, column in fates.items() if column is not None}
    dropped = set(_dropped(table, specs))
    for one in table.constraints:
        if one in dropped:
            continue
        match one:
            case Key():
                parts = tuple(
                    part if part.expression is None else replace(part, expression=_renamed(part.expression, names))
                    for part in one.parts
                )
                left = carried(columns, replace(one, parts=parts), fates)
                if left is not None:
                    yield _key_as_said(context, left, specs)
            case ForeignKey():
                yield replace(one, columns=tuple(names.get(name.lower(), name) for name in one.columns))
            case Check():
                gone = [name for name, column in fates.items() if column is None]
                if not any(mentions(one.expression, name) for name in gone):
                    yield replace(_check_as_said(one, specs), expression=_renamed(one.expression, names))


def _dropped(table: TableDefinition, specs: Sequence[Spec]) -> Iterator[Constraint]:
    for spec in specs:
        match spec:
            case DropKey(name):
                kinds: tuple[type[Constraint], ...] = (Key,)
            case DropForeignKey(name):
                kinds = (ForeignKey,)
            case DropConstraint(name):
                kinds = (Key, ForeignKey, Check)
            case _:
                continue
        found = [one for one in table.constraints if isinstance(one, kinds) and _is_named(one, name)]
        # The index of a foreign key may have gone before, without our knowing.
        doubtful = kinds == (Key,) and any(isinstance(one, ForeignKey) for one in table.constraints)
        if not found and not doubtful:
            raise CannotTrack(f"the key or constraint {name} is not known")
        yield from found


def _is_named(constraint: Constraint, name: str) -> bool:
    own = constraint.name if isinstance(constraint, Key) else constraint.constraint
    return str(own).lower() == name.lower()


def _key_as_said(context: Context, key: Key, specs: Sequence[Spec]) -> Key:
    for spec in specs:
        match spec:
            case RenameKey(name, to) if _is_named(key, name):
                return replace(key, name=to)
            case SetKeyVisibility(name, invisible) if _is_named(key, name):
                hidden = _HIDDEN[context.server.mariadb]
                key = replace(key, options=(*(one for one in key.options if one != hidden), *[hidden] * invisible))
    return key


def _check_as_said(check: Check, specs: Sequence[Spec]) -> Check:
    for spec in specs:
        if isinstance(spec, EnforceCheck) and _is_named(check, spec.name):
            check = replace(check, enforced=spec.enforced)
    return check


def _added(context: Context, specs: Sequence[Spec], said: Said) -> Iterator[Constraint]:
    """Yield the new constraints in the order of the text."""
    for number, spec in enumerate(specs):
        if isinstance(spec, AddConstraint):
            yield constraint_as_said(context, spec.constraint)
        elif number in said:
            yield from said[number][1]


def _partitioning(table: TableDefinition, specs: Sequence[Spec]) -> Code | None:
    """Return how the table is partitioned, as it was last said in full: single partitions are not followed."""
    found = table.partitioning
    for spec in specs:
        if isinstance(spec, Repartition) and spec.what.upper().startswith("PARTITION BY"):
            found = spec.what
        elif isinstance(spec, Repartition) and spec.what.upper() == "REMOVE PARTITIONING":
            found = None
    return found
