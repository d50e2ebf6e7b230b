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

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.constraints import name_under
from airflow_provider_dm.engine.ddl.copyable import NotCopyable
from airflow_provider_dm.engine.ddl.create_like import charset_of
from airflow_provider_dm.engine.ddl.target_definitions import Carrier
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote

_CARE: Final = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR")
"""What is done to partitions without a change."""
_DROPS: Final = (ddl.DropKey, ddl.DropForeignKey, ddl.DropConstraint)
_COLUMNS: Final = (
    ddl.AddColumn,
    ddl.DropColumn,
    ddl.ChangeColumn,
    ddl.RenameColumn,
    ddl.SetDefault,
    ddl.SetColumnVisibility,
)


def altered(statement: ddl.AlterTable, carrier: Carrier) -> tuple[ddl.Spec, ...]:
    """Return the parts for the target's table; none if nothing changes. Raises NotCopyable."""
    found = (_spec(spec, carrier) for spec in _with_their_defaults(statement.specs))
    return tuple(spec for spec in found if spec is not None)


def _with_their_defaults(specs: Sequence[ddl.Spec]) -> list[ddl.Spec]:
    """Return the parts with a default that is set for a column which the same statement changes said with the column.

    MariaDB takes the two where the column gets a place, and finds it by its new name; MySQL does not.
    """
    changed = {spec.column.name.lower() for spec in specs if isinstance(spec, ddl.ChangeColumn)}
    defaults = {
        spec.name.lower(): spec.default
        for spec in specs
        if isinstance(spec, ddl.SetDefault) and spec.name.lower() in changed
    }
    found: list[ddl.Spec] = []
    for spec in specs:
        if isinstance(spec, ddl.ChangeColumn) and (name := spec.column.name.lower()) in defaults:
            found.append(replace(spec, column=replace(spec.column, default=defaults[name])))
        elif not (isinstance(spec, ddl.SetDefault) and spec.name.lower() in defaults):
            found.append(spec)
    return found


def _spec(spec: ddl.Spec, carrier: Carrier) -> ddl.Spec | None:
    way, source = carrier.way, carrier.table
    target, one_family = way.route(source), way.one_family
    match spec:
        case ddl.Upkeep():
            return None
        case ddl.AddColumn(column):
            if column.auto_increment and not (one_family and way.numbers_alike(source)):
                raise NotCopyable(f"the numbers of {quote(column.name)}, whose order only the source knows")
            return replace(spec, column=carrier.column(column))
        case ddl.ChangeColumn(_, column):
            if column.type.name == "json" and not one_family:
                raise NotCopyable(f"{quote(column.name)}, whose rows become JSON, which each flavour writes anew")
            return replace(spec, column=carrier.column(column))
        case ddl.SetDefault(name, default):
            return replace(spec, default=carrier.changed_default(name, default))
        case ddl.SetColumnVisibility(name):
            if way.target is Flavour.MYSQL:
                return spec
            carrier.note(f"whether {quote(name)} is visible stays as it is")
            return None
        case ddl.AddConstraint(constraint):
            made = carrier.constraint(constraint)
            return None if made is None else replace(spec, constraint=made)
        case ddl.DropForeignKey(name) | ddl.DropConstraint(name):
            return replace(spec, name=name_under(name, source, target))
        case ddl.EnforceCheck(name):
            if one_family:
                return replace(spec, name=name_under(name, source, target))
            carrier.note(f"the CHECK {name} is left out")
            return None
        case ddl.DropColumn() | ddl.RenameColumn() | ddl.DropKey() | ddl.RenameKey() | ddl.SetKeyVisibility():
            return spec
        case ddl.RenameTo(new):
            pair = carrier.renamed(new)
            return None if pair is None else ddl.RenameTo(pair[1])
        case ddl.ConvertCharset(charset, collation):
            known = collation or way.collation(source)
            if known is None:
                raise NotCopyable(f"the collation that it converts to, of the character set {charset or 'DEFAULT'}")
            becomes = carrier.collation(known)
            return ddl.ConvertCharset(charset_of(becomes), becomes)
        case ddl.SetOptions(options):
            said = carrier.changed_options(options)
            kept = tuple(one for one in carrier.options(said) if one[0] != "ENGINE")  # it is InnoDB already
            return ddl.SetOptions(kept) if kept else None
        case ddl.Repartition(what):
            return None if what.upper().startswith(_CARE) else ddl.Repartition(carrier.partitions(what))
        case ddl.DropPartitions() | ddl.TruncatePartitions():
            if not one_family:
                raise NotCopyable("partitions, which the other flavour may have in another way")
            return spec
        case ddl.ExchangePartition(partition, other) | ddl.PartitionToTable(partition, other):
            raise NotCopyable(f"rows that move between the partition {partition} and the table {other}")
        case ddl.TableToPartition(other):
            raise NotCopyable(f"rows that move from the table {other} to a partition")
        case ddl.SwapTablespace(what):
            raise NotCopyable(f"{what}, whose rows are not in the log")


def unconditional(spec: ddl.Spec) -> ddl.Spec:
    """Return the part without IF EXISTS and IF NOT EXISTS."""
    match spec:
        case ddl.AddColumn() | ddl.AddConstraint():
            return replace(spec, if_not_exists=False)
        case ddl.DropColumn() | ddl.ChangeColumn() | ddl.RenameColumn() | ddl.SetDefault():
            return replace(spec, if_exists=False)
        case ddl.DropKey() | ddl.DropForeignKey() | ddl.DropConstraint() | ddl.RenameKey() | ddl.DropPartitions():
            return replace(spec, if_exists=False)
        case _:
            return spec


def one_by_one(specs: Sequence[ddl.Spec]) -> list[ddl.Spec]:
    """Return the parts in an order in which each may run on its own. Raises NotCopyable.

    In one statement what is dropped is what was there before, and keys are over the columns that are there afterwards:
    so drops come first, then keys that are renamed and columns as they are told, then new keys and all else, and the
    table's new name at the end. Where one takes a name that another has in the same statement, no order is right.

    >>> specs = [ddl.RenameKey("a", "b"), ddl.DropColumn("c"), ddl.DropKey("k")]
    >>> [type(one).__name__ for one in one_by_one(specs)]
    ['DropKey', 'RenameKey', 'DropColumn']
    """
    ordered = sorted(specs, key=_rank)
    made: set[tuple[bool, str]] = set()
    left: set[tuple[bool, str]] = set()
    for spec in ordered:
        of_key = isinstance(spec, ddl.RenameKey)
        named = (of_key, _named(spec).lower())
        changes_value = isinstance(spec, ddl.SetDefault | ddl.SetColumnVisibility)
        if named in made or (changes_value and named in left):
            raise NotCopyable(f"the name {quote(_named(spec))}, which stands for two things in the same statement")
        if (new := _new_name(spec)) is not None:
            made.add((of_key, new.lower()))
            left.add(named)
    return ordered


def _rank(spec: ddl.Spec) -> int:
    if isinstance(spec, _DROPS):
        return 0
    if isinstance(spec, ddl.RenameKey):
        return 1
    if isinstance(spec, _COLUMNS):
        return 2
    return 4 if isinstance(spec, ddl.RenameTo) else 3


def _named(spec: ddl.Spec) -> str:
    """Return what a part calls a column or key that is there; "" for others."""
    match spec:
        case ddl.DropColumn(name) | ddl.ChangeColumn(name) | ddl.RenameColumn(name) | ddl.RenameKey(name):
            return name
        case ddl.SetDefault(name) | ddl.SetColumnVisibility(name):
            return name
        case _:
            return ""


def _new_name(spec: ddl.Spec) -> str | None:
    """Return the name that a part gives to a column or key, if that is new."""
    match spec:
        case ddl.AddColumn(column):
            return column.name
        case ddl.ChangeColumn(name, column):
            return column.name if column.name.lower() != name.lower() else None
        case ddl.RenameColumn(_, to) | ddl.RenameKey(_, to):
            return to
        case _:
            return None
