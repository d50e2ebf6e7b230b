"""The clauses of ALTER TABLE for a target's table, in one statement or, if required, each in its own.

    ADD COLUMN c text, DROP KEY k, ENGINE=InnoDB, LOCK=NONE
    ─▶ ADD COLUMN c text CHARACTER SET … COLLATE …, DROP KEY k
    ─▶ one by one: DROP KEY k · ADD COLUMN c text …

Clauses that change neither rows nor definitions are left out; AUTO_INCREMENT= is kept where it numbers existing rows.
Besides what `TableConverter` refuses, it refuses clauses that move rows without logging them (tablespaces, exchange of
partitions with tables) and an AUTO_INCREMENT that numbers existing rows in an order that only the source knows: the
order of a primary key is the same on both sides, within a family.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.constraints import name_under
from airflow_provider_dm.engine.ddl.dialects import charset_of, collation_for
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.target_code import is_maintenance, is_moment
from airflow_provider_dm.engine.ddl.target_definitions import TableConverter
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.codec import TEXTS

_FIRST_NUMBER: Final = "AUTO_INCREMENT"
_DROPS: Final = (ddl.DropKey, ddl.DropForeignKey, ddl.DropConstraint)
_IN_PLACE: Final = frozenset({("utf8", "utf8mb4"), ("utf8mb3", "utf8mb4"), ("latin1", "utf8mb4")})
_COLUMNS: Final = (
    ddl.AddColumn,
    ddl.DropColumn,
    ddl.ChangeColumn,
    ddl.RenameColumn,
    ddl.SetDefault,
    ddl.SetColumnVisibility,
)


def target_clauses(statement: ddl.AlterTable, carrier: TableConverter) -> tuple[ddl.Spec, ...]:
    """Return the clauses for the target's table; none if nothing changes. Raises NotCopyable."""
    specs = _with_their_defaults(statement.specs)
    table = None if carrier.way.target_can.changes_charsets else carrier.way.was(carrier.table)
    found = (_spec(spec, carrier) for spec in (specs if table is None else _by_columns(specs, table, carrier)))
    steps = (step for spec in found if spec is not None for step in _by_a_longer_type(spec, carrier))
    return (*steps, *_first_number(statement.specs, carrier.way.target_can))


def _by_columns(specs: Sequence[ddl.Spec], table: ddl.TableDefinition, carrier: TableConverter) -> Iterator[ddl.Spec]:
    """Yield CONVERT TO as changes of single columns, some of which get a longer type, too. `table`: before them.

    The table's default charset stays: no column depends on it, as all have their own. Raises NotCopyable.
    """
    for spec in specs:
        if isinstance(spec, ddl.SetOptions):
            yield ddl.SetOptions(tuple(option for option in spec.options if option[0] not in ("CHARSET", "COLLATE")))
        elif not isinstance(spec, ddl.ConvertCharset):
            yield spec
        elif any(isinstance(one, ddl.RenameColumn) for one in specs):
            raise NotCopyable("a new name and CONVERT TO CHARACTER SET in one statement")
        else:
            carrier.note("the table's default character set stays")
            for old in table.columns:
                new = carrier.way.resolve(carrier.table, old.name)
                if new is not None and new.type != old.type:
                    yield ddl.ChangeColumn(old.name, new)


def _column_before(name: str, carrier: TableConverter) -> ddl.ColumnDefinition | None:
    """Return the column before the statement; None if it is not known."""
    table = carrier.way.was(carrier.table)
    columns = () if table is None else table.columns
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def _column_with_moments(name: str, carrier: TableConverter) -> ddl.ColumnDefinition | None:
    """Return the column after the statement if it had DEFAULT CURRENT_TIMESTAMP and ON UPDATE before; otherwise None.
    When the default changes, MariaDB also drops ON UPDATE, and the other family keeps it."""
    old = _column_before(name, carrier)
    both = old is not None and old.on_update is not None and is_moment(old.default)
    return carrier.way.resolve(carrier.table, name) if both else None


def _by_a_longer_type(spec: ddl.Spec, carrier: TableConverter) -> tuple[ddl.Spec, ...]:
    """Return the clause. If the target changes charsets only together with a length, a clause that lengthens the column
    precedes it."""
    way = carrier.way
    if way.target_can.changes_charsets or not isinstance(spec, ddl.ChangeColumn):
        return (spec,)
    old = _column_before(spec.name, carrier)
    if old is None or old.type.collation is None or not {old.type.name, spec.column.type.name} <= TEXTS:
        return (spec,)
    collation = collation_for(old.type.collation, way.source, way.target)
    charsets = (charset_of(collation), str(spec.column.type.charset))
    if charsets[0] == charsets[1] or charsets in _IN_PLACE:
        return (spec,)
    longer = ddl.ColumnType("longtext", charset=charsets[0], collation=collation)
    return (ddl.ChangeColumn(old.name, ddl.ColumnDefinition(old.name, longer, nullable=old.nullable)), spec)


def _first_number(specs: Sequence[ddl.Spec], target: Capabilities) -> tuple[ddl.Spec, ...]:
    """Return the option AUTO_INCREMENT if the statement numbers existing rows with it."""
    numbering = any(isinstance(spec, ddl.AddColumn | ddl.ChangeColumn) and spec.column.auto_increment for spec in specs)
    options = [option for spec in specs if isinstance(spec, ddl.SetOptions) for option in spec.options]
    found = tuple(option for option in options if option[0] == _FIRST_NUMBER)
    return (ddl.SetOptions(found[-1:]),) if found and numbering and target.numbers_rows else ()


def _with_their_defaults(specs: Sequence[ddl.Spec]) -> list[ddl.Spec]:
    """Merge each SET DEFAULT for a column that the same statement changes into the clause that changes it.

    MariaDB accepts the two clauses if the column gets a position, and finds the column by its new name; MySQL rejects
    them.
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


def _spec(spec: ddl.Spec, carrier: TableConverter) -> ddl.Spec | None:
    way, source = carrier.way, carrier.table
    target, one_family = way.route(source), way.one_family
    match spec:
        case ddl.MaintenanceClause():
            return None
        case ddl.AddColumn(column):
            if column.auto_increment and not (one_family and way.numbers_alike(source)):
                raise NotCopyable(f"the numbers of {quote(column.name)}, whose order only the source knows")
            if not way.fills(column):
                raise NotCopyable(f"the default {column.default} of {quote(column.name)} for existing rows")
            return replace(spec, column=carrier.column(column))
        case ddl.ChangeColumn(name, column):
            # MariaDB's is text, with the same characters in the target, except in a JSON column that a user created.
            formatted = way.source is not Flavour.MARIADB or way.is_json(source, name)
            if column.type.name == "json" and formatted and not one_family:
                raise NotCopyable(f"{quote(column.name)}, whose rows become JSON, which flavours format differently")
            return replace(spec, column=carrier.column(column))
        case ddl.SetDefault(name) if not one_family and (whole := _column_with_moments(name, carrier)) is not None:
            return ddl.ChangeColumn(name, carrier.column(whole))
        case ddl.SetDefault(name, default):
            return replace(spec, default=carrier.changed_default(name, default))
        case ddl.SetColumnVisibility(name):
            if way.target_can.alters_visibility:
                return spec
            carrier.note(f"the visibility of {quote(name)} is not changed")
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
                raise NotCopyable(f"the default collation of CONVERT TO CHARACTER SET {charset or 'DEFAULT'}")
            becomes = carrier.collation(known)
            return ddl.ConvertCharset(charset_of(becomes), becomes)
        case ddl.SetOptions(options):
            changed = carrier.changed_options(options)
            kept = tuple(option for option in carrier.options(changed) if option[0] != "ENGINE")  # it is InnoDB already
            return ddl.SetOptions(kept) if kept else None
        case ddl.Repartition(what):
            return None if is_maintenance(what) else ddl.Repartition(carrier.partitions(what))
        case ddl.DropPartitions() | ddl.TruncatePartitions():
            if not way.carries_code:
                raise NotCopyable("partitions, which may differ in the other flavour")
            return spec
        case ddl.ExchangePartition(partition, other) | ddl.PartitionToTable(partition, other):
            raise NotCopyable(f"rows that move between the partition {partition} and the table {other}")
        case ddl.TableToPartition(other):
            raise NotCopyable(f"rows that move from the table {other} to a partition")
        case ddl.SwapTablespace(what):
            raise NotCopyable(f"{what}, whose rows are not in the log")


def unconditional(spec: ddl.Spec) -> ddl.Spec:
    """Return the clause without IF EXISTS and IF NOT EXISTS."""
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
    """Return the clauses in an order in which each can run as a statement of its own. Raises NotCopyable.

    In one statement, drops refer to the table before it and keys to the columns after it. So drops come first, then
    renamed keys and changed columns in the order of the text, then the conversion of all columns, new keys and all
    else, and the table's new name last. If a clause uses a name that another clause of the statement frees or uses, no
    order is correct.

    >>> specs = [ddl.RenameKey("a", "b"), ddl.DropColumn("c"), ddl.DropKey("k")]
    >>> [type(one).__name__ for one in one_by_one(specs)]
    ['DropKey', 'RenameKey', 'DropColumn']
    """
    if any(isinstance(spec, ddl.SetOptions) and _FIRST_NUMBER in dict(spec.options) for spec in specs):
        raise NotCopyable("the numbers of existing rows, which begin at the AUTO_INCREMENT of the same statement")
    ordered = sorted(specs, key=_rank)
    made: set[tuple[bool, str]] = set()
    left: set[tuple[bool, str]] = set()
    for spec in ordered:
        of_key = isinstance(spec, ddl.RenameKey)
        named = (of_key, _named(spec).lower())
        changes_value = isinstance(spec, ddl.SetDefault | ddl.SetColumnVisibility)
        if named in made or (changes_value and named in left):
            raise NotCopyable(f"the name {quote(_named(spec))}, which has two meanings in the same statement")
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
    if isinstance(spec, ddl.ConvertCharset):
        return 3
    return 5 if isinstance(spec, ddl.RenameTo) else 4


def _named(spec: ddl.Spec) -> str:
    """Return the name by which a clause refers to an existing column or key; "" for other clauses."""
    match spec:
        case ddl.DropColumn(name) | ddl.ChangeColumn(name) | ddl.RenameColumn(name) | ddl.RenameKey(name):
            return name
        case ddl.SetDefault(name) | ddl.SetColumnVisibility(name):
            return name
        case _:
            return ""


def _new_name(spec: ddl.Spec) -> str | None:
    """Return the new name that a clause gives to a column or key; None if it gives none."""
    match spec:
        case ddl.AddColumn(column):
            return column.name
        case ddl.ChangeColumn(name, column):
            return column.name if column.name.lower() != name.lower() else None
        case ddl.RenameColumn(_, to) | ddl.RenameKey(_, to):
            return to
        case _:
            return None
