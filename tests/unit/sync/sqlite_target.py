"""A target for the model: SQLite that speaks as much MySQL as the engine's statements need, with accidents.

Transactions are atomic and run one at a time, which is what a server does with transactions that lock the same rows. At
any transaction the process may die: before it, at any statement in it, before COMMIT, after COMMIT.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any, ClassVar, Final, Self, TypeVar

import pymysql

from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.sync.target_tables import TARGETS, Rows

T = TypeVar("T")

META = "dm_meta"
META_TABLES = {
    "dm_version": "one PRIMARY KEY, version",
    "dm_subtask": """task, source, generation, claim, unit, buckets, hash_version, plan DEFAULT '', start_location,
        overwrite_until, location, postponed_indexes, updated_at, PRIMARY KEY (task, source)""",
    "dm_frontier": """task, source, bucket, position, released DEFAULT '', generation,
        PRIMARY KEY (task, source, bucket)""",
    "dm_copy_chunk": """task, source, chunk, source_schema, source_table, low, high, last_key, done DEFAULT 0,
        rows_copied DEFAULT 0, round DEFAULT 0, birth DEFAULT '', generation, PRIMARY KEY (task, source, chunk)""",
    "dm_table_schema": """task, source, table_schema, table_name, target_schema, target_name, skip_until DEFAULT '',
        definition, PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_xa": """task, source, prepared_at, ended_at DEFAULT '', xid, log_place,
        PRIMARY KEY (task, source, prepared_at)""",
    "dm_safe_mode": "task, source, seconds, ends_at, exit_location, updated_at, PRIMARY KEY (task, source)",
    "dm_shard_group": """task, source, target_schema, target_name, resolved, resync, updated_at,
        PRIMARY KEY (task, source, target_schema, target_name)""",
    "dm_shard_member": """task, source, table_schema, table_name, target_schema, target_name, base, items, updated_at,
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_ddl": """task, source, position, number, statement, looks, done, updated_at,
        PRIMARY KEY (task, source, position, number)""",
    "dm_contested_row": """id INTEGER PRIMARY KEY, task, source, table_schema, table_name, target_schema, target_name,
        row_key, image, since, UNIQUE (task, source, table_schema, table_name, row_key)""",
}
"""As in downstream/meta_definitions.py; SQLite needs no types."""
TABLES: Final = (*(f'shop."{one.name.table}"' for one in TARGETS), *(f"{META}.{name}" for name in META_TABLES))


class Moment(Enum):
    """A moment at which a transaction may be struck."""

    BEFORE = "before"
    BETWEEN = "between two statements"
    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"


class Died(BaseException):
    """A process was killed."""


class Database:
    """The target's tables and the engine's own.

    All of a process's databases are, one after the other, the same tables of the same connection, which knows the
    statements that all of them are asked for. A call on a closed connection fails.
    """

    sqlite: sqlite3.Connection
    commits_early: ClassVar[bool] = False
    """A rule to break: the frontier moves in a transaction of its own."""
    _latest: ClassVar[weakref.ref[Database] | None] = None

    def __init__(self, clock: Callable[[], float]) -> None:
        before = Database._latest() if Database._latest is not None else None
        if before is not None:
            del before.sqlite
        Database._latest = weakref.ref(self)
        self.clock = clock
        self.sqlite = _with_tables()
        if self.sqlite.in_transaction:
            self.sqlite.execute("ROLLBACK")
        for table in TABLES:
            self.sqlite.execute(f"DELETE FROM {table}")
        self.sqlite.execute(f"INSERT INTO {META}.dm_version VALUES (1, 0)")

    @staticmethod
    def now() -> float:
        """Return the time of the latest database."""
        latest = Database._latest() if Database._latest is not None else None
        assert latest is not None
        return latest.clock()

    def connection(self) -> Any:
        return Connection(self)

    def access(self) -> TargetAccess:
        return access(self.sqlite)

    def rows(self, one: Table) -> Rows:
        found = self.sqlite.execute(f'SELECT * FROM shop."{one.name.table}"').fetchall()
        return Counter(tuple(None if value is None else b"%d" % value for value in row) for row in found)

    def contested(self) -> int:
        ((number,),) = self.sqlite.execute(f"SELECT COUNT(*) FROM {META}.dm_contested_row").fetchall()
        return int(number)

    def transaction(self, body: Callable[[Any], T], moment: Moment | None, statements: int = 1) -> T:
        """`statements`: how many a process does that dies between two."""
        if moment is Moment.BEFORE:
            raise Died
        self.sqlite.execute("BEGIN")
        try:
            result = body(Connection(self, statements if moment is Moment.BETWEEN else None))
            if moment is Moment.BEFORE_COMMIT:
                raise Died
        except BaseException:
            if self.sqlite.in_transaction:
                self.sqlite.execute("ROLLBACK")
            raise
        if self.sqlite.in_transaction:
            self.sqlite.execute("COMMIT")
        if moment is Moment.AFTER_COMMIT:
            raise Died
        return result


_DELETE_SOME: Final = re.compile(r"DELETE FROM (\S+) WHERE owner = \? LIMIT \?")


@lru_cache(2048)
def in_sqlite(sql: str) -> str:
    """Return a statement about the engine's own tables as SQLite writes it."""
    if sql.startswith("SET "):
        return "SELECT 0"
    sql = sql.replace("%s", "?").replace(" FOR UPDATE", "").replace("INTERVAL ? SECOND", "?")
    return _DELETE_SOME.sub(r"DELETE FROM \1 WHERE rowid IN (SELECT rowid FROM \1 WHERE owner = ? LIMIT ?)", sql)


@cache
def _with_tables() -> sqlite3.Connection:
    sqlite = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=4096)
    sqlite.create_function("UTC_TIMESTAMP", 1, lambda _digits: Database.now())
    sqlite.create_function("UNIX_TIMESTAMP", 1, lambda moment: moment)
    for name in ("shop", META):
        sqlite.execute(f"ATTACH ':memory:' AS {name}")
    for one in TARGETS:
        keys = "".join(
            f", {'PRIMARY KEY' if key.primary else 'UNIQUE'} ({', '.join(key.columns)})" for key in one.unique_keys
        )
        columns = ", ".join(f"{column.name} INT" for column in one.columns)
        sqlite.execute(f'CREATE TABLE shop."{one.name.table}" ({columns}{keys})')
    for table, columns in META_TABLES.items():
        sqlite.execute(f"CREATE TABLE {META}.{table} ({columns})")
    return sqlite


class Cursor:
    """A connection that is its own cursor. Its class implements `execute`, which keeps the rows in `_found`."""

    _found: list[tuple[Any, ...]]

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        raise NotImplementedError

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            self.execute(sql, row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found


class Connection(Cursor):
    """A connection. `left`: statements until the process dies; None: it does not."""

    def __init__(self, database: Database, left: int | None = None) -> None:
        self.database = database
        self.left = left
        self._found = []

    def strike(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Died

    def execute(self, sql: str, arguments: Sequence[object] | None = None) -> int:
        self.strike()
        sql = in_sqlite(sql)
        done = self.database.sqlite.execute(sql, tuple(arguments or ()))
        self._found = done.fetchall()
        if (
            self.database.commits_early
            and sql.startswith("UPDATE")
            and "dm_frontier" in sql
            and self.database.sqlite.in_transaction
        ):
            self.database.sqlite.execute("COMMIT")
        return done.rowcount


# Statements about rows

_ROW_VALUES: Final = re.compile(r"(\((?:`?\w+`?,? ?)+\)) IN \(\(")
_SOME: Final = re.compile(r"DELETE FROM (\S+) WHERE (.*) LIMIT (\d+)")
_CONVERTED: Final = re.compile(r"CONVERT\(((?:'[^']*')|NULL) USING \w+\)")
_BYTES: Final = re.compile(r"CONVERT\(((?:'[^']*')|`[^`]*`) USING binary\)")


def access(sqlite: sqlite3.Connection) -> TargetAccess:
    """Return the way in which the engine's writers reach the rows."""

    def count(_connection: object, statement: SqlStatement) -> int:
        ((number,),) = _found(sqlite, statement.sql)
        return int(number)

    return TargetAccess(Dialect(), partial(_execute, sqlite), count, partial(_cells, sqlite))


def _cells(sqlite: sqlite3.Connection, _connection: object, sql: bytes) -> list[tuple[bytes | None, ...]]:
    """Cells as a server sends them."""
    return [tuple(None if one is None else str(one).encode() for one in row) for row in _found(sqlite, sql)]


def _found(sqlite: sqlite3.Connection, sql: bytes) -> list[tuple[Any, ...]]:
    text = sql.decode().replace(" FOR UPDATE", "")
    return sqlite.execute(_ROW_VALUES.sub(r"\1 IN (VALUES (", text)).fetchall()


def _execute(sqlite: sqlite3.Connection, connection: Any, statement: SqlStatement) -> int:
    connection.strike()
    sql = statement.sql.decode()
    if statement.verb is Verb.UPSERT:
        return _upsert(sqlite, sql, statement)
    if statement.verb is Verb.DELETE:
        sql = _ROW_VALUES.sub(r"\1 IN (VALUES (", sql)
        if some := _SOME.fullmatch(sql):
            head, condition, limit = some.groups()
            condition = _BYTES.sub(r"CAST(\1 AS BLOB)", _CONVERTED.sub(r"\1", condition.replace("<=>", "IS")))
            sql = f"DELETE FROM {head} WHERE rowid IN (SELECT rowid FROM {head} WHERE {condition} LIMIT {limit})"
    if statement.verb is Verb.REPLACE:  # servers count the rows that had to go
        before = _size(sqlite, statement)
        return _run(sqlite, sql, statement) + before + statement.rows - _size(sqlite, statement)
    return _run(sqlite, sql, statement)


def _upsert(sqlite: sqlite3.Connection, sql: str, statement: SqlStatement) -> int:
    before = _size(sqlite, statement)
    head = sql.split(" ON DUPLICATE KEY UPDATE ", maxsplit=1)[0]
    columns = head.partition("(")[2].partition(")")[0].split(", ")
    _run(sqlite, f"{head} ON CONFLICT DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in columns)}", statement)
    new = _size(sqlite, statement) - before
    return new + 2 * (statement.rows - new)


def _size(sqlite: sqlite3.Connection, statement: SqlStatement) -> int:
    return int(sqlite.execute(f"SELECT COUNT(*) FROM {statement.table.quoted()}").fetchone()[0])


def _run(sqlite: sqlite3.Connection, sql: str, statement: SqlStatement) -> int:
    try:
        return sqlite.execute(sql).rowcount
    except sqlite3.IntegrityError as error:
        raise DuplicateInTarget(str(statement.table), str(error)) from None
    except sqlite3.OperationalError as error:
        raise pymysql.err.OperationalError(1054, f"{error}: {sql}") from None
