"""What was done to a ghost table, said of the real one; and whether that comes to the same there.

    ALTER TABLE `_t_gho` ADD COLUMN c int, ADD FOREIGN KEY (p) REFERENCES `_t_gho` (id)
 ─▶ ALTER TABLE `t`      ADD COLUMN c int, ADD FOREIGN KEY (p) REFERENCES `t` (id)

A ghost is altered while it is empty, and the tool then copies rows column by column. To alter the real table with its
rows in it gives the same definition always, and the same rows unless (`not_repeatable`)
- a column is new whose values are made when a row is copied: AUTO_INCREMENT, the time, the value of a function;
- a name is given up and used again: the tool copies the old values into the new column, ALTER does not;
- a column is renamed by RENAME COLUMN, which not every tool understands: pt-online-schema-change 3.2.1 copies nothing
  then. CHANGE they know; gh-ost asks whether it means a renamed column, and only with --skip-renamed-columns, which
  cannot be seen in the log, copies nothing;
- rows go with partitions, or a table of another place takes part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.mysql.identifiers import TableName

Change: TypeAlias = ddl.AlterTable | ddl.CreateIndex | ddl.DropIndex
"""A statement that changes a table's definition."""

_OF_ROWS: Final = (
    *(ddl.DropPartitions, ddl.TruncatePartitions, ddl.ExchangePartition, ddl.PartitionToTable),
    *(ddl.TableToPartition, ddl.SwapTablespace, ddl.RenameTo),
)
_CONSTANT: Final = re.compile(
    r"""NULL | TRUE | FALSE | [-+]?[0-9.]+(?:E[-+]?[0-9]+)? | 0[XB][0-9A-F]+
      | (?:N|B|X|_[A-Z0-9]+\s*|(?:DATE|TIME|TIMESTAMP)\s*)? (?:'[\s\S]*'|"[\s\S]*")""",
    re.IGNORECASE | re.VERBOSE,
)


def about_real(change: Change, ghost: TableName, real: TableName) -> Change:
    """Return the change as one of the real table, which is also what a reference to the ghost means."""
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


def not_repeatable(changes: Iterable[Change]) -> str | None:
    """Say why the changes, made to the real table with its rows, may not give the rows that the ghost has."""
    given_up: set[str] = set()
    for change in changes:
        specs = change.specs if isinstance(change, ddl.AlterTable) else ()
        names = [_names(spec) for spec in specs]
        given_up |= {gone for gone, _ in names if gone}
        for spec in specs:
            if isinstance(spec, _OF_ROWS):
                return f"{type(spec).__name__} on it concerns rows"
            if isinstance(spec, ddl.RenameColumn):
                return f"RENAME COLUMN {spec.name}: whether its values were copied is not in the log"
            if isinstance(spec, ddl.AddColumn) and (why := _made_when_copied(spec.column)):
                return f"the values of the new column {spec.column.name} were made when rows were copied ({why})"
        if again := sorted(given_up & {used for _, used in names if used}):
            return f"the column {again[0]} is a new one, and the tool has copied the values of an older one into it"
    return None


def _names(spec: ddl.Spec) -> tuple[str | None, str | None]:
    """Return the names of columns, in lower case, that a change gives up, and that it uses anew."""
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
    if column.on_update is not None:  # rows that were changed while the tool ran have the time of that
        return "ON UPDATE"
    if column.default is not None:
        return None if _CONSTANT.fullmatch(column.default) else f"DEFAULT {column.default}"
    # Without explicit_defaults_for_timestamp the first one has the current time as its default.
    return "a TIMESTAMP without DEFAULT" if column.type.name == "timestamp" and column.nullable is not True else None
