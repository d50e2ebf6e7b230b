"""The parts of ALTER TABLE for a target's table: what is left of them, and each on its own where that is asked for.

    ADD COLUMN c text, DROP KEY k, ENGINE=InnoDB, LOCK=NONE
    ─▶ ADD COLUMN c text CHARACTER SET … COLLATE …, DROP KEY k
    ─▶ each on its own: DROP KEY k · ADD COLUMN c text …

Left out is what changes neither rows nor definitions. Refused is, beside what `Carrier` refuses, what moves rows
without a trace in the log (tablespaces, partitions that change places with tables), and an AUTO_INCREMENT that numbers
rows in an order that only the source knows: that of a primary key is the same on both sides, within a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.constraints import name_under
from airflow_provider_dm.engine.ddl.copyable import NotCopyable
from airflow_provider_dm.engine.ddl.create_like import charset_of
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    AlterTable,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropKey,
    DropPartitions,
    EnforceCheck,
    ExchangePartition,
    PartitionToTable,
    RenameColumn,
    RenameKey,
    RenameTo,
    Repartition,
    SetColumnVisibility,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    Spec,
    SwapTablespace,
    TableToPartition,
    TruncatePartitions,
    Upkeep,
)
from airflow_provider_dm.engine.ddl.target_definitions import Carrier
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote

_CARE: Final = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR")
"""What is done to partitions without a change."""
_DROPS: Final = (DropKey, DropForeignKey, DropConstraint)
_COLUMNS: Final = (AddColumn, DropColumn, ChangeColumn, RenameColumn, SetDefault, SetColumnVisibility)


def altered(statement: AlterTable, carrier: Carrier) -> tuple[Spec, ...]:
    """Return the parts for the target's table; none if nothing changes. Raises NotCopyable."""
    found = (_spec(spec, carrier) for spec in _with_their_defaults(statement.specs))
    return tuple(spec for spec in found if spec is not None)


def _with_their_defaults(specs: Sequence[Spec]) -> list[Spec]:
    """Return the parts with a default that is set for a column which the same statement changes said with the column.

    MariaDB takes the two where the column gets a place, and finds it by its new name; MySQL does not.
    """
    changed = {spec.column.name.lower() for spec in specs if isinstance(spec, ChangeColumn)}
    defaults = {
        spec.name.lower(): spec.default
        for spec in specs
        if isinstance(spec, SetDefault) and spec.name.lower() in changed
    }
    found: list[Spec] = []
    for spec in specs:
        if isinstance(spec, ChangeColumn) and (name := spec.column.name.lower()) in defaults:
            found.append(replace(spec, column=replace(spec.column, default=defaults[name])))
        elif not (isinstance(spec, SetDefault) and spec.name.lower() in defaults):
            found.append(spec)
    return found


def _spec(spec: Spec, carrier: Carrier) -> Spec | None:
    way, source = carrier.way, carrier.table
    target, one_family = way.route(source), way.one_family
    match spec:
        case Upkeep():
            return None
        case AddColumn(column):
            if column.auto_increment and not (one_family and way.has_primary_key(source)):
                raise NotCopyable(f"the numbers of {quote(column.name)}, whose order only the source knows")
            return replace(spec, column=carrier.column(column))
        case ChangeColumn(_, column):
            if column.type.name == "json" and not one_family:
                raise NotCopyable(f"{quote(column.name)}, whose rows become JSON, which each flavour writes anew")
            return replace(spec, column=carrier.column(column))
        case SetDefault(name, default):
            return replace(spec, default=carrier.changed_default(name, default))
        case SetColumnVisibility(name):
            if way.target is Flavour.MYSQL:
                return spec
            carrier.note(f"whether {quote(name)} is visible stays as it is")
            return None
        case AddConstraint(constraint):
            made = carrier.constraint(constraint)
            return None if made is None else replace(spec, constraint=made)
        case DropForeignKey(name) | DropConstraint(name):
            return replace(spec, name=name_under(name, source, target))
        case EnforceCheck(name):
            if one_family:
                return replace(spec, name=name_under(name, source, target))
            carrier.note(f"the CHECK {name} is left out")
            return None
        case DropColumn() | RenameColumn() | DropKey() | RenameKey() | SetKeyVisibility():
            return spec
        case RenameTo(new):
            pair = carrier.renamed(new)
            return None if pair is None else RenameTo(pair[1])
        case ConvertCharset(charset, collation):
            known = collation or way.collation(source)
            if known is None:
                raise NotCopyable(f"the collation that it converts to, of the character set {charset or 'DEFAULT'}")
            becomes = carrier.collation(known)
            return ConvertCharset(charset_of(becomes), becomes)
        case SetOptions(options):
            said = carrier.changed_options(options)
            kept = tuple(one for one in carrier.options(said) if one[0] != "ENGINE")  # it is InnoDB already
            return SetOptions(kept) if kept else None
        case Repartition(what):
            return None if what.upper().startswith(_CARE) else Repartition(carrier.partitions(what))
        case DropPartitions() | TruncatePartitions():
            if not one_family:
                raise NotCopyable("partitions, which the other flavour may have in another way")
            return spec
        case ExchangePartition(partition, other) | PartitionToTable(partition, other):
            raise NotCopyable(f"rows that move between the partition {partition} and the table {other}")
        case TableToPartition(other):
            raise NotCopyable(f"rows that move from the table {other} to a partition")
        case SwapTablespace(what):
            raise NotCopyable(f"{what}, whose rows are not in the log")


def unconditional(spec: Spec) -> Spec:
    """Return the part without IF EXISTS and IF NOT EXISTS."""
    match spec:
        case AddColumn() | AddConstraint():
            return replace(spec, if_not_exists=False)
        case DropColumn() | ChangeColumn() | RenameColumn() | SetDefault():
            return replace(spec, if_exists=False)
        case DropKey() | DropForeignKey() | DropConstraint() | RenameKey() | DropPartitions():
            return replace(spec, if_exists=False)
        case _:
            return spec


def one_by_one(specs: Sequence[Spec]) -> list[Spec]:
    """Return the parts in an order in which each may run on its own. Raises NotCopyable.

    In one statement what is dropped is what was there before, and keys are over the columns that are there afterwards:
    so drops come first, then keys that are renamed and columns as they are told, then new keys and all else, and the
    table's new name at the end. Where one takes a name that another has in the same statement, no order is right.

    >>> [type(one).__name__ for one in one_by_one([RenameTo(TableName("a", "b")), DropColumn("c"), DropKey("k")])]
    ['DropKey', 'DropColumn', 'RenameTo']
    """
    ordered = sorted(specs, key=_rank)
    made: set[tuple[bool, str]] = set()
    left: set[tuple[bool, str]] = set()
    for spec in ordered:
        of_key = isinstance(spec, RenameKey)
        named = (of_key, _named(spec).lower())
        changes_value = isinstance(spec, SetDefault | SetColumnVisibility)
        if named in made or (changes_value and named in left):
            raise NotCopyable(f"the name {quote(_named(spec))}, which stands for two things in the same statement")
        if (new := _new_name(spec)) is not None:
            made.add((of_key, new.lower()))
            left.add(named)
    return ordered


def _rank(spec: Spec) -> int:
    if isinstance(spec, _DROPS):
        return 0
    if isinstance(spec, RenameKey):
        return 1
    if isinstance(spec, _COLUMNS):
        return 2
    return 4 if isinstance(spec, RenameTo) else 3


def _named(spec: Spec) -> str:
    """Return what a part calls a column or key that is there; "" for others."""
    match spec:
        case DropColumn(name) | ChangeColumn(name) | RenameColumn(name) | RenameKey(name):
            return name
        case SetDefault(name) | SetColumnVisibility(name):
            return name
        case _:
            return ""


def _new_name(spec: Spec) -> str | None:
    """Return the name that a part gives to a column or key, if that is new."""
    match spec:
        case AddColumn(column):
            return column.name
        case ChangeColumn(name, column):
            return column.name if column.name.lower() != name.lower() else None
        case RenameColumn(_, to) | RenameKey(_, to):
            return to
        case _:
            return None
