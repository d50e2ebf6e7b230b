"""Changes of a ghost table, rewritten for the real table; and whether they have the same effect there.

    ALTER TABLE `_t_gho` ADD COLUMN c int, ADD FOREIGN KEY (p) REFERENCES `_t_gho` (id)
 ─▶ ALTER TABLE `t`      ADD COLUMN c int, ADD FOREIGN KEY (p) REFERENCES `t` (id)

A ghost is altered while it is empty, and the tool then copies rows column by column. Altering the real table, with its
rows, always gives the same definition, and the same rows unless (`not_repeatable`)
- a new column has values that are computed when a row is copied: AUTO_INCREMENT, the time, the value of a function;
- a name is freed and used again: the tool copies the old values into the new column, ALTER does not;
- a column is renamed by RENAME COLUMN, which not every tool supports: pt-online-schema-change 3.2.1 then copies
  nothing.
  CHANGE is supported; gh-ost asks whether it means a renamed column, and copies nothing only with
  --skip-renamed-columns, which is not visible in the log;
- rows are dropped with partitions, or a table elsewhere is involved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.mysql.identifiers import TableName

GhostChange: TypeAlias = ddl.AlterTable | ddl.CreateIndex | ddl.DropIndex
"""A statement that changes the definition of a table."""

_OF_ROWS: Final = (
    *(ddl.DropPartitions, ddl.TruncatePartitions, ddl.ExchangePartition, ddl.PartitionToTable),
    *(ddl.TableToPartition, ddl.SwapTablespace, ddl.RenameTo),
)
_CONSTANT: Final = re.compile(
    r"""NULL | TRUE | FALSE | [-+]?[0-9.]+(?:E[-+]?[0-9]+)? | 0[XB][0-9A-F]+
      | (?:N|B|X|_[A-Z0-9]+\s*|(?:DATE|TIME|TIMESTAMP)\s*)? (?:'[\s\S]*'|"[\s\S]*")""",
    re.IGNORECASE | re.VERBOSE,
)


def about_real(change: GhostChange, ghost: TableName, real: TableName) -> GhostChange:
    """Return the change for the real table; references to the ghost become references to the real table."""
    if isinstance(change, ddl.AlterTable):
        specs = tuple(_spec_about_real(spec, ghost, real) for spec in change.specs)
        return replace(change, table=real, specs=specs)
    return replace(change, table=real)


def _spec_about_real(spec: ddl.Spec, ghost: TableName, real: TableName) -> ddl.Spec:
    def referring(reference: ddl.Reference) -> ddl.Reference:
        return replace(reference, table=real) if reference.table == ghost else reference

    def column(made: ddl.ColumnDefinition) -> ddl.ColumnDefinition:
        return made if made.references is None else replace(made, references=referring(made.references))

    match spec:
        case ddl.AddConstraint(ddl.ForeignKey() as key):
            return replace(spec, constraint=replace(key, references=referring(key.references)))
        case ddl.AddColumn(made):
            return replace(spec, column=column(made))
        case ddl.ChangeColumn(_, made):
            return replace(spec, column=column(made))
        case _:
            return spec


def not_repeatable(changes: Iterable[GhostChange]) -> str | None:
    """Return why the changes, applied to the real table, may not give the ghost's rows; None if they do."""
    given_up: set[str] = set()
    for change in changes:
        specs = change.specs if isinstance(change, ddl.AlterTable) else ()
        names = [_names(spec) for spec in specs]
        given_up |= {old for old, _ in names if old}
        for spec in specs:
            if isinstance(spec, _OF_ROWS):
                return f"{type(spec).__name__} on it changes rows"
            if isinstance(spec, ddl.RenameColumn):
                return f"RENAME COLUMN {spec.name}: the log does not show whether its values were copied"
            if isinstance(spec, ddl.AddColumn) and (why := _made_when_copied(spec.column)):
                return f"the values of the new column {spec.column.name} were computed when rows were copied ({why})"
        if again := sorted(given_up & {used for _, used in names if used}):
            return f"the column {again[0]} is new, and the tool has copied the values of an older column into it"
    return None


def _names(spec: ddl.Spec) -> tuple[str | None, str | None]:
    """Return the column names, in lower case, that a change frees, and that it uses for a new column."""
    match spec:
        case ddl.DropColumn(name):
            return name.lower(), None
        case ddl.AddColumn(made):
            return None, made.name.lower()
        case ddl.ChangeColumn(name, made) if name.lower() != made.name.lower():
            return name.lower(), made.name.lower()
        case _:
            return None, None


def _made_when_copied(column: ddl.ColumnDefinition) -> str | None:
    if column.generated is not None:
        return None
    if column.auto_increment:
        return "AUTO_INCREMENT"
    if column.on_update is not None:  # rows changed while the tool ran have the time of the change
        return "ON UPDATE"
    if column.default is not None:
        return None if _CONSTANT.fullmatch(column.default) else f"DEFAULT {column.default}"
    # Without explicit_defaults_for_timestamp the first TIMESTAMP has the current time as its default.
    return "a TIMESTAMP without DEFAULT" if column.type.name == "timestamp" and column.nullable is not True else None
