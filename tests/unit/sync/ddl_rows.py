"""The target's rows in the model of DDL: SQLite, which speaks as much MySQL as the engine's statements need.

One database serves all worlds of a process, one after the other. It has the engine's own tables, and those that DDL
makes, with their unique keys: a statement is refused for what a server would refuse it for. SQLite cannot alter a table
as MySQL does, so an altered one is read, altered as the source's is (`Tables`), and written anew.
"""

import re
import sqlite3
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final

import pymysql

from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    DropTables,
    RenameTables,
    RenameTo,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.row_statements import Dialect, Verb
from airflow_provider_dm.engine.downstream.row_statements import SqlStatement as RowStatement
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.sync.ddl_tables import Row, Tables
from tests.unit.sync.sqlite_target import META, META_TABLES

SCHEMAS: Final = ("one", "two")
MORE_META_TABLES: Final = {
    "dm_ddl": "task, source, position, number, statement, looks, done, updated_at, "
    "PRIMARY KEY (task, source, position, number)",
    "dm_table_definition": "task, source, table_schema, table_name, create_sql, collation, by_hand, "
    "PRIMARY KEY (task, source, table_schema, table_name)",
    "dm_online_ddl": "task, source, ghost_schema, ghost_table, statements, updated_at, "
    "PRIMARY KEY (task, source, ghost_schema, ghost_table)",
}


@cache
def _opened() -> sqlite3.Connection:
    sqlite = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1_000)
    sqlite.create_function("UTC_TIMESTAMP", 1, lambda _digits: 0)
    sqlite.create_function("UNIX_TIMESTAMP", 1, lambda moment: moment)
    for schema in (META, *SCHEMAS):
        sqlite.execute(f"ATTACH ':memory:' AS {schema}")
    for table, columns in (META_TABLES | MORE_META_TABLES).items():
        sqlite.execute(f"CREATE TABLE {META}.{table} ({columns})")
    return sqlite


def empty_database() -> sqlite3.Connection:
    """Return the process's database without any row or table of an earlier world."""
    sqlite = _opened()
    if sqlite.in_transaction:
        sqlite.execute("ROLLBACK")
    for table in META_TABLES | MORE_META_TABLES:
        sqlite.execute(f"DELETE FROM {META}.{table}")
    for schema in SCHEMAS:
        for (name,) in sqlite.execute(f"SELECT name FROM {schema}.sqlite_master WHERE type = 'table'").fetchall():
            sqlite.execute(f"DROP TABLE {TableName(schema, name).quoted()}")
    sqlite.execute(f"INSERT INTO {META}.dm_version VALUES (1, 0)")
    return sqlite


class TargetTables(Tables):
    """The target's tables. `rows` has those of a table only while it is altered."""

    def __init__(self, sqlite: sqlite3.Connection, tracker: Tracker) -> None:
        super().__init__(tracker)
        self.sqlite = sqlite

    def run(self, statement: Statement) -> None:
        """Execute DDL. Raises the driver's error for what is there already, is not there, or is there twice."""
        if isinstance(statement, TruncateTable) and self.has(statement.table):
            self.sqlite.execute(f"DELETE FROM {statement.table.quoted()}")
            return
        before = self.tracker
        self.rows = {name: self.read(name) for name in _about(statement) if self.has(name)}
        self.sqlite.execute("BEGIN")
        try:
            gone = list(self.rows)
            super().run(statement)
            for name in gone:
                self.sqlite.execute(f"DROP TABLE {name.quoted()}")
            for name, rows in self.rows.items():
                self._make(name, rows)
        except BaseException as error:
            self.sqlite.execute("ROLLBACK")
            self.tracker = before
            if isinstance(error, sqlite3.IntegrityError):
                raise pymysql.err.IntegrityError(1062, "a row twice") from None
            raise
        self.sqlite.execute("COMMIT")

    def make(self, name: TableName, create_sql: str) -> None:
        """Make a table that existed before the test."""
        self.tracker = self.tracker.with_table(name, create_sql)
        self._make(name, [])

    def read(self, name: TableName) -> list[Row]:
        found = self.sqlite.execute(f"SELECT * FROM {name.quoted()}")
        columns = [one[0] for one in found.description]
        return [
            dict(zip(columns, [None if value is None else str(value) for value in row], strict=True)) for row in found
        ]

    def write(self, name: TableName, rows: Sequence[Row], *, over: bool = False) -> None:
        """Write rows that existed before the test. `over`: rows with their keys are replaced."""
        if rows:
            columns = list(rows[0])
            verb = "REPLACE" if over else "INSERT"
            marks = ", ".join("?" * len(columns))
            sql = f"{verb} INTO {name.quoted()} ({', '.join(columns)}) VALUES ({marks})"
            self.sqlite.executemany(sql, [[row[one] for one in columns] for row in rows])

    def _make(self, name: TableName, rows: Sequence[Row]) -> None:
        columns = [
            f"{one.name} {'INT' if 'int' in one.type.name else 'TEXT COLLATE NOCASE'} DEFAULT {one.default or 'NULL'}"
            for one in self.tracker.definition(name).columns
        ]
        keys = [f"UNIQUE ({', '.join(key.columns)})" for key in self.tracker.table(name).unique_keys]
        self.sqlite.execute(f"CREATE TABLE {name.quoted()} ({', '.join([*columns, *keys])})")
        self.write(name, rows)


def _about(statement: Statement) -> list[TableName]:
    """Return the tables that a statement makes otherwise, or away."""
    match statement:
        case AlterTable(name, specs):
            return [name, *(spec.table for spec in specs if isinstance(spec, RenameTo))]
        case RenameTables(pairs):
            return [old for old, _ in pairs]
        case DropTables(names):
            return list(names)
        case CreateTable() | CreateTableLike():
            return []
    return []


# Statements about rows

_ROW_VALUES: Final = re.compile(r"(\((?:`?\w+`?,? ?)+\)) IN \(\(")
_SOME: Final = re.compile(r"DELETE FROM (\S+) WHERE (.*) LIMIT (\d+)")
_CONVERTED: Final = re.compile(r"CONVERT\(((?:'[^']*')|NULL) USING \w+\)")
_BYTES: Final = re.compile(r"CONVERT\(((?:'[^']*')|`[^`]*`) USING binary\)")


def access(sqlite: sqlite3.Connection) -> TargetAccess:
    """Return the way in which the engine's writers reach the rows."""
    found = partial(_found, sqlite)
    return TargetAccess(
        Dialect(), partial(_execute, sqlite), lambda _tx, one: int(found(one.sql)[0][0]), _selecting(found)
    )


def _selecting(found: Any) -> Any:
    return lambda _tx, sql: [tuple(None if one is None else str(one).encode() for one in row) for row in found(sql)]


def _found(sqlite: sqlite3.Connection, sql: bytes) -> list[tuple[Any, ...]]:
    text = sql.decode().replace(" FOR UPDATE", "")
    return sqlite.execute(_ROW_VALUES.sub(r"\1 IN (VALUES (", text)).fetchall()


def _execute(sqlite: sqlite3.Connection, connection: Any, statement: RowStatement) -> int:
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


def _upsert(sqlite: sqlite3.Connection, sql: str, statement: RowStatement) -> int:
    before = _size(sqlite, statement)
    head = sql.split(" ON DUPLICATE KEY UPDATE ", maxsplit=1)[0]
    columns = head.partition("(")[2].partition(")")[0].split(", ")
    _run(sqlite, f"{head} ON CONFLICT DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in columns)}", statement)
    new = _size(sqlite, statement) - before
    return new + 2 * (statement.rows - new)


def _size(sqlite: sqlite3.Connection, statement: RowStatement) -> int:
    return int(sqlite.execute(f"SELECT COUNT(*) FROM {statement.table.quoted()}").fetchone()[0])


def _run(sqlite: sqlite3.Connection, sql: str, statement: RowStatement) -> int:
    try:
        return sqlite.execute(sql).rowcount
    except sqlite3.IntegrityError as error:
        raise DuplicateInTarget(str(statement.table), str(error)) from None
    except sqlite3.OperationalError as error:
        raise pymysql.err.OperationalError(1054, f"{error}: {sql}") from None
