"""The target's rows in the model of DDL: SQLite, which speaks as much MySQL as the engine's statements need.

One database serves all worlds of a process, one after the other. It has the engine's own tables, and those that DDL
makes, with their unique keys: a statement is refused for what a server would refuse it for. SQLite cannot alter a table
as MySQL does, so an altered one is read, altered as the source's is (`Tables`), and written anew.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Final

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
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.sync.ddl_tables import Row, Tables
from tests.unit.sync.sqlite_target import META, META_TABLES

SCHEMAS: Final = ("one", "two")
MORE_META_TABLES: Final = {
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
