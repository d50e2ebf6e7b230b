"""A target for the model of DDL: tables with a shape, DDL that is no transaction, locks, connections with a life.

What a server does that the protocol rests on, and no more:

    transactions    one at a time, all or nothing; rows of tables as well as the engine's own tables (ddl_rows.py)
    DDL             takes effect at a moment of its own, while its client may be gone; then it cannot be called back
    GET_LOCK        belongs to a connection, and ends with it
    KILL            ends a connection that does nothing at once, and one that is at a DDL when that gives up, or is over
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pymysql

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateDatabase, Statement
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.sync.ddl_rows import SCHEMAS, TargetTables, empty_database
from tests.unit.sync.ddl_tables import SERVER
from tests.unit.sync.sqlite_target import META, Cursor, in_sqlite


class Died(BaseException):
    """A process was killed."""


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
    """Control of the server's users, which each of them calls before it acts. `done`: the actions so far."""

    done: Counter[str]

    def step(self) -> None:
        """Let others act. Raises Died."""

    def strike(self) -> None:
        """A moment at which a process may die, and no other may act. Raises Died."""

    def loses_answer(self) -> bool:
        """Return True if the answer to a COMMIT, and with it the connection, is lost."""

    def number(self) -> int:
        """Return a small number above zero: how long something takes, or which way it goes."""


class TargetServer:
    """The server."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.sqlite = empty_database()
        self.tables = TargetTables(self.sqlite, Tracker.of(SERVER, {}, dict.fromkeys(SCHEMAS, "utf8mb4_bin")))
        self.locks: dict[str, Connection] = {}
        self.connections: list[Connection] = []
        self.under_way: list[UnderWay] = []

    def connect(self) -> Connection:
        connection = Connection(self, len(self.connections) + 1)
        self.connections.append(connection)
        return connection

    def pass_time(self) -> None:
        """The server continues its current statement."""
        if not self.under_way:
            return
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
        """The client of a connection has died. Its statement continues, without anybody who reads the result."""
        connection.open = False
        if connection.inside:
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
class Connection(Cursor):
    """A client's connection, and its cursor in one. `inside`: of a transaction."""

    server: TargetServer
    number: int
    open: bool = True
    inside: bool = False
    _found: list[tuple[Any, ...]] = field(default_factory=list)

    def _check(self) -> None:
        if not self.open:
            raise pymysql.err.OperationalError(2013, "lost")

    # A connection

    def begin(self) -> None:
        self.server.fate.step()
        self._check()
        self.server.sqlite.execute("BEGIN")
        self.inside = True

    def commit(self) -> None:
        self._check()
        self.server.fate.strike()
        self.server.sqlite.execute("COMMIT")
        self.inside = False
        if self.server.fate.loses_answer():
            self.close()
            raise pymysql.err.OperationalError(2013, "lost")
        self.server.fate.step()

    def rollback(self) -> None:
        self.inside = False
        if self.server.sqlite.in_transaction:
            self.server.sqlite.execute("ROLLBACK")

    def close(self) -> None:
        if self.open:
            self.server.gone(self)

    def ping(self, reconnect: bool = False) -> None:
        self._check()

    # A cursor

    def execute(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        if self.inside:
            self.server.fate.strike()
        else:
            self.server.fate.step()
        self._check()
        if META in sql:
            return self._meta(sql, arguments)
        self._found = self._answer(sql, tuple(arguments or ()))
        return 0

    def _meta(self, sql: str, arguments: Sequence[Any] | None) -> int:
        done = self.server.sqlite.execute(in_sqlite(sql), tuple(arguments or ()))
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
            case ["SELECT", "@@global.lower_case_table_names"]:
                return [(0,)]
            case ["SELECT", "@@server_id,"]:
                return [(1, "target")]
            case ["SHOW", "CREATE"]:
                name = self._named(sql.rsplit(maxsplit=1)[-1])
                return [(name.table, server.tables.tracker.create_sql(name))]
            case ["SELECT", "1"]:
                return [(1,)] * bool(server.tables.rows[self._named(sql.split()[3])])
        self._ddl(parse(sql, 0, "one"))
        return []

    def _named(self, quoted: str) -> TableName:
        """Return a table that exists."""
        name = TableName(*quoted.strip("`").split("`.`"))
        if not self.server.tables.has(name):
            raise pymysql.err.ProgrammingError(1146, "no such table")
        return name

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

    def strike(self) -> None:
        """Be where a statement about rows is sent."""
        self.server.fate.strike()
        self._check()
