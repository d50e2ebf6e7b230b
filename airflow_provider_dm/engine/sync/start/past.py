"""The tables of a source at the start of an incremental task, which may be in the past.

The target has the rows of the start (`meta`), so a column that was altered since the start had the target's definition
(DM uses the target's definition for the whole table), and all others had today's definition of the source. The log
shows which columns were altered:

    first statement about a table after the start         the table at the start
    none                                                  the source's table of today
    ALTER, DROP, TRUNCATE, RENAME to another name …       before_ddl.py: built from both, verified with all DDL since
    CREATE, RENAME from another name                      did not exist; the statement creates it

The log is read for DDL, by its headers, from the start to its current end. That both servers have the same table today
does not prove that it was the same at the start. If the log is incomplete (a private log is limited), the available
part is read; a column that differs is then detected by the table maps (DM-5010).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotRead, Unreadable
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    RenameTables,
    RenameTo,
    Statement,
)
from airflow_provider_dm.engine.ddl.stored_names import as_stored, stored_name
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import create_table_sql
from airflow_provider_dm.engine.downstream.schema_by_hand import definition_at
from airflow_provider_dm.engine.downstream.table_definitions import explicit_sql
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import read_ddl
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import list_tables, name_fold_of, names_fold, read_tables
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.errors import DefinitionNeeded, Undecided
from airflow_provider_dm.engine.sync.start.before_ddl import (
    LoggedStatement,
    ShownTable,
    TableHistory,
    definition_before,
    key_names,
    row_form,
)


@dataclass(frozen=True)
class KnownTable:
    """A table as one server shows it: its model, and its CREATE TABLE with the source's name."""

    table: Table
    create: str


@dataclass(frozen=True)
class FirstStatement:
    """The first statement about a table. `existed`: the table existed before it."""

    existed: bool
    at: Location


def tables_of_target(
    connection: Connection, today: Collection[TableName], schemas: Collection[str], rules: SubtaskRules
) -> dict[TableName, KnownTable]:
    """Return the target's tables by the names that the source has, or may have had, for them.

    `today`: the source's tables. `schemas`: all schemas of the source, for tables that were dropped since.
    """
    route, fold = rules.router.route, names_fold(connection)
    existing = {fold(table): table for table in list_tables(connection)}
    names = {name: route(name) for name in today if fold(route(name)) in existing}
    taken = {fold(route(name)) for name in today}
    for folded, table in sorted(existing.items()):
        for schema in schemas if folded not in taken else ():
            name = TableName(schema, table.table)
            if rules.block_allow.allows(name) and fold(route(name)) == folded:
                names[name] = route(name)
    tables = read_tables(connection, names.values())
    return {name: _known(connection, name, tables[target]) for name, target in names.items()}


def _known(connection: Connection, name: TableName, table: Table) -> KnownTable:
    known = definition_at(connection, name, place=table.name)
    return KnownTable(replace(table, name=name), explicit_sql(known))


def read_log(statements: Iterable[DdlStatement], server: Server) -> tuple[LoggedStatement, ...]:
    """Return the DDL of a part of the log, with table names as the source's server stores them.

    A statement whose tables are unknown is omitted: the sync will stop at it.
    """
    logged = []
    for ddl in statements:
        parsed = read_ddl(ddl)
        # Other session variables (collations, NULL in a TIMESTAMP) do not affect the decoding of row images.
        session = SessionDefaults(ddl.sql_mode, explicit_timestamp_defaults=True)
        if isinstance(parsed, NotRead):
            tables = tuple(stored_name(name, server) for name in parsed.about.tables)
            logged.append(LoggedStatement(ddl.at, None, tables, session))
        elif not isinstance(parsed, Unreadable):
            statement = as_stored(parsed, server)
            logged.append(LoggedStatement(ddl.at, statement, statement.tables, session))
    return tuple(logged)


def first_statements(log: Iterable[LoggedStatement]) -> dict[TableName, FirstStatement]:
    """Return for each table the first statement about it."""
    statements: dict[TableName, FirstStatement] = {}
    for one in log:
        touched = ((name, True) for name in one.tables) if one.statement is None else _touched(one.statement)
        for name, existed in touched:
            statements.setdefault(name, FirstStatement(existed, one.at))
    return statements


def _touched(statement: Statement) -> Iterator[tuple[TableName, bool]]:
    """Yield the tables of a statement, and whether each existed before it."""
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


def are_alike(ours: KnownTable, theirs: KnownTable, servers: tuple[Server, Server]) -> bool:
    """Return True if two tables have the same columns in the same order and the same named keys."""
    sides = [[(column.name.lower(), *row_form(column)) for column in known.table.columns] for known in (ours, theirs)]
    if sides[0] != sides[1]:
        return False
    try:
        keys = [key_names(_shown(known, server)) for known, server in zip((ours, theirs), servers, strict=True)]
    except CannotTrack:
        return ours.table.unique_keys == theirs.table.unique_keys
    return keys[0] == keys[1]


def _shown(known: KnownTable, server: Server) -> ShownTable:
    """Read the CREATE TABLE of a known table. Raises CannotTrack."""
    name = known.table.name
    return ShownTable(server, name, Tracker.of(server, {name: known.create}, {}).definition(name))


@dataclass(frozen=True)
class TablesToday:
    """The tables of both servers today, by the source's names. `by_hand`: those whose definitions a user has set."""

    source: Mapping[TableName, KnownTable]
    target: Mapping[TableName, KnownTable]
    servers: tuple[Server, Server]
    by_hand: Collection[TableName] = ()
    collations: Mapping[str, str] = field(default_factory=dict)
    """The default collation of each schema of the source."""

    def at_start(self, source: str, log: Sequence[LoggedStatement]) -> dict[TableName, KnownTable]:
        """Return the tables at the start. `log`: the DDL since. Raises DefinitionNeeded."""
        first = first_statements(log)
        tables: dict[TableName, KnownTable] = {}
        for name in sorted({*self.source, *self.target, *filter(self._of_target, first)}):
            statement = first.get(name)
            if statement is None:
                if name in self.source:
                    tables[name] = self.source[name]
            elif statement.existed:
                altered = self._altered(source, name, statement, log)
                if altered is not None:
                    tables[name] = altered
        return tables

    def _altered(
        self, source: str, name: TableName, statement: FirstStatement, log: Sequence[LoggedStatement]
    ) -> KnownTable | None:
        theirs = self._of_target(name)
        if theirs is None or name in self.by_hand:
            return self.source.get(name) or theirs
        try:
            return self._before(TableHistory.of(name, log), theirs)
        except (Undecided, CannotTrack) as error:
            raise DefinitionNeeded(
                f"{source}: {name} was altered since the start of the task (`meta`), at {statement.at}, and neither "
                f"server's table shows its definition at the start: {error}.",
                "Give its definition at the start by `dmctl binlog-schema update TASK SCHEMA TABLE FILE`, and run "
                "the task again; or leave the table out by block-allow-list.",
            ) from None

    def _of_target(self, name: TableName) -> KnownTable | None:
        """Return the target's table with this name, by the case sensitivity of the target."""
        fold = name_fold_of(self.servers[1].lower_case_table_names)
        known = self.target.get(name) or next((it for one, it in self.target.items() if fold(one) == fold(name)), None)
        return None if known is None else replace(known, table=replace(known.table, name=name))

    def _before(self, history: TableHistory, theirs: KnownTable) -> KnownTable:
        """Return the table before its history. Raises Undecided, CannotTrack."""
        ours = None if history.last is None else self.source.get(history.last)
        today = None if ours is None else _shown(ours, self.servers[0])
        target = _shown(theirs, self.servers[1])
        definition = definition_before(self.servers[0], history, today, target, self.collations)
        create = create_table_sql(history.name, definition)
        return KnownTable(Tracker.of(self.servers[0], {history.name: create}, {}).table(history.name), create)
