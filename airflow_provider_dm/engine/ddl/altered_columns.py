"""What ALTER TABLE makes of the columns of a table, and in which order.

a b c:  DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c  ─▶  b c, then in the order of the text:  b d c ─▶  d c b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl.collations import BINARY, Collation
from airflow_provider_dm.engine.ddl.column_types import BLOBS, MEMBERS, TEXTS, with_collation
from airflow_provider_dm.engine.ddl.expressions import with_names, without_mode
from airflow_provider_dm.engine.ddl.resolve import Context, columns_as_said
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    After,
    ChangeColumn,
    Code,
    ColumnDefinition,
    Constraint,
    DropColumn,
    First,
    RenameColumn,
    SetColumnVisibility,
    SetDefault,
    Spec,
    TableDefinition,
)

Said = dict[int, tuple[ColumnDefinition, tuple[Constraint, ...]]]
"""Columns that the statement defines, resolved, and the constraints said with them, by the number of the part."""
Fates = dict[str, ColumnDefinition | None]
"""What the table's columns become, by their old names in lower case; None: dropped."""


def columns_said(context: Context, specs: Sequence[Spec], collation: Collation, converted: Collation | None) -> Said:
    """Return the columns that the parts define. `collation`: the table's new default; `converted`: see `altered`.

    Raises CannotTrack.
    """
    numbered = [(number, spec) for number, spec in enumerate(specs) if isinstance(spec, AddColumn | ChangeColumn)]
    columns = [spec.column for _, spec in numbered]
    resolved = columns_as_said(context, columns, collation)
    if converted is not None:  # it is done to new columns too, whatever charset they name
        of_characters = [one.type.charset not in (None, BINARY) for one, _ in resolved]
        for column, is_text in zip(columns, of_characters, strict=True):
            odd = column.type.binary or column.type.name in (*MEMBERS, *TEXTS, "json")
            if (is_text and odd) or column.type.name in BLOBS:  # MySQL makes a TINYTEXT of a TEXT, and so on
                raise CannotTrack(f"CONVERT TO CHARACTER SET and {column.type.name} for {column.name} in one statement")
        columns = [
            replace(column, type=replace(column.type, charset=None, collation=None)) if is_text else column
            for column, is_text in zip(columns, of_characters, strict=True)
        ]
        resolved = columns_as_said(context, columns, collation)
    return {number: one for (number, _), one in zip(numbered, resolved, strict=True)}


def fates_of(
    context: Context, table: TableDefinition, specs: Sequence[Spec], said: Said, converted: Collation | None
) -> Fates:
    """Return what becomes of the table's columns. Raises CannotTrack for one that is not there."""
    changed = [spec.name.lower() for spec in specs if isinstance(spec, DropColumn | ChangeColumn | RenameColumn)]
    if len(changed) > len(set(changed)):  # in MariaDB the second may be about a column that is new
        raise CannotTrack("a column is changed twice in one statement")
    said_anew = {spec.name.lower() for spec in specs if isinstance(spec, DropColumn | ChangeColumn)}
    fates: Fates = {}
    for column in table.columns:
        if converted is not None and column.name.lower() not in said_anew:
            column = replace(column, type=with_collation(context.server, column.type, converted))
        fates[column.name.lower()] = column

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
            case SetColumnVisibility(name, invisible):
                fates[name.lower()] = replace(current(name), invisible=invisible)
    new_names = {spec.column.name.lower(): spec.name.lower() for spec in specs if isinstance(spec, ChangeColumn)}
    for spec in specs:
        if isinstance(spec, SetDefault):  # wherever it stands, it is about what the column becomes, by its new name
            old = new_names.get(spec.name.lower(), spec.name.lower())
            column, default = current(old), spec.default
            if column.auto_increment or column.generated is not None or (default or "NULL").upper() == "NULL":
                default = None
            plain = None if default is None else without_mode(default, context.session.sql_mode)
            fates[old] = replace(column, default=plain)
    return fates


def in_order(table: TableDefinition, specs: Sequence[Spec], said: Said, fates: Fates) -> list[ColumnDefinition]:
    """Return the columns in their new order."""
    columns = [column for one in table.columns if (column := fates[one.name.lower()]) is not None]
    for number, spec in enumerate(specs):
        if not isinstance(spec, AddColumn | ChangeColumn) or (isinstance(spec, ChangeColumn) and spec.place is None):
            continue
        column = fates[spec.name.lower()] if isinstance(spec, ChangeColumn) else said[number][0]
        if column is None:
            raise CannotTrack("a column is changed and dropped in one statement")
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


def with_new_names(column: ColumnDefinition, names: dict[str, str]) -> ColumnDefinition:
    """Return the column with other columns under their new names in its expressions."""
    return replace(
        column,
        generated=None if column.generated is None else renamed(column.generated, names),
        checks=tuple(replace(one, expression=renamed(one.expression, names)) for one in column.checks),
    )


def renamed(code: Code, names: dict[str, str]) -> Code:
    changed = {old: new for old, new in names.items() if old != new.lower()}
    return with_names(code, changed) if changed else code
