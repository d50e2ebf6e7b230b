"""Clauses of ALTER TABLE that have no effect because of IF EXISTS or IF NOT EXISTS.

    t (a):  ALTER TABLE t ADD COLUMN IF NOT EXISTS a int, DROP COLUMN IF EXISTS b, ADD c int  ─▶  ADD c int

MariaDB checks the table before the statement and, for additions, the preceding clauses. It identifies a key without a
name by the name of its first column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.keys import PRIMARY, is_hashed
from airflow_provider_dm.engine.ddl.server import Server


def without_ineffective(server: Server, table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> tuple[ddl.Spec, ...]:
    """Return the clauses that have an effect."""
    kept: list[ddl.Spec] = []
    for spec in specs:
        conditional = isinstance(spec, ddl.AddColumn) and spec.if_not_exists
        conditional |= isinstance(spec, ddl.ChangeColumn) and spec.if_exists
        parts = split_inline_key(spec) if conditional else (spec,)  # the two are evaluated separately
        kept += [part for part in parts if not _is_ineffective(server, table, part, kept)]
    return tuple(kept)


def split_inline_key(spec: ddl.Spec) -> tuple[ddl.Spec, ...]:
    """Split an inline key from its column. Other clauses are returned alone."""
    match spec:
        case ddl.AddColumn(column, _, conditional) | ddl.ChangeColumn(_, column, _, conditional) if (
            column.key is not None
        ):
            key = ddl.KeyDefinition(column.key, (ddl.KeyPart(column.name),))
            nullable = False if column.key is ddl.KeyKind.PRIMARY else column.nullable
            plain = replace(spec, column=replace(column, key=None, nullable=nullable))
            return (plain, ddl.AddConstraint(key, if_not_exists=conditional))
    return (spec,)


def _is_ineffective(server: Server, table: ddl.TableDefinition, spec: ddl.Spec, before: Sequence[ddl.Spec]) -> bool:
    columns = {column.name.lower() for column in table.columns}
    match spec:
        case ddl.AddColumn(column, _, True):
            added = {one.column.name.lower() for one in before if isinstance(one, ddl.AddColumn | ddl.ChangeColumn)}
            return column.name.lower() in columns | added
        case ddl.DropColumn(name, True):
            dropped = {one.name.lower() for one in before if isinstance(one, ddl.DropColumn)}
            return name.lower() not in columns or name.lower() in dropped
        case ddl.ChangeColumn(name, _, _, True) | ddl.RenameColumn(name, _, True) | ddl.SetDefault(name, _, True):
            return name.lower() not in columns
        case ddl.AddConstraint(constraint, True):
            others = [one.constraint for one in before if isinstance(one, ddl.AddConstraint)]
            added = {_name(one) for one in others if _kind(one) == _kind(constraint)}
            return _name(constraint) in _names(table, type(constraint)) | added
        case ddl.DropKey(name, True) | ddl.RenameKey(name, _, True):
            return name.lower() not in _names(table, ddl.KeyDefinition)
        case ddl.DropForeignKey(name, True):
            return name.lower() not in _names(table, ddl.ForeignKey)
        case ddl.DropConstraint(name, True):
            names = {_name(one) for one in table.constraints if _is_constraint(server, table, one)}
            return name.lower() not in names
    return False


def _is_constraint(server: Server, table: ddl.TableDefinition, constraint: ddl.Constraint) -> bool:
    """Return True if DROP CONSTRAINT IF EXISTS finds it: MariaDB finds no plain key and no key with a hidden hash."""
    if not isinstance(constraint, ddl.KeyDefinition):
        return True
    return constraint.kind in (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE) and not is_hashed(
        server, dict(table.options)["ENGINE"], constraint
    )


def _names(table: ddl.TableDefinition, *kinds: type[ddl.Constraint]) -> set[str]:
    return {_name(constraint) for constraint in table.constraints if isinstance(constraint, kinds)}


def _kind(constraint: ddl.Constraint) -> object:
    """Return the group of constraints in which MariaDB compares the names of constraints of one statement."""
    return constraint.kind if isinstance(constraint, ddl.KeyDefinition) else type(constraint)


def _name(constraint: ddl.Constraint) -> str:
    """Return the name in lower case by which a constraint is found; "" if it has none."""
    match constraint:
        case ddl.KeyDefinition(ddl.KeyKind.PRIMARY):
            return PRIMARY.lower()
        case ddl.KeyDefinition(_, parts, name, constraint_name):
            return (name or constraint_name or parts[0].column or "").lower()
    index = constraint.name if isinstance(constraint, ddl.ForeignKey) else None
    return (constraint.constraint or index or "").lower()
