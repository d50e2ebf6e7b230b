"""The table after an ALTER TABLE. All clauses refer to the table before the statement, so they are not applied in turn.

    t (a, b, c), KEY k (a, b):  ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)
    1. the existing columns with their new definitions, without those dropped:                    b c
    2. new columns, and columns with a new position, in the order of the clauses:                 b d c ─▶ d c b
    3. the existing keys without the dropped columns; then the new keys, which get names:         k (b), c (c)

The log holds only statements that the source's server accepted, so validity is not checked again, except where the
model must have been wrong before (CannotTrack).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import BINARY, Collation, collation_named
from airflow_provider_dm.engine.ddl.column_types import BLOBS, MEMBERS, TEXT_SIZES, with_collation
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotKnown
from airflow_provider_dm.engine.ddl.expressions import mentions, with_names, without_mode
from airflow_provider_dm.engine.ddl.generated_key import behind_generated_key
from airflow_provider_dm.engine.ddl.if_exists import without_ineffective
from airflow_provider_dm.engine.ddl.keys import Successors, by_name, carried, without_hash
from airflow_provider_dm.engine.ddl.partitions import with_changed_partitions
from airflow_provider_dm.engine.ddl.resolve import (
    Context,
    keeps_foreign_keys,
    kept_options,
    resolved_columns,
    resolved_constraint,
    settled,
    table_collation,
    with_timestamp_defaults,
)
from airflow_provider_dm.engine.ddl.target_code import is_maintenance, is_moment

Defined = dict[int, tuple[ddl.ColumnDefinition, tuple[ddl.Constraint, ...]]]
"""Columns that the statement defines, resolved, with their inline constraints, by the index of the clause."""
ByOldName = dict[str, ddl.ColumnDefinition | None]
"""The old name of each existing column, in lower case -> its new definition; None if it is dropped."""


def altered_table(context: Context, table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> ddl.TableDefinition:
    """Return the table after the clauses of one ALTER TABLE, under its old name. Raises CannotTrack."""
    specs = behind_generated_key(context.server, table, without_ineffective(context.server, table, specs))
    collation, converted = _collations(context, table, specs)
    defined = _defined_columns(context, specs, collation, converted)
    by_old_name = _columns_by_old_name(context, table, specs, defined, converted)
    columns = _in_order(table, specs, defined, by_old_name)
    names = {name: column.name for name, column in by_old_name.items() if column is not None}
    filled = [column for number, (column, _) in defined.items() if _may_fill(table, specs[number])]
    complete = with_timestamp_defaults(context, columns, [column for column, _ in defined.values()], filled)

    changed = replace(
        table,
        columns=tuple(_with_new_names(column, names) for column in complete),
        constraints=tuple(_constraints_left(context, table, specs, by_old_name, columns)),
        options=kept_options((*table.options, *_options(specs)), collation),
        partitioning=_partitioning(table, specs),
    )
    return settled(context, changed, list(_new_constraints(context, specs, defined)))


# Charsets


def _collations(
    context: Context, table: ddl.TableDefinition, specs: Sequence[ddl.Spec]
) -> tuple[Collation, Collation | None]:
    """Return the table's new default collation, and the collation that its columns are converted to or None."""
    current = collation_named(context.server, dict(table.options)["COLLATE"])
    options = _options(specs)
    conversions = [spec for spec in specs if isinstance(spec, ddl.ConvertCharset)]
    if not conversions:
        return table_collation(context, options, current), None
    if len(conversions) > 1 or any(name in ("CHARSET", "COLLATE") for name, _ in options):
        # Which of the two becomes the table's default depends on the flavour and on their order.
        raise CannotTrack("CONVERT TO CHARACTER SET and another default in one statement")
    (spec,) = conversions
    collate = () if spec.collation is None else (("COLLATE", spec.collation),)
    to = table_collation(context, (("CHARSET", spec.charset or "default"), *collate), None)
    return to, to


def _options(specs: Sequence[ddl.Spec]) -> ddl.Options:
    return tuple(option for spec in specs if isinstance(spec, ddl.SetOptions) for option in spec.options)


def _partitioning(table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> ddl.Code | None:
    """Return the partitioning of the table, as last defined completely: single partitions are not tracked."""
    clause = table.partitioning
    for spec in specs:
        match spec:
            case ddl.Repartition(what) if what.upper().startswith("PARTITION BY"):
                clause = what
            case ddl.Repartition(what) if what.upper() == "REMOVE PARTITIONING":
                clause = None
            case ddl.Repartition(what) if is_maintenance(what):
                pass
            case ddl.Repartition() | ddl.DropPartitions() | ddl.PartitionToTable() | ddl.TableToPartition():
                clause = None if clause is None else with_changed_partitions(clause, spec)
    return clause


# Columns
#
# a b c:  DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c  ─▶  b c, then in the order of the text:  b d c ─▶  d c b


def _defined_columns(
    context: Context, specs: Sequence[ddl.Spec], collation: Collation, converted: Collation | None
) -> Defined:
    """Return the columns that the clauses define. `collation`: the table's new default; `converted`: see `_collations`.

    Raises CannotTrack.
    """
    numbered = [
        (number, spec) for number, spec in enumerate(specs) if isinstance(spec, ddl.AddColumn | ddl.ChangeColumn)
    ]
    columns = [spec.column for _, spec in numbered]
    resolved = resolved_columns(context, columns, collation)
    if converted is not None:  # the conversion includes new columns, even those that name a charset
        has_text = [one.type.charset not in (None, BINARY) for one, _ in resolved]
        for column, is_text in zip(columns, has_text, strict=True):
            odd = column.type.binary or column.type.name in (*MEMBERS, *TEXT_SIZES, "json")
            if (is_text and odd) or column.type.name in BLOBS:  # MySQL changes a TEXT to a TINYTEXT, and so on
                raise CannotTrack(f"CONVERT TO CHARACTER SET and {column.type.name} for {column.name} in one statement")
        columns = [
            replace(column, type=replace(column.type, charset=None, collation=None)) if is_text else column
            for column, is_text in zip(columns, has_text, strict=True)
        ]
        resolved = resolved_columns(context, columns, collation)
    return {number: one for (number, _), one in zip(numbered, resolved, strict=True)}


def _may_fill(table: ddl.TableDefinition, spec: ddl.Spec) -> bool:
    """Return True if existing rows may get the default of the clause's column: it is new, or had NULL."""
    if not isinstance(spec, ddl.ChangeColumn):
        return True
    return not any(one.name.lower() == spec.name.lower() and one.nullable is False for one in table.columns)


def _columns_by_old_name(
    context: Context,
    table: ddl.TableDefinition,
    specs: Sequence[ddl.Spec],
    defined: Defined,
    converted: Collation | None,
) -> ByOldName:
    """Return the new definitions of the table's columns. Raises CannotTrack for a clause about a missing column."""
    changed = [
        spec.name.lower() for spec in specs if isinstance(spec, ddl.DropColumn | ddl.ChangeColumn | ddl.RenameColumn)
    ]
    if len(changed) > len(set(changed)):  # in MariaDB the second clause may refer to a new column
        raise CannotTrack("a column is changed twice in one statement")
    redefined = {spec.name.lower() for spec in specs if isinstance(spec, ddl.DropColumn | ddl.ChangeColumn)}
    by_old_name: ByOldName = {}
    for column in table.columns:
        if converted is not None and column.name.lower() not in redefined:
            column = replace(column, type=with_collation(context.server, column.type, converted))
        by_old_name[column.name.lower()] = column

    def current(name: str) -> ddl.ColumnDefinition:
        column = by_old_name.get(name.lower())
        if column is None:
            raise NotKnown(f"the column {name} is not known")
        return column

    for number, spec in enumerate(specs):
        match spec:
            case ddl.DropColumn(name):
                current(name)
                by_old_name[name.lower()] = None
            case ddl.ChangeColumn(name):
                current(name)
                by_old_name[name.lower()] = defined[number][0]
            case ddl.RenameColumn(name, to):
                by_old_name[name.lower()] = replace(current(name), name=to)
            case ddl.SetColumnVisibility(name, invisible):
                by_old_name[name.lower()] = replace(current(name), invisible=invisible)
    new_names = {spec.column.name.lower(): spec.name.lower() for spec in specs if isinstance(spec, ddl.ChangeColumn)}
    for spec in specs:
        if isinstance(spec, ddl.SetDefault):  # in any position: the column under its new name
            old = new_names.get(spec.name.lower(), spec.name.lower())
            column, default = current(old), spec.default
            if column.auto_increment or column.generated is not None or (default or "NULL").upper() == "NULL":
                default = None
            plain = None if default is None else without_mode(default, context.session.sql_mode)
            lost = context.server.mariadb and is_moment(column.default)
            by_old_name[old] = replace(column, default=plain, on_update=None if lost else column.on_update)
    return by_old_name


def _in_order(
    table: ddl.TableDefinition, specs: Sequence[ddl.Spec], defined: Defined, by_old_name: ByOldName
) -> list[ddl.ColumnDefinition]:
    """Return the columns in their new order. Raises CannotTrack."""
    columns = [column for one in table.columns if (column := by_old_name[one.name.lower()]) is not None]
    for number, spec in enumerate(specs):
        if not isinstance(spec, ddl.AddColumn | ddl.ChangeColumn) or (
            isinstance(spec, ddl.ChangeColumn) and spec.place is None
        ):
            continue
        column = by_old_name[spec.name.lower()] if isinstance(spec, ddl.ChangeColumn) else defined[number][0]
        if column is None:
            raise CannotTrack("a column is changed and dropped in one statement")
        columns = [one for one in columns if one is not column]
        match spec.place:
            case ddl.First():
                columns.insert(0, column)
            case ddl.After(name):
                places = [place for place, one in enumerate(columns) if one.name.lower() == name.lower()]
                if not places:
                    raise NotKnown(f"the column {name} is not known")
                columns.insert(places[0] + 1, column)
            case None:
                columns.append(column)
    twice = [name for name, number in Counter(one.name.lower() for one in columns).items() if number > 1]
    if twice:
        raise CannotTrack(f"the column {twice[0]} exists already")
    return columns


def _with_new_names(column: ddl.ColumnDefinition, names: dict[str, str]) -> ddl.ColumnDefinition:
    """Return the column with the new names of other columns in its expressions."""
    return replace(
        column,
        generated=None if column.generated is None else _renamed(column.generated, names),
        checks=tuple(replace(check, expression=_renamed(check.expression, names)) for check in column.checks),
    )


def _renamed(code: ddl.Code, names: dict[str, str]) -> ddl.Code:
    changed = {old: new for old, new in names.items() if old != new.lower()}
    return with_names(code, changed) if changed else code


# Constraints
#
# PRIMARY KEY (id), KEY k (a, b), CHECK (a > 0):  DROP PRIMARY KEY, DROP a, ADD UNIQUE (b)  ─▶  KEY k (b), UNIQUE (b)


def _constraints_left(
    context: Context,
    table: ddl.TableDefinition,
    specs: Sequence[ddl.Spec],
    by_old_name: ByOldName,
    columns: Sequence[ddl.ColumnDefinition],
) -> Iterator[ddl.Constraint]:
    """Yield the remaining constraints of the table. `columns`: the new columns. Raises CannotTrack."""
    successors = _successors(by_old_name, columns)
    old = by_name(table.columns)
    names = {name: column.name for name, column in by_old_name.items() if column is not None}
    dropped = set(_dropped(table, specs))
    is_rename = all(isinstance(spec, ddl.RenameTo | ddl.MaintenanceClause) for spec in specs)
    for constraint in table.constraints:
        if constraint in dropped:
            continue
        match constraint:
            case ddl.KeyDefinition():
                parts = tuple(
                    part if part.expression is None else replace(part, expression=_renamed(part.expression, names))
                    for part in constraint.parts
                )
                left = carried(context.server, old, replace(constraint, parts=parts), successors)
                if left is not None:
                    left = left if is_rename else without_hash(context.server, left)
                    yield _altered_key(context, left, specs)
            case ddl.ForeignKey():
                yield replace(constraint, columns=tuple(names.get(name.lower(), name) for name in constraint.columns))
            case ddl.CheckConstraint():
                gone = [name for name, column in by_old_name.items() if column is None]
                if not any(mentions(constraint.expression, name) for name in gone):
                    yield replace(_altered_check(constraint, specs), expression=_renamed(constraint.expression, names))


def _successors(by_old_name: ByOldName, columns: Sequence[ddl.ColumnDefinition]) -> Successors:
    """Return the column that each name in a key now refers to.

    After DROP a, ADD a int a key over `a` refers to the new column, as servers resolve a key's columns by name.
    """
    old_names = {id(column): name for name, column in by_old_name.items() if column is not None}
    successors: Successors = {}
    for column in columns:
        name = old_names.get(id(column), column.name.lower())
        successors.setdefault(name, (column, id(column) not in old_names))
    return successors


def _dropped(table: ddl.TableDefinition, specs: Sequence[ddl.Spec]) -> Iterator[ddl.Constraint]:
    for spec in specs:
        if isinstance(spec, ddl.DropKey | ddl.DropForeignKey | ddl.DropConstraint):
            dropped = [constraint for constraint in table.constraints if _is_meant(spec, constraint)]
            if not dropped and not _may_be_missing(table, spec):
                raise NotKnown(f"the key or constraint {spec.name} is not known")
            yield from dropped


def _is_meant(spec: ddl.DropKey | ddl.DropForeignKey | ddl.DropConstraint, constraint: ddl.Constraint) -> bool:
    match spec, constraint:
        case (
            (ddl.DropKey(), ddl.KeyDefinition())
            | (ddl.DropForeignKey(), ddl.ForeignKey())
            | (ddl.DropConstraint(), ddl.ForeignKey() | ddl.CheckConstraint())
        ):
            return _is_named(constraint, spec.name)
        case ddl.DropConstraint(), ddl.KeyDefinition(kind):
            return kind in (ddl.KeyKind.PRIMARY, ddl.KeyKind.UNIQUE) and _is_named(constraint, spec.name)
    return False


def _may_be_missing(table: ddl.TableDefinition, spec: ddl.Spec) -> bool:
    """Return True if a key or constraint that the model lacks may be dropped, as the format of rows does not use it."""
    if isinstance(spec, ddl.DropForeignKey):
        return not keeps_foreign_keys(table)  # the server ignores the clause
    # The server may have dropped the index of a foreign key earlier, which the log does not show.
    return isinstance(spec, ddl.DropKey) and any(isinstance(one, ddl.ForeignKey) for one in table.constraints)


def _is_named(constraint: ddl.Constraint, name: str) -> bool:
    own = constraint.name if isinstance(constraint, ddl.KeyDefinition) else constraint.constraint
    return str(own).lower() == name.lower()


def _altered_key(context: Context, key: ddl.KeyDefinition, specs: Sequence[ddl.Spec]) -> ddl.KeyDefinition:
    altered = key
    for spec in specs:
        match spec:
            case ddl.RenameKey(name, to) if _is_named(key, name):
                altered = replace(altered, name=to)
            case ddl.SetKeyVisibility(name, invisible) if _is_named(key, name):
                hidden = (context.server.can.key_visibility[True], "")
                options = tuple(option for option in altered.options if option != hidden)
                altered = replace(altered, options=(*options, *[hidden] * invisible))
    return altered


def _altered_check(check: ddl.CheckConstraint, specs: Sequence[ddl.Spec]) -> ddl.CheckConstraint:
    for spec in specs:
        if isinstance(spec, ddl.EnforceCheck) and _is_named(check, spec.name):
            check = replace(check, enforced=spec.enforced)
    return check


def _new_constraints(context: Context, specs: Sequence[ddl.Spec], defined: Defined) -> Iterator[ddl.Constraint]:
    """Yield the new constraints in the order of the clauses."""
    for number, spec in enumerate(specs):
        if isinstance(spec, ddl.AddConstraint):
            yield resolved_constraint(context, spec.constraint)
        elif number in defined:
            yield from defined[number][1]
