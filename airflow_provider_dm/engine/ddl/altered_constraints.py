"""What ALTER TABLE leaves of the constraints of a table, and which it adds.

PRIMARY KEY (id), KEY k (a, b), CHECK (a > 0):  DROP PRIMARY KEY, DROP a, ADD UNIQUE (b)  ─▶  KEY k (b), UNIQUE (b)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.altered_columns import Fates, Said, renamed
from airflow_provider_dm.engine.ddl.carried_keys import Successors, carried
from airflow_provider_dm.engine.ddl.expressions import mentions
from airflow_provider_dm.engine.ddl.keys import by_name, without_hash
from airflow_provider_dm.engine.ddl.resolve import Context, constraint_as_said, keeps_foreign_keys
from airflow_provider_dm.engine.ddl.server import CannotTrack

_HIDDEN: Final = {True: ("IGNORED", ""), False: ("INVISIBLE", "")}
"""What an index that is not used is called: in MariaDB, in MySQL."""


def constraints_left(
    context: Context,
    table: ddl.TableDefinition,
    specs: Sequence[ddl.Spec],
    fates: Fates,
    columns: Sequence[ddl.ColumnDefinition],
) -> Iterator[ddl.Constraint]:
    """Yield what is left of the table's constraints. `columns`: the new ones. Raises CannotTrack."""
    successors = _successors(fates, columns)
    old = by_name(table.columns)
    names = {name: column.name for name, column in fates.items() if column is not None}
    dropped = set(_dropped(table, specs))
    is_rename = all(isinstance(spec, ddl.RenameTo | ddl.Upkeep) for spec in specs)
    for one in table.constraints:
        if one in dropped:
            continue
        match one:
            case ddl.Key():
                parts = tuple(
                    part if part.expression is None else replace(part, expression=renamed(part.expression, names))
                    for part in one.parts
                )
                left = carried(context.server, old, replace(one, parts=parts), successors)
                if left is not None:
                    left = left if is_rename else without_hash(context.server, left)
                    yield _key_as_said(context, left, specs)
            case ddl.ForeignKey():
                yield replace(one, columns=tuple(names.get(name.lower(), name) for name in one.columns))
            case ddl.Check():
                gone = [name for name, column in fates.items() if column is None]
                if not any(mentions(one.expression, name) for name in gone):
                    yield replace(_check_as_said(one, specs), expression=renamed(one.expression, names))


def _successors(fates: Fates, columns: Sequence[ddl.ColumnDefinition]) -> Successors:
    """Return which column each name in a key stands for now.

    In DROP a, ADD a int a key over `a` goes over to the new column, as servers look for it by its name.
    """
    old_names = {id(column): name for name, column in fates.items() if column is not None}
    found: Successors = {}
    for column in columns:
        name = old_names.get(id(column), column.name.lower())
        found.setdefault(name, (column, id(column) not in old_names))
    return found


def _dropped(table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> Iterator[ddl.Constraint]:
    for spec in specs:
        if isinstance(spec, ddl.DropKey | ddl.DropForeignKey | ddl.DropConstraint):
            found = [one for one in table.constraints if _is_meant(spec, one)]
            if not found and not _may_be_missing(table, spec):
                raise CannotTrack(f"the key or constraint {spec.name} is not known")
            yield from found


def _is_meant(spec: ddl.DropKey | ddl.DropForeignKey | ddl.DropConstraint, constraint: ddl.Constraint) -> bool:
    match spec, constraint:
        case (
            (ddl.DropKey(), ddl.Key())
            | (ddl.DropForeignKey(), ddl.ForeignKey())
            | (ddl.DropConstraint(), ddl.ForeignKey() | ddl.Check())
        ):
            return _is_named(constraint, spec.name)
        case ddl.DropConstraint(), ddl.Key(kind):
            return kind in (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE) and _is_named(constraint, spec.name)
    return False


def _may_be_missing(table: ddl.TableDefinition, spec: ddl.Spec) -> bool:
    """Tell whether a key or constraint may be dropped that is not known: no row's form depends on it."""
    if isinstance(spec, ddl.DropForeignKey):
        return not keeps_foreign_keys(table)  # the server passes it over
    # The index of a foreign key may have gone before, without our knowing.
    return isinstance(spec, ddl.DropKey) and any(isinstance(one, ddl.ForeignKey) for one in table.constraints)


def _is_named(constraint: ddl.Constraint, name: str) -> bool:
    own = constraint.name if isinstance(constraint, ddl.Key) else constraint.constraint
    return str(own).lower() == name.lower()


def _key_as_said(context: Context, key: ddl.Key, specs: Sequence[ddl.Spec]) -> ddl.Key:
    found = key
    for spec in specs:
        match spec:
            case ddl.RenameKey(name, to) if _is_named(key, name):
                found = replace(found, name=to)
            case ddl.SetKeyVisibility(name, invisible) if _is_named(key, name):
                hidden = _HIDDEN[context.server.mariadb]
                options = tuple(one for one in found.options if one != hidden)
                found = replace(found, options=(*options, *[hidden] * invisible))
    return found


def _check_as_said(check: ddl.Check, specs: Sequence[ddl.Spec]) -> ddl.Check:
    for spec in specs:
        if isinstance(spec, ddl.EnforceCheck) and _is_named(check, spec.name):
            check = replace(check, enforced=spec.enforced)
    return check


def constraints_said(context: Context, specs: Sequence[ddl.Spec], said: Said) -> Iterator[ddl.Constraint]:
    """Yield the new constraints in the order of the text."""
    for number, spec in enumerate(specs):
        if isinstance(spec, ddl.AddConstraint):
            yield constraint_as_said(context, spec.constraint)
        elif number in said:
            yield from said[number][1]
