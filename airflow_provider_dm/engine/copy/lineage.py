"""Which columns of a table are still what they were, by the DDL that its log has behind a place. Pure.

Two definitions do not tell: a column that has the name and the type of another one may have its values, too.

    before   id, v, old_v        CHANGE v v_1, CHANGE old_v v         renamed: nobody knows by names which is which
                                 DROP v, ADD v                        v is another column now, with values of its own
                                 DROP old_v; MODIFY v varchar(99)     v is what it was, and may hold more

Told are columns that are there throughout and are only made to hold more: then a row that nobody has written to since
has the values that it had, and one that has others is in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.server import CannotTrack, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    AlterTable,
    ChangeColumn,
    ColumnDefinition,
    CreateIndex,
    CreateTable,
    CreateTableLike,
    DropColumn,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropKey,
    DropPartitions,
    EnforceCheck,
    RenameKey,
    RenameTables,
    RenameTo,
    Repartition,
    SetColumnVisibility,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    Statement,
    TruncatePartitions,
    TruncateTable,
    Upkeep,
)
from airflow_provider_dm.engine.ddl.stored_names import as_stored, stored_name
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Table

INTEGERS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
"""And their bits."""
TEXTS: Final = ("varchar", "tinytext", "text", "mediumtext", "longtext")
BLOBS: Final = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_HARMLESS: Final = (
    AddConstraint, DropConstraint, DropForeignKey, DropKey, DropPartitions, EnforceCheck, RenameKey, Repartition,
    SetColumnVisibility, SetDefault, SetKeyVisibility, SetOptions, TruncatePartitions, Upkeep,
)  # fmt: skip
"""Clauses after which columns are what they were. Which keys there are is looked at in the table that they make. Rows
that go with a partition, or by TRUNCATE, go in the target where the sync comes to that."""


class NotTold(Exception):
    """A table to which something was done that leaves open what its columns are; the argument says why."""


@dataclass(frozen=True)
class Logged:
    """A statement of the log, as far as it is read, and what it ran with."""

    said: Statement | NotRead | Unreadable
    session: SessionDefaults


@dataclass(frozen=True)
class Lineage:
    """The fate of a table's columns. `kept`: those of before that are there, by their names in lower case."""

    table: Table
    kept: frozenset[str]


def lineage(name: TableName, before: Tracker, logged: Iterable[Logged]) -> Lineage:
    """Return what the statements make of a table. `before`: it as it was in front of them. Raises NotTold."""
    try:
        tracker, table = before, before.table(name)
        keys = table.unique_keys
        kept = frozenset(one.name.lower() for one in table.columns)
        for one in logged:
            statement = _about(one.said, name, tracker)
            if statement is None:
                continue
            after = tracker.after(statement, one.session)
            kept = _still(kept, statement, tracker, name)
            _check_kept(kept, table, after.table(name))
            tracker, table = after, after.table(name)
            if not set(keys) <= set(table.unique_keys):  # rows may have been let in that take the places of others
                raise NotTold("it has lost a key")
    except CannotTrack as error:
        raise NotTold(str(error)) from None
    if set(keys) != set(table.unique_keys):
        raise NotTold("it has another key")
    return Lineage(table, kept)


def holds_more(now: Column, before: Column) -> bool:
    """Tell whether a column has all values that it had, each as it was, and room for more."""
    alike = ("column_type", "numeric_precision", "octet_length", "data_type", "nullable", "position", "invisible")
    if replace(before, **{one: getattr(now, one) for one in alike}) != now or before.nullable > now.nullable:
        return False
    ours, theirs = before.data_type.lower(), now.data_type.lower()
    if before.column_type.lower() == now.column_type.lower():
        return before.octet_length == now.octet_length
    if ours in INTEGERS and theirs in INTEGERS:
        return before.unsigned == now.unsigned and INTEGERS[ours] <= INTEGERS[theirs]
    for family in (TEXTS, BLOBS):
        if ours in family and theirs in family:
            return (before.octet_length or 0) <= (now.octet_length or 0)
    if ours == theirs == "decimal":
        return before.unsigned == now.unsigned and (before.numeric_precision or 0) <= (now.numeric_precision or 0)
    return False


def created(
    statements: Iterable[Statement | NotRead | Unreadable], altered: Collection[TableName]
) -> frozenset[TableName]:
    """Return the tables that statements of a log have made, and not of one of these.

    >>> from airflow_provider_dm.engine.ddl.parse import parse
    >>> log = "CREATE TABLE a (i int)", "CREATE TABLE b LIKE c", "RENAME TABLE d TO e, a TO d", "CREATE TABLE f LIKE d"
    >>> sorted(name.table for name in created([parse(sql, 0, "s") for sql in log], [TableName("s", "c")]))
    ['d', 'f']
    """
    made: set[TableName] = set()
    for statement in statements:
        match statement:
            case CreateTable(name, if_not_exists=False):
                made.add(name)
            case CreateTableLike(name, like, if_not_exists=False) if like not in altered:
                made.add(name)
            case RenameTables(pairs):
                made = _renamed(made, pairs)
            case AlterTable(table, specs):
                made = _renamed(made, [(table, one.table) for one in specs if isinstance(one, RenameTo)])
            case CreateIndex() | DropIndex() | TruncateTable():
                pass
            case NotRead():
                made.difference_update(statement.about.tables)
            case Unreadable():
                made.clear()
            case _:
                made.difference_update(statement.tables)
    return frozenset(made)


def _renamed(made: set[TableName], pairs: Iterable[tuple[TableName, TableName]]) -> set[TableName]:
    for old, new in pairs:
        made = made - {old} | {new} if old in made else made - {new}
    return made


def _about(said: Statement | NotRead | Unreadable, name: TableName, tracker: Tracker) -> Statement | None:
    """Return the statement if it is about the table. Raises NotTold where it is, or may be, and not understood."""
    if isinstance(said, NotRead):
        if name in (stored_name(one, tracker.server) for one in said.about.tables):
            raise NotTold("a statement about it is not understood")
        return None
    if isinstance(said, Unreadable):
        raise NotTold("a statement of the log is not understood")
    statement = as_stored(said, tracker.server)
    if isinstance(statement, DropDatabase) and statement.name == name.schema:
        raise NotTold("it was dropped")
    if name not in statement.tables:
        return None
    if not isinstance(statement, AlterTable | CreateIndex | DropIndex | TruncateTable):
        raise NotTold("it was replaced or renamed")
    return statement


def _still(kept: frozenset[str], statement: Statement, before: Tracker, name: TableName) -> frozenset[str]:
    """Return those of the columns that are there behind a statement. Raises NotTold."""
    known = {one.name.lower(): one for one in before.definition(name).columns}
    dropped: set[str] = set()
    for spec in statement.specs if isinstance(statement, AlterTable) else ():
        match spec:
            case DropColumn(column):
                dropped.add(column.lower())
            case AddColumn(column):
                _check_plain(column, None)
            case ChangeColumn(old, column):
                if old.lower() != column.name.lower():
                    raise NotTold(f"{old} was renamed to {column.name}")
                _check_plain(column, known.get(old.lower()))
            case _ if not isinstance(spec, _HARMLESS):
                raise NotTold(f"{type(spec).__name__} was a part of what was done to it")
    return kept - dropped


def _check_plain(column: ColumnDefinition, before: ColumnDefinition | None) -> None:
    numbered = column.auto_increment and not (before is not None and before.auto_increment)
    if numbered or column.generated is not None or (before is not None and before.generated is not None):
        raise NotTold(f"{column.name} is numbered or computed for the rows that are there")


def _check_kept(kept: frozenset[str], before: Table, now: Table) -> None:
    if before.has_foreign_keys != now.has_foreign_keys:
        raise NotTold("it has got or lost a foreign key")
    for one in before.columns:
        if one.name.lower() in kept and not holds_more(now.column(one.name), one):
            raise NotTold(f"{one.name} became {now.column(one.name).column_type}")
