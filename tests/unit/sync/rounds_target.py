"""The target of the model of rounds: tables of any form in SQLite, and what is in them, read without the engine."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from airflow_provider_dm.engine.downstream.row_key import decode_row
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.sync.rounds_sources import MERGED, Held, State, ordered
from tests.unit.sync.sqlite_target import META, Database, Died, Moment

T = TypeVar("T")

SCHEMAS = ("s0", "s1")


class Chunk(NamedTuple):
    """A row of dm_copy_chunk."""

    low: bytes | None
    high: bytes | None
    last_key: str | None
    done: int


class Target(Database):
    """A target whose tables come and go. Texts are compared as the model's collation does."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        attached = {name for _, name, _ in self.sqlite.execute("PRAGMA database_list").fetchall()}
        for name in {*SCHEMAS} - attached:
            self.sqlite.execute(f"ATTACH ':memory:' AS {name}")
        self.sqlite.create_collation("ci", _compare)
        self.tables: dict[TableName, Table] = {}
        for schema in SCHEMAS:
            for (table,) in self.sqlite.execute(
                f"SELECT name FROM {schema}.sqlite_master WHERE type = 'table'"
            ).fetchall():
                self.sqlite.execute(f"DROP TABLE {schema}.{table}")
        self.sqlite.execute(f"DROP TABLE IF EXISTS {MERGED.schema}.{MERGED.table}")

    def transaction(self, body: Callable[[Any], T], moment: Moment | None, statements: int = 1) -> T:
        tables = dict(self.tables)
        try:
            return super().transaction(body, moment, statements)
        except BaseException as error:
            if not (moment is Moment.AFTER_COMMIT and isinstance(error, Died)):
                self.tables = tables
            raise

    def create(self, table: Table, rows: Iterable[Row] = ()) -> None:
        """Create a table with these rows, in the place of one that has its name."""
        self.tables[table.name] = table
        keys = "".join(
            f", {'PRIMARY KEY' if key.primary else 'UNIQUE'} ({', '.join(key.columns)})" for key in table.unique_keys
        )
        columns = ", ".join(
            f"{one.name} {'TEXT COLLATE ci' if one.data_type == 'varchar' else 'INT'}" for one in table.columns
        )
        name = f"{table.name.schema}.{table.name.table}"
        self.sqlite.execute(f"DROP TABLE IF EXISTS {name}")
        self.sqlite.execute(f"CREATE TABLE {name} ({columns}{keys})")
        marks = ", ".join("?" * len(table.columns))
        self.sqlite.executemany(f"INSERT INTO {name} VALUES ({marks})", map(_shown, rows))

    def drop(self, name: TableName) -> None:
        del self.tables[name]
        self.sqlite.execute(f"DROP TABLE {name.schema}.{name.table}")

    def values(self, name: TableName) -> list[Row]:
        found = self.sqlite.execute(f"SELECT * FROM {name.schema}.{name.table}").fetchall()
        return [tuple(map(_canonical, row)) for row in found]

    def state(self, names: Iterable[TableName]) -> State:
        """Return these tables as a source would have them."""
        return {
            name: Held(self.tables[name], tuple(enumerate(self.values(name))), 0, 0)
            for name in names
            if name in self.tables
        }

    def select(self, connection: Any, sql: bytes) -> list[tuple[bytes | None, ...]]:
        found = self.sqlite.execute(sql.decode().replace(" FOR UPDATE", "")).fetchall()
        return [tuple(map(_canonical, row)) for row in found]

    # What the oracle reads

    def frontier(self, source: str) -> tuple[str, str] | None:
        """Return (what all buckets have, how far one has come) of a source; None: it has not begun."""
        sql = f"SELECT min(position), max(position), max(released) FROM {META}.dm_frontier WHERE source = ?"
        ((low, high, released),) = self.sqlite.execute(sql, (source,))
        return None if low is None else (low, max(high, released))

    def chunks(self, source: str) -> dict[TableName, tuple[Chunk, ...]]:
        columns = "source_schema, source_table, low, high, last_key, done"
        sql = f"SELECT {columns} FROM {META}.dm_copy_chunk WHERE source = ?"
        found: dict[TableName, tuple[Chunk, ...]] = {}
        for schema, table, *chunk in self.sqlite.execute(sql, (source,)):
            name = TableName(schema, table)
            found[name] = (*found.get(name, ()), Chunk(*chunk))
        return found

    def waiting(self) -> Counter[tuple[str, TableName, Row]]:
        sql = f"SELECT source, table_schema, table_name, image FROM {META}.dm_contested_row"
        return Counter(
            (source, TableName(schema, table), decode_row(image))
            for source, schema, table, image in self.sqlite.execute(sql)
        )


def _compare(left: str, right: str) -> int:
    one, other = (text.rstrip(" ").upper() for text in (left, right))
    return (one > other) - (one < other)


def _shown(row: Row) -> list[object]:
    return [value if value is None else value.decode() if not value.isdigit() else int(value) for value in row]


def _canonical(value: object) -> bytes | None:
    return None if value is None else str(value).encode()


def covers(held: Held, chunks: tuple[Chunk, ...], row: Row) -> bool:
    """Return True if the key of a row is covered, by the definition in the design."""
    if all(chunk.done for chunk in chunks):
        return True
    if held.table.identity is None:
        return False
    key = held.key_of(row)
    columns = [held.table.column(name) for name in held.table.identity.columns]
    for chunk in chunks:
        first = key[0][0]
        if (chunk.low is not None and first < int(chunk.low)) or (chunk.high is not None and first > int(chunk.high)):
            continue
        if chunk.done:
            return True
        if chunk.last_key is not None:
            values = re.findall(r'"((?:[^"\\]|\\.)*)"', chunk.last_key)
            last = tuple(ordered(column, value.encode()) for column, value in zip(columns, values, strict=True))
            return key <= last
    return False
