"""The tables of a source as they were where an incremental task begins, which may lie in the past.

`meta` says that the target stands at the start. So if a table was altered since, its definition there is the target's
of today, as DM takes it; else the source's of today. Whether it was altered the log tells, in which all of it stands:

    the first statement about a table, behind the start   the table at the start
    none                                                  the source's of today
    ALTER, DROP, TRUNCATE, RENAME to another name …       the target's of today, under the source's name
    CREATE, RENAME from another name                      not there; it comes by that statement

The log is only looked into where the source's tables of today are not those of the target: a start at the end of the
log, or behind all DDL, costs nothing. Where it cannot be seen whole (a private log is bounded) what is held is looked
at; what that does not show, the table maps of the log do (DM-5010).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    Key,
    RenameTables,
    RenameTo,
    Statement,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.stored_names import stored_name
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import read_ddl
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import list_tables, read_tables
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.target.schema_by_hand import definition_at
from airflow_provider_dm.engine.target.table_definitions import said


class PastUnknown(DmError):
    """A table was altered since the start, and neither server's definition of today is what it was there."""

    source: str
    table: str
    where: str

    code = "DM-6037"
    scope = Scope.UPSTREAM
    what = (
        "{source}: {table} was altered since the start of the task (`meta`), at {where}, and the target's table is of "
        "another kind of server: what its rows were at the start is not known."
    )
    hint = (
        "Give its definition at the start by `dmctl binlog-schema update TASK SCHEMA TABLE FILE`, and run the task "
        "again; or leave the table out by block-allow-list."
    )


@dataclass(frozen=True)
class Known:
    """A table as one server shows it: its model, and its CREATE TABLE under the source's name for it."""

    table: Table
    create: str


@dataclass(frozen=True)
class First:
    """The first statement about a table. `there`: the table was there in front of it."""

    there: bool
    at: Location


def tables_of_target(
    connection: Connection, today: Collection[TableName], schemas: Collection[str], rules: SubtaskRules
) -> dict[TableName, Known]:
    """Return the target's tables by the names that the source has for them, or may have had.

    `today`: the source's tables; `schemas`: all of its schemas, of which a table may have been dropped since.
    """
    route = rules.router.route
    there = set(list_tables(connection))
    names = {name: route(name) for name in today if route(name) in there}
    taken = {route(name) for name in today}
    for table in sorted(there - taken):
        for schema in schemas:
            name = TableName(schema, table.table)
            if rules.block_allow.allows(name) and route(name) == table:
                names[name] = table
    tables = read_tables(connection, names.values())
    return {name: _known(connection, name, tables[target]) for name, target in names.items()}


def _known(connection: Connection, name: TableName, table: Table) -> Known:
    found = definition_at(connection, name, place=table.name)
    return Known(replace(table, name=name), said(found))


def first_statements(statements: Iterable[DdlStatement], server: Server) -> dict[TableName, First]:
    """Return for each table the first statement about it, by the name that the source's server has for it.

    What is not understood stops the sync where it lies.
    """
    found: dict[TableName, First] = {}
    for ddl in statements:
        said = read_ddl(ddl)
        if isinstance(said, NotRead):
            touched: Iterable[tuple[TableName, bool]] = [(name, True) for name in said.about.tables]
        elif isinstance(said, Unreadable):
            continue
        else:
            touched = _touched(said)
        for name, there in touched:
            found.setdefault(stored_name(name, server), First(there, ddl.at))
    return found


def _touched(statement: Statement) -> Iterator[tuple[TableName, bool]]:
    """Yield the tables of a statement, and whether each was there in front of it."""
    match statement:
        case (
            CreateTable(name, if_not_exists=maybe, or_replace=replaces)
            | CreateTableLike(name, if_not_exists=maybe, or_replace=replaces)
            | CreateTableSelect(name, if_not_exists=maybe, or_replace=replaces)
        ):
            if not (maybe or replaces):
                yield name, False
        case RenameTables(pairs):
            for old, new in pairs:
                yield old, True
                yield new, False
        case AlterTable(name, specs):
            yield name, True
            for spec in specs:
                if isinstance(spec, RenameTo):
                    yield spec.table, False
        case _:
            for name in statement.tables:
                yield name, True


def alike(ours: Known, theirs: Known, servers: tuple[Server, Server]) -> bool:
    """Tell whether two tables have the same columns in one order, and the same keys by name."""
    sides = [[(one.name.lower(), *_row_form(one)) for one in known.table.columns] for known in (ours, theirs)]
    if sides[0] != sides[1]:
        return False
    try:
        keys = [_keys(known, server) for known, server in zip((ours, theirs), servers, strict=True)]
    except CannotTrack:
        return ours.table.unique_keys == theirs.table.unique_keys
    return keys[0] == keys[1]


def _row_form(column: Column) -> tuple[object, ...]:
    """Return what a column's value in a row image is read by, as far as a table map need not say it."""
    numbered = column.data_type.lower() in ("enum", "set")  # the image has numbers of members
    return (*value_signature(column), column.column_type if numbered else "")


def _keys(known: Known, server: Server) -> set[tuple[object, ...]]:
    definition: TableDefinition = Tracker.of(server, {known.table.name: known.create}, {}).definition(known.table.name)
    keys = [one for one in definition.constraints if isinstance(one, Key)]
    return {(str(one.name).lower(), tuple(str(part.column).lower() for part in one.parts)) for one in keys}


@dataclass(frozen=True)
class Today:
    """The tables of both servers today, by the source's names. `by_hand`: those that a person has described."""

    source: Mapping[TableName, Known]
    target: Mapping[TableName, Known]
    servers: tuple[Server, Server]
    by_hand: Collection[TableName] = ()

    @property
    def one_family(self) -> bool:
        return len({Flavour.MYSQL if one.flavour is Flavour.TIDB else one.flavour for one in self.servers}) == 1

    @property
    def is_certain(self) -> bool:
        """Tell whether both servers have the same tables: no DDL behind the start makes a difference."""
        return self.source.keys() == self.target.keys() and all(
            alike(one, self.target[name], self.servers) for name, one in self.source.items()
        )

    def at_start(self, source: str, first: Mapping[TableName, First]) -> dict[TableName, Known]:
        """Return the tables at the start. Raises PastUnknown."""
        found: dict[TableName, Known] = {}
        for name in sorted({*self.source, *self.target}):
            statement = first.get(name)
            if statement is None:
                if name in self.source:
                    found[name] = self.source[name]
            elif statement.there:
                altered = self._altered(source, name, statement)
                if altered is not None:
                    found[name] = altered
        return found

    def _altered(self, source: str, name: TableName, statement: First) -> Known | None:
        ours, theirs = self.source.get(name), self.target.get(name)
        if theirs is None or name in self.by_hand:
            return ours or theirs
        if self.one_family:
            return self._as_of_source(theirs)
        if ours is not None and alike(ours, theirs, self.servers):
            return ours
        raise PastUnknown(source, str(name), str(statement.at))

    def _as_of_source(self, known: Known) -> Known:
        """Return the target's table as the source's catalogue would show it."""
        try:
            table = Tracker.of(self.servers[0], {known.table.name: known.create}, {}).table(known.table.name)
        except CannotTrack:
            return known
        return replace(known, table=table)
