"""A target for the model of DDL: tables with a shape, DDL that is no transaction, locks, connections with a life.

What a server does that the protocol rests on, and no more:

    transactions    one at a time, all or nothing; rows of tables as well as the engine's own tables (SQLite)
    DDL             takes effect at a moment of its own, while its client may be gone; then it cannot be called back
    GET_LOCK        belongs to a connection, and ends with it
    KILL            ends a connection that does nothing at once, and one that is at a DDL when that gives up, or is over

Shapes are the engine's own model of tables (`ddl.tracker`), which is held against real servers elsewhere. `Tables` is
the source as well: there DDL and rows simply come one after the other.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pymysql

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    AlterTable,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    DropColumn,
    DropKey,
    DropTables,
    Key,
    KeyKind,
    RenameColumn,
    RenameTables,
    RenameTo,
    Spec,
    Statement,
    TableDefinition,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.sync.sqlite_target import META, META_TABLES

SERVER: Final = Server(Flavour.MYSQL, (9, 7, 0))
SESSION: Final = SessionDefaults(explicit_timestamp_defaults=True)
MORE_META_TABLES: Final = {
    "dm_ddl": "task, source, position, number, statement, looks, done, updated_at, "
    "PRIMARY KEY (task, source, position, number)",
    "dm_table_definition": "task, source, table_schema, table_name, create_sql, collation, by_hand, "
    "PRIMARY KEY (task, source, table_schema, table_name)",
    "dm_online_ddl": "task, source, ghost_schema, ghost_table, statements, updated_at, "
    "PRIMARY KEY (task, source, ghost_schema, ghost_table)",
}
Row = dict[str, str | None]


class Died(BaseException):
    """A process was killed."""


@dataclass
class Tables:
    """Tables with their rows, to which DDL and rows are applied."""

    tracker: Tracker
    rows: dict[TableName, list[Row]] = field(default_factory=dict)

    def columns(self, name: TableName) -> list[str]:
        return [column.name for column in self.tracker.definition(name).columns]

    def has(self, name: TableName) -> bool:
        return name in self.tracker.names()

    def run(self, statement: Statement) -> None:
        """Execute DDL. Raises the driver's error for what is there already, or is not there."""
        self._check(statement)
        if isinstance(statement, CreateTable | CreateTableLike):
            if self.has(statement.table):
                return
            self.rows[statement.table] = []
        before = self.tracker
        self.tracker = before.after(statement, SESSION)
        match statement:
            case AlterTable(name, specs):
                for spec in specs:
                    self._alter(self.rows[name], spec)
                for new in (spec.table for spec in specs if isinstance(spec, RenameTo)):
                    self.rows[new] = self.rows.pop(name)
            case RenameTables(pairs):
                for old, new in pairs:
                    self.rows[new] = self.rows.pop(old)
            case TruncateTable(name):
                self.rows[name].clear()
            case DropTables(names):
                for name in names:
                    self.rows.pop(name, None)

    def put(self, name: TableName, row: Row, *, away: bool) -> None:
        """Insert a row, or delete one that is equal, if there is one."""
        rows = self.rows[name]
        if not away:
            rows.append(row)
        elif row in rows:
            rows.remove(row)

    @staticmethod
    def _alter(rows: list[Row], spec: object) -> None:
        for row in rows:
            match spec:
                case AddColumn(column):
                    row[column.name] = column.default
                case DropColumn(name):
                    del row[name]
                case RenameColumn(name, to):
                    row[to] = row.pop(name)

    def _check(self, statement: Statement) -> None:
        match statement:
            case CreateTable() | CreateTableLike() if self.has(statement.table) and not statement.if_not_exists:
                raise pymysql.err.OperationalError(1050, "there already")
            case AlterTable(name) | TruncateTable(name) if not self.has(name):
                raise pymysql.err.ProgrammingError(1146, f"no table {name}")
            case AlterTable(name, specs):
                for spec in specs:
                    _check_spec(self.tracker.definition(name), spec)
                    if isinstance(spec, RenameTo) and self.has(spec.table):
                        raise pymysql.err.OperationalError(1050, "there already")
            case RenameTables(pairs):
                names = set(self.tracker.names())
                for old, new in pairs:
                    if old not in names:
                        raise pymysql.err.ProgrammingError(1146, f"no table {old}")
                    if new in names:
                        raise pymysql.err.OperationalError(1050, "there already")
                    names = names - {old} | {new}


def _check_spec(definition: TableDefinition, spec: Spec) -> None:
    columns = [one.name for one in definition.columns]
    keys = [one for one in definition.constraints if isinstance(one, Key)]
    primary = any(one.kind is KeyKind.PRIMARY for one in keys)
    match spec:
        case AddColumn(column) if column.name in columns:
            raise pymysql.err.OperationalError(1060, "a column twice")
        case RenameColumn(_, to) if to in columns:
            raise pymysql.err.OperationalError(1060, "a column twice")
        case RenameColumn(name) if name not in columns:
            raise pymysql.err.OperationalError(1054, "no such column")
        case DropColumn(name) if name not in columns:
            raise pymysql.err.OperationalError(1091, "no such column")
        case AddConstraint(Key(kind=KeyKind.PRIMARY)) if primary:
            raise pymysql.err.OperationalError(1068, "a primary key twice")
        case AddConstraint(Key(name=name)) if name is not None and any(one.name == name for one in keys):
            raise pymysql.err.OperationalError(1061, "a key twice")
        case DropKey(name) if not (primary if name == "PRIMARY" else any(one.name == name for one in keys)):
            raise pymysql.err.OperationalError(1091, "no such key")


@dataclass(eq=False)
class UnderWay:
    """A DDL statement that the server is at."""

    connection: Connection
    statement: Statement
    left: int
    """Steps of the world until it is over."""
    error: Exception | None = None
    over: bool = False


class Fate(Protocol):
    """Power over those who use the server. Whoever acts calls it. `done`: what has happened."""

    done: Counter[str]

    def step(self) -> None:
        """Let others act. Raises Died."""

    def strike(self) -> None:
        """Be where a process may die, and nobody else may act. Raises Died."""

    def loses_answer(self) -> bool:
        """Tell whether the answer to a COMMIT, and with it the connection, is lost."""

    def number(self) -> int:
        """Return a small number above zero: how long something takes, or which way it goes."""


class TargetServer:
    """The server."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.sqlite = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.sqlite.create_function("UTC_TIMESTAMP", 1, lambda _digits: 0)
        self.sqlite.execute(f"ATTACH ':memory:' AS {META}")
        for table, columns in (META_TABLES | MORE_META_TABLES).items():
            self.sqlite.execute(f"CREATE TABLE {META}.{table} ({columns})")
        self.sqlite.execute(f"INSERT INTO {META}.dm_version VALUES (1, 0, 0)")
        self.tables = Tables(Tracker.of(SERVER, {}, dict.fromkeys(("one", "two"), "utf8mb4_bin")))
        self.locks: dict[str, Connection] = {}
        self.connections: list[Connection] = []
        self.under_way: list[UnderWay] = []

    def connect(self) -> Connection:
        connection = Connection(self, len(self.connections) + 1)
        self.connections.append(connection)
        return connection

    def pass_time(self) -> None:
        """The server goes on with what it is at."""
        for one in self.under_way:
            one.left -= 1
        for one in [one for one in self.under_way if one.left <= 0]:
            self.under_way.remove(one)
            try:
                self.tables.run(one.statement)
            except pymysql.err.Error as error:
                one.error = error
            self._end(one)

    def _end(self, one: UnderWay) -> None:
        one.over = True
        if not one.connection.open:
            self._let_go(one.connection)

    def gone(self, connection: Connection) -> None:
        """The client of a connection is gone. What it is at goes on; nobody hears of the end."""
        connection.open = False
        if connection.undo is not None:
            connection.rollback()
        if any(one.connection is connection for one in self.under_way):
            self.fate.done["DDL without a client"] += 1
        else:
            self._let_go(connection)

    def kill(self, number: int, *, gives_up: bool) -> None:
        """`gives_up`: a DDL that it is at is given up, as if it had never begun; else it is too late for that."""
        connection = self.connections[number - 1]
        for one in [one for one in self.under_way if one.connection is connection]:
            self.fate.done["killed amid DDL"] += 1
            if not gives_up:
                one.left = 1
                connection.open = False
                return
            self.under_way.remove(one)
            one.error, one.over = pymysql.err.OperationalError(1053, "killed"), True
        self.gone(connection)

    def _let_go(self, connection: Connection) -> None:
        self.locks = {name: holder for name, holder in self.locks.items() if holder is not connection}


@dataclass(eq=False)
class Connection:
    """A client's connection, and its cursor in one. `undo`: the rows as a transaction found them."""

    server: TargetServer
    number: int
    open: bool = True
    undo: dict[TableName, list[Row]] | None = None
    _found: list[tuple[Any, ...]] = field(default_factory=list)

    def _check(self) -> None:
        if not self.open:
            raise pymysql.err.OperationalError(2013, "lost")

    # A connection

    def begin(self) -> None:
        self.server.fate.step()
        self._check()
        self.server.sqlite.execute("BEGIN")
        self.undo = {name: list(rows) for name, rows in self.server.tables.rows.items()}

    def commit(self) -> None:
        self._check()
        self.server.fate.strike()
        self.server.sqlite.execute("COMMIT")
        self.undo = None
        if self.server.fate.loses_answer():
            self.close()
            raise pymysql.err.OperationalError(2013, "lost")
        self.server.fate.step()

    def rollback(self) -> None:
        assert self.undo is not None
        self.server.tables.rows, self.undo = self.undo, None
        if self.server.sqlite.in_transaction:
            self.server.sqlite.execute("ROLLBACK")

    def close(self) -> None:
        if self.open:
            self.server.gone(self)

    def ping(self, reconnect: bool = False) -> None:
        self._check()

    # A cursor

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            self.execute(sql, row)

    def execute(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        if self.undo is None:
            self.server.fate.step()
        else:
            self.server.fate.strike()
        self._check()
        if META in sql:
            return self._meta(sql, arguments)
        self._found = self._answer(sql, tuple(arguments or ()))
        return 0

    def _meta(self, sql: str, arguments: Sequence[Any] | None) -> int:
        done = self.server.sqlite.execute(sql.replace("%s", "?").replace(" FOR UPDATE", ""), tuple(arguments or ()))
        self._found = done.fetchall()
        return done.rowcount

    def _answer(self, sql: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        server = self.server
        match sql.split()[:2]:
            case ["SELECT", "GET_LOCK(%s,"]:
                return [(int(self._get_lock(arguments[0])),)]
            case ["SELECT", "IS_USED_LOCK(%s)"]:
                holder = server.locks.get(arguments[0])
                return [(None if holder is None else holder.number,)]
            case ["KILL", number]:
                server.kill(int(number), gives_up=server.fate.number() % 2 == 0)
                return []
            case ["SELECT", "VERSION()"]:
                return [("9.7.0",)]
            case ["SELECT", "@@server_id,"]:
                return [(1, "target")]
            case ["SHOW", "CREATE"]:
                schema, table = sql.rsplit(maxsplit=1)[-1].strip("`").split("`.`")
                name = TableName(schema, table)
                if not server.tables.has(name):
                    raise pymysql.err.ProgrammingError(1146, "no such table")
                return [(table, server.tables.tracker.create_sql(name))]
        self._ddl(parse(sql, 0, "one"))
        return []

    def _get_lock(self, name: str) -> bool:
        for _ in range(3):
            if name not in self.server.locks:
                self.server.locks[name] = self
                return True
            self.server.fate.step()
            self._check()
        return False

    def _ddl(self, statement: Statement) -> None:
        if isinstance(statement, CreateDatabase):
            return
        one = UnderWay(self, statement, self.server.fate.number())
        self.server.under_way.append(one)
        while not one.over:
            self.server.fate.step()
        if one.error is not None:
            raise one.error
        self._check()

    # Rows, in a transaction

    def write(self, name: TableName, row: Row, *, away: bool) -> None:
        """Insert a row, or delete one that is equal."""
        if not self.server.tables.has(name):
            raise pymysql.err.ProgrammingError(1146, f"no table {name}")
        if set(row) != set(self.server.tables.columns(name)):
            raise pymysql.err.OperationalError(1054, f"{name} has {self.server.tables.columns(name)}, not {list(row)}")
        self.server.tables.put(name, row, away=away)
