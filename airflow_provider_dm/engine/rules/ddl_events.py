"""The event types of the binlog event filter for DDL statements.

A statement is split into parts, each of which does one thing: one clause of ALTER TABLE, one table of DROP, one pair of
RENAME. A part has the event type that DM gives it; some parts have a second one, which is in DM's list of types but
which DM never assigns. `alter table` is the type of all clauses without a type of their own (`drop column` has one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.column_types import BLOBS, TEXT_SIZES, WIDTHS
from airflow_provider_dm.engine.ddl.keys import Columns
from airflow_provider_dm.engine.mysql.identifiers import TableName

_INTEGERS: Final = tuple(WIDTHS)
"""From the narrowest to the widest."""
_TEXTS: Final = TEXT_SIZES | BLOBS
_STRINGS: Final = frozenset({*_TEXTS, "char", "varchar", "binary", "varbinary"})
_OPTIONS: Final = {
    "CHARSET": ("modify charset", "modify table charset and collate"),
    "COLLATE": ("modify collation", "modify table charset and collate"),
    "ENGINE": ("modify storage engine",),
}
_OTHER_OPTIONS: Final = {"COMMENT": "modify table comment", "AUTO_INCREMENT": "rebase auto id"}
_PARTITIONS: Final = {
    "REORGANIZE": "reorganize table partition",
    "REBUILD": "rebuild table partition",
    "COALESCE": "coalesce table partition",
}
_WHOLE: Final[Mapping[type, tuple[str, ...]]] = {
    ddl.CreateDatabase: ("create database",),
    ddl.AlterDatabase: ("alter database", "modify schema charset and collate"),
    ddl.DropDatabase: ("drop database",),
    **dict.fromkeys((ddl.CreateTable, ddl.CreateTableLike, ddl.CreateTableSelect), ("create table",)),
    ddl.TruncateTable: ("truncate table",),
    ddl.CreateIndex: ("create index",),
    ddl.DropIndex: ("drop index",),
}
"""Statements with exactly one part."""
_SPECS: Final[Mapping[type, tuple[str, ...]]] = {
    ddl.RenameColumn: ("rename column",),
    ddl.RenameKey: ("rename index",),
    ddl.RenameTo: ("rename table",),
    ddl.DropColumn: ("drop column",),
    ddl.AddConstraint: ("modify constraint",),
    ddl.DropPartitions: ("drop table partition",),
    ddl.TruncatePartitions: ("truncate table partition",),
    ddl.ExchangePartition: ("exchange table partition",),
    ddl.ConvertCharset: ("modify charset", "modify table charset and collate"),
    ddl.AddColumn: ("alter table", "add column"),
    ddl.DropForeignKey: ("alter table", "drop foreign key"),
    ddl.SetKeyVisibility: ("alter table", "alter index visibility"),
}
"""Clauses of ALTER TABLE whose type does not depend on details."""


@dataclass(frozen=True)
class StatementPart:
    """A part of a statement: a statement with this part alone, its event types, and its tables (or its schema)."""

    statement: ddl.Statement
    events: tuple[str, ...]
    names: tuple[TableName, ...]

    def shown(self) -> str:
        return self.events[0] if self.events else "a statement without an event type"


def join_parts(parts: Sequence[ddl.Statement]) -> ddl.Statement | None:
    """Return one statement with all of these parts of a statement; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    match parts[0]:
        case ddl.AlterTable() as first:
            specs = (spec for part in parts if isinstance(part, ddl.AlterTable) for spec in part.specs)
            return replace(first, specs=tuple(specs))
        case ddl.DropTables() as first:
            return replace(first, tables=tuple(name for part in parts for name in part.tables))
        case ddl.RenameTables() as first:
            pairs = (pair for part in parts if isinstance(part, ddl.RenameTables) for pair in part.pairs)
            return replace(first, pairs=tuple(pairs))
        case first:
            raise ValueError(f"a statement with exactly one part: {first}")


def parts_of(statement: ddl.Statement, before: Columns, after: Columns) -> tuple[StatementPart, ...]:
    """Return the parts of a statement. `before`, `after`: the columns of the altered table, as far as known."""
    match statement:
        case ddl.AlterTable(table, specs):
            return tuple(
                StatementPart(replace(statement, specs=(spec,)), _events_of(spec, before, after), (table, *_more(spec)))
                for spec in specs
            )
        case ddl.DropTables(tables):
            return tuple(StatementPart(replace(statement, tables=(one,)), ("drop table",), (one,)) for one in tables)
        case ddl.RenameTables(pairs):
            return tuple(StatementPart(replace(statement, pairs=(pair,)), ("rename table",), pair) for pair in pairs)
        case ddl.CreateDatabase(name) | ddl.AlterDatabase(name) | ddl.DropDatabase(name):
            return (StatementPart(statement, _WHOLE[type(statement)], (TableName(name, ""),)),)
        case _:
            return (StatementPart(statement, _WHOLE.get(type(statement), ()), statement.tables),)


def _more(spec: ddl.Spec) -> tuple[TableName, ...]:
    return (spec.table,) if isinstance(spec, ddl.RenameTo) else ()


def _events_of(spec: ddl.Spec, before: Columns, after: Columns) -> tuple[str, ...]:
    match spec:
        case ddl.ChangeColumn(name, column, place):
            old, new = before.get(name.lower()), after.get(column.name.lower())
            return (_change_of(old, new, moved=place is not None),)
        case ddl.DropKey(name):
            return ("drop primary key",) if name.upper() == "PRIMARY" else ("drop index",)
        case ddl.SetDefault(_, default):
            return ("modify default value",) if default is None else ("modify default value", "set default value")
        case ddl.AddConstraint(ddl.KeyDefinition(ddl.KeyKind.PRIMARY)):
            return ("modify constraint", "add primary key")
        case ddl.AddConstraint(ddl.ForeignKey()):
            return ("modify constraint", "add foreign key")
        case ddl.Repartition(what):
            return _of_partitions(what)
        case ddl.SetOptions(options):
            return next((_OPTIONS[name] for name, _ in options if name in _OPTIONS), _of_other(options))
        case _:
            return _SPECS.get(type(spec), ("alter table",))


def _of_other(options: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    names = {name for name, _ in options}
    more = [event for name, event in _OTHER_OPTIONS.items() if name in names]
    return ("alter table", *more)


def _of_partitions(what: str) -> tuple[str, ...]:
    words = what.upper().split()
    first = words[0] if words else ""
    if first in _PARTITIONS:
        return (_PARTITIONS[first],)
    if first == "ADD":
        return ("alter table", "add table partition")
    if first == "REMOVE":
        return ("alter table", "remove table partitioning")
    return ("alter table", "alter table partitioning") if words[:2] == ["PARTITION", "BY"] else ("alter table",)


def _change_of(old: ddl.ColumnDefinition | None, new: ddl.ColumnDefinition | None, *, moved: bool) -> str:
    """Return the event type of a column's change: the first difference in DM's order."""
    if old is None or new is None:
        return "alter table"
    type_change = _type_change(old.type, new.type)
    if type_change is not None:
        return type_change
    if old.auto_increment and not new.auto_increment:
        return "remove auto increment"
    if _default(old) != _default(new):
        return "modify default value"
    if old.type.charset != new.type.charset:
        return "modify charset"
    if old.type.collation != new.type.collation:
        return "modify collation"
    if moved:
        return "modify columns order"
    return "alter table" if old.name.lower() == new.name.lower() else "rename column"


def _default(column: ddl.ColumnDefinition) -> str | None:
    return None if column.default is None or column.default.upper() == "NULL" else column.default


def _type_change(old: ddl.ColumnType, new: ddl.ColumnType) -> str | None:
    """Return the event type of a type change that may lose values; None if it cannot, or the type is unchanged."""
    if old.name == new.name:
        return _same_type_change(old, new)
    if {old.name, new.name} == {"char", "varchar"}:
        return "modify column"
    if old.name in _STRINGS and new.name in _STRINGS:
        return "modify column" if _is_shorter(old, new) else None
    if old.name in _INTEGERS and new.name in _INTEGERS:
        narrower = _INTEGERS.index(new.name) < _INTEGERS.index(old.name) or old.unsigned != new.unsigned
        return "value range decrease" if narrower else None
    return "modify column"


def _same_type_change(old: ddl.ColumnType, new: ddl.ColumnType) -> str | None:
    match old.name:
        case "decimal":
            same = _numbers(old) == _numbers(new) and old.unsigned == new.unsigned
            return None if same else "precision decrease"
        case "enum" | "set":
            return None if new.arguments[: len(old.arguments)] == old.arguments else "value range decrease"
        case name if name in _INTEGERS:
            return None if old.unsigned == new.unsigned else "precision decrease"
        case "char":
            return None
        case "binary":
            return None if _numbers(old) == _numbers(new) else "precision decrease"
        case _:
            return "value range decrease" if _is_shorter(old, new) or old.unsigned != new.unsigned else None


def _is_shorter(old: ddl.ColumnType, new: ddl.ColumnType) -> bool:
    return any(after < before for before, after in zip(_numbers(old), _numbers(new), strict=False))


def _numbers(column: ddl.ColumnType) -> tuple[int, ...]:
    """Return the length of a type, or its precision and scale."""
    if column.name in _TEXTS:
        return (_TEXTS[column.name],)
    numbers = tuple(int(argument) for argument in column.arguments if argument.isdigit())
    if column.name == "decimal":
        return (*numbers, *(10, 0)[len(numbers) :])
    return numbers or (0 if column.name in ("time", "datetime", "timestamp") else 1,)
