"""Parts of ALTER TABLE that do nothing, because what they add is there or what they change is not.

    t (a):  ALTER TABLE t ADD COLUMN IF NOT EXISTS a int, DROP COLUMN IF EXISTS b, ADD c int  ─▶  ADD c int

MariaDB looks at the table as it was, and for additions at the parts before. A key without a name is looked for by its
first column's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl.keys import PRIMARY, is_hashed
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    ChangeColumn,
    Constraint,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropKey,
    ForeignKey,
    Key,
    KeyKind,
    KeyPart,
    RenameColumn,
    RenameKey,
    SetDefault,
    Spec,
    TableDefinition,
)


def without_needless(server: Server, table: TableDefinition, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """Return the parts that do something."""
    kept: list[Spec] = []
    for spec in specs:
        kept += [one for one in _apart(spec) if not _is_needless(server, table, one, kept)]
    return tuple(kept)


def _apart(spec: Spec) -> tuple[Spec, ...]:
    """Return a key that is said with a column as a part of its own: IF [NOT] EXISTS asks for the two one by one."""
    match spec:
        case AddColumn(column, _, True) | ChangeColumn(_, column, _, True) if column.key is not None:
            key = Key(column.key, (KeyPart(column.name),))
            nullable = False if column.key is KeyKind.PRIMARY else column.nullable
            plain = replace(spec, column=replace(column, key=None, nullable=nullable))
            return (plain, AddConstraint(key, if_not_exists=True))
    return (spec,)


def _is_needless(server: Server, table: TableDefinition, spec: Spec, before: Sequence[Spec]) -> bool:
    columns = {column.name.lower() for column in table.columns}
    match spec:
        case AddColumn(column, _, True):
            added = {one.column.name.lower() for one in before if isinstance(one, AddColumn | ChangeColumn)}
            return column.name.lower() in columns | added
        case DropColumn(name, True):
            dropped = {one.name.lower() for one in before if isinstance(one, DropColumn)}
            return name.lower() not in columns or name.lower() in dropped
        case ChangeColumn(name, _, _, True) | RenameColumn(name, _, True) | SetDefault(name, _, True):
            return name.lower() not in columns
        case AddConstraint(constraint, True):
            others = [one.constraint for one in before if isinstance(one, AddConstraint)]
            added = {_name(one) for one in others if _kind(one) == _kind(constraint)}
            return _name(constraint) in _names(table, type(constraint)) | added
        case DropKey(name, True) | RenameKey(name, _, True):
            return name.lower() not in _names(table, Key)
        case DropForeignKey(name, True):
            return name.lower() not in _names(table, ForeignKey)
        case DropConstraint(name, True):
            found = {_name(one) for one in table.constraints if _is_constraint(server, table, one)}
            return name.lower() not in found
    return False


def _is_constraint(server: Server, table: TableDefinition, constraint: Constraint) -> bool:
    """Tell whether DROP CONSTRAINT IF EXISTS finds it: no plain key, and none that MariaDB keeps a hash for."""
    if not isinstance(constraint, Key):
        return True
    return constraint.kind in (KeyKind.PRIMARY, KeyKind.UNIQUE) and not is_hashed(
        server, dict(table.options)["ENGINE"], constraint
    )


def _names(table: TableDefinition, *kinds: type[Constraint]) -> set[str]:
    return {_name(one) for one in table.constraints if isinstance(one, kinds)}


def _kind(constraint: Constraint) -> object:
    """Return what is the same in two constraints of one statement of which MariaDB compares the names."""
    return constraint.kind if isinstance(constraint, Key) else type(constraint)


def _name(constraint: Constraint) -> str:
    """Return the name in lower case by which a constraint is looked for; "" for one that has none."""
    match constraint:
        case Key(KeyKind.PRIMARY):
            return PRIMARY.lower()
        case Key(_, parts, name, said):
            return (name or said or parts[0].column or "").lower()
    index = constraint.name if isinstance(constraint, ForeignKey) else None
    return (constraint.constraint or index or "").lower()
