"""Random DML and random DDL on the plain tables of one source, from one thread.

Tables live in small independent groups: a life is the history of one group. An accident hits all lives of a source.

What a statement is about is read from the source before it, so nothing here models what DDL does. Statements that the
source refuses (a duplicate in what is to become a key, a value that is too long for what is to become its type) are
as good as others: nothing of them may be seen in the target.

    CREATE TABLE p7_2 (a int NOT NULL, b varchar(20)) · INSERT … · ALTER TABLE p7_2 ADD PRIMARY KEY (a), MODIFY b text
    CREATE TABLE _p7_2_gho LIKE p7_2 · ALTER … · INSERT … SELECT … · RENAME TABLE p7_2 TO _p7_2_del, _p7_2_gho TO p7_2

Each DDL has a session with a time zone of its own, also that of the server's machine (`SYSTEM`), which may have a
summer time. Conversions that the two flavours may compute differently, and which stop the sync between them, are left
to a source and a target of one flavour (`wild`), and those by the rules of a zone to sessions with one offset.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pymysql

from testbed import Server
from tests.beside import beside
from tests.chaos.ghosts import gh_ost, pt_osc
from tests.chaos.moving import reconnect
from tests.chaos.sharding import literal

NAMES: Final = ("a", "b", "c", "d", "Ea", "f f", "g", "order")
"""The names of columns: few, so that a dropped one comes back as another."""
TYPES: Final = (
    "int", "int", "bigint unsigned", "smallint", "decimal(12,3)", "varchar(20)", "varchar(20)", "varchar(60)",
    "char(8)", "text", "varchar(30) CHARACTER SET latin1", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "datetime(3)", "date", "time(2)", "timestamp(6)", "enum('p','q','r')", "set('x','y')", "varbinary(20)", "blob",
    "bit(9)", "double", "year",
)  # fmt: skip
WIDER: Final = {
    "smallint": "int",
    "int": "bigint",
    "char(8)": "varchar(40)",
    "varchar(20)": "varchar(60)",
    "varchar(60)": "text",
    "varchar(30)": "mediumtext",
    "decimal(12,3)": "decimal(16,3)",
    "enum('p','q','r')": "enum('p','q','r','s')",
    "set('x','y')": "set('x','y','z')",
    "varbinary(20)": "varbinary(50)",
    "date": "datetime",
    "datetime(3)": "datetime(6)",
    "time(2)": "time(4)",
    "bit(9)": "bit(20)",
    "blob": "longblob",
}
"""What holds the same values on every server."""
CHARSETS: Final = ("latin1", "utf8mb4", "utf8mb4 COLLATE utf8mb4_bin", "utf8mb4 COLLATE utf8mb4_general_ci", "utf8mb3")
KEYS: Final = (
    ("id int NOT NULL", ""),
    ("id int NOT NULL", ", PRIMARY KEY (id)"),
    ("id int NOT NULL", ", UNIQUE KEY (id)"),
    ("id int NOT NULL, j smallint NOT NULL", ", PRIMARY KEY (j, id)"),
    ("id varchar(20) NOT NULL", ", PRIMARY KEY (id)"),
    ("id int NOT NULL, u int", ", PRIMARY KEY (id), UNIQUE KEY u (u)"),
    ("id int NOT NULL, u smallint", ", UNIQUE KEY u (u)"),
    ("id int NOT NULL, k int", ", PRIMARY KEY (id), KEY k (k), KEY k_id (k, id)"),
)
"""The first columns of a new table, and its keys: without one, of one column or two, text, several, nullable."""
WORDS: Final = ("", "a", "A", "b ", "é", "ß", "It''s", "x\\\\y", "ü", "zz")
MACHINE: Final = "SYSTEM"
ZONES: Final = (MACHINE, MACHINE, "+00:00", "+05:30", "-08:00")
MOST_TABLES: Final = 4
PAUSE_SECONDS: Final = 0.2
"""At most, so that a log that was not read for a minute is caught up in less."""
BUSY_ACTS: Final = 400
REST_SECONDS: Final = 2.0
"""The pause after so many acts: on a slow machine, where apps take a minute to start, the log would grow too long."""
KEPT_ROWS: Final = 60
"""A table that has more is thinned out."""


class Column(NamedTuple):
    """A column as the source has it."""

    name: str
    kind: str
    """The whole type, without a display width."""
    nullable: bool

    @property
    def quoted(self) -> str:
        return f"`{self.name}`"


@dataclass
class Table:
    """A table as the source has it; `keys`: of each index the columns."""

    name: str
    columns: list[Column] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)

    @property
    def quoted(self) -> str:
        return f"`{self.name}`"


@dataclass
class Writer:
    """One connection to a source, which executes these lives in turn."""

    server: Server
    schema: str
    chance: random.Random
    lives: Sequence[Life]
    turn: threading.Lock = field(default_factory=threading.Lock)
    slowness: int = 1
    """Of the target, which executes so many times fewer DDL statements in a second than the others."""

    def begin(self) -> None:
        """Make what the lives begin with."""
        with self.server.connect(database=self.schema, autocommit=True) as connection:
            for life in self.lives:
                life.begin(connection)

    def change_rows(self) -> None:
        """Let a few transactions change rows that have a primary key, in each life."""
        with self.server.connect(database=self.schema, autocommit=False) as connection:
            for life in [*self.lives] * 3:
                life.change_rows(connection)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write until the block ends."""
        with beside(self._run):
            yield

    def _run(self, ended: threading.Event) -> None:
        with self.server.connect(database=self.schema, autocommit=False) as connection:
            acts, pause = 0, PAUSE_SECONDS
            while not ended.wait(self.chance.uniform(0, pause)):
                with self.turn:
                    reconnect(connection)
                    self.chance.choice(self.lives).act(connection)
                busy = acts < BUSY_ACTS // self.slowness
                acts, pause = acts + 1, PAUSE_SECONDS if busy else REST_SECONDS * self.slowness


@dataclass
class Life:
    """The history of a few tables, `{prefix}_…`."""

    prefix: str
    chance: random.Random
    wild: bool = False
    done: Counter[str] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)
    """All statements, for the analysis of a failure."""
    zone: str = MACHINE
    _tables: list[Table] | None = None

    def begin(self, connection: pymysql.connections.Connection[Any]) -> None:
        """Make two of: a table with a key, one with a unique key, one without any; with some rows. And a view."""
        kinds = (", PRIMARY KEY (a)", ", UNIQUE KEY u (a)", "")
        for number, keys in enumerate(self.chance.sample(kinds, 2)):
            columns = "a int NOT NULL, b varchar(20), c decimal(12,3)"
            self._execute(connection, f"CREATE TABLE {self.prefix}_{number} ({columns}{keys})")
            rows = ", ".join(f"({row}, 'first', {row}.5)" for row in range(12))
            self._execute(connection, f"INSERT INTO {self.prefix}_{number} VALUES {rows}")
        self._execute(connection, f"CREATE VIEW {self.prefix}_2 AS SELECT 1 AS one")

    def act(self, connection: pymysql.connections.Connection[Any]) -> None:
        """A transaction of rows, or a change of tables."""
        if self._tables is None:
            self._tables = self._read(connection)
        if not self._tables or self.chance.random() < 0.3:
            self.zone = self.chance.choice(ZONES)
            self._execute(connection, f"SET time_zone = '{self.zone}'")
            for sql in self._ddl(self._tables):
                if not self._execute(connection, sql):
                    self._clear_up(connection)
                    break
            self._tables = None
        elif self._tables:
            self._transact(connection, self._tables)

    def change_rows(self, connection: pymysql.connections.Connection[Any]) -> None:
        """A transaction of rows that have a primary key."""
        self._tables = self._read(connection)
        keyed = [one for one in self._tables if "PRIMARY" in one.keys]
        if keyed:
            self._transact(connection, keyed)

    def _transact(self, connection: pymysql.connections.Connection[Any], tables: Sequence[Table]) -> None:
        swapped = [one for one in tables if "u" in one.keys]
        if swapped and self.chance.random() < 0.3:
            statements = self._swap(self.chance.choice(swapped))
        else:
            statements = [self._dml(tables) for _ in range(self.chance.choice([1, 1, 2, 5]))]
        if all(self._execute(connection, one) for one in statements):
            connection.commit()
        else:
            self.chance.choice([connection.commit, connection.rollback])()

    def _swap(self, table: Table) -> list[str]:
        """Return what lets two rows swap a unique value, by way of a third one, or hands one over."""
        column = f"`{table.keys['u'][0]}`"
        one, other = self.chance.sample(range(12), 2)
        moves = [(one, 99), (other, one), (99, other)]
        return [f"UPDATE {table.quoted} SET {column} = {new} WHERE {column} = {old}" for old, new in moves]

    def _execute(self, connection: pymysql.connections.Connection[Any], sql: str) -> bool:
        what = " ".join(sql.split()[:2])
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
        except (pymysql.err.InterfaceError, ConnectionError):
            raise
        except pymysql.err.Error as error:
            self.done[f"{what} refused"] += 1
            self.texts.append(f"-- {error.args[0]}: {sql}")
            return False
        self.done[what] += 1
        self.texts.append(sql)
        return True

    def _clear_up(self, connection: pymysql.connections.Connection[Any]) -> None:
        """An online DDL that is given up leaves its tables to be dropped."""
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW TABLES LIKE '\\_{self.prefix}\\_%'")
            left = [str(name) for (name,) in cursor.fetchall()]
        for name in left:
            self._execute(connection, f"DROP TABLE `{name}`")

    def _read(self, connection: pymysql.connections.Connection[Any]) -> list[Table]:
        tables: dict[str, Table] = {}
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, column_name, column_type, is_nullable FROM information_schema.columns "
                f"WHERE table_schema = DATABASE() AND table_name LIKE '{self.prefix}\\_%' AND table_name NOT IN "
                "(SELECT table_name FROM information_schema.views WHERE table_schema = DATABASE()) "
                "ORDER BY 1, ordinal_position"
            )
            for name, column, kind, nullable in cursor.fetchall():
                one = Column(column, _without_width(kind), nullable == "YES")
                tables.setdefault(name, Table(name)).columns.append(one)
            cursor.execute(
                "SELECT table_name, index_name, column_name FROM information_schema.statistics "
                f"WHERE table_schema = DATABASE() AND table_name LIKE '{self.prefix}\\_%' ORDER BY 1, 2, seq_in_index"
            )
            for name, key, column in cursor.fetchall():
                tables[name].keys.setdefault(key, []).append(column)
        connection.commit()
        return list(tables.values())

    # Rows

    def _dml(self, tables: Sequence[Table]) -> str:
        table = self.chance.choice(tables)
        column, found_by = self.chance.choice(table.columns), self.chance.choice(table.columns)
        limit = self.chance.choice(["", " LIMIT 1", " LIMIT 3"])
        where = f"{found_by.quoted} <=> {self._value(found_by)}"
        match self.chance.randrange(10):
            case 0 | 1:
                return f"UPDATE {table.quoted} SET {column.quoted} = {self._value(column)} WHERE {where}{limit}"
            case 2:
                return f"UPDATE {table.quoted} SET {column.quoted} = {self._value(column)}{limit}"
            case 3:
                return f"DELETE FROM {table.quoted} WHERE {where}{limit}"
            case 4:
                return f"REPLACE INTO {table.quoted} VALUES {self._row(table)}"
            case 5:
                return f"DELETE FROM {table.quoted} LIMIT {self.chance.randrange(1, KEPT_ROWS // 4)}"
            case _:
                rows = ", ".join(self._row(table) for _ in range(self.chance.choice([1, 1, 3, 8])))
                return f"INSERT INTO {table.quoted} VALUES {rows}"

    def _row(self, table: Table) -> str:
        return f"({', '.join(map(self._value, table.columns))})"

    def _value(self, column: Column) -> str:
        if column.nullable and self.chance.random() < 0.15:
            return "NULL"
        return self._literal(column.kind)

    def _literal(self, kind: str) -> str:
        number = self.chance.randrange(40)
        if kind.partition("(")[0].partition(" ")[0].endswith(("char", "text", "binary", "blob")):
            return f"'{self.chance.choice(WORDS)}{self.chance.choice(['', number])}'"
        return literal(kind, number)

    # Tables

    def _ddl(self, tables: list[Table]) -> list[str]:
        table = self.chance.choice(tables) if tables else None
        if table is None or (len(tables) < MOST_TABLES and self.chance.random() < 0.12):
            return [self._create(tables)]
        makers: list[tuple[int, Callable[[Table], list[str]]]] = [
            (10, self._alter),
            (2, self._index),
            (2, self._primary_key),
            (1, lambda one: [f"TRUNCATE TABLE {one.quoted}"]),
            (1, lambda one: [f"DROP TABLE {self.chance.choice(['', 'IF EXISTS '])}{one.quoted}"]),
            (2, lambda one: self._rename(one, tables)),
            (1, self._convert),
            (2, self._online),
            (2, lambda one: self._view(one, tables)),
        ]
        (chosen,) = self.chance.choices([maker for _, maker in makers], [weight for weight, _ in makers])
        return chosen(table)

    def _new_table(self, tables: Sequence[Table]) -> str:
        taken = {one.name for one in tables}
        return self.chance.choice([name for n in range(12) if (name := f"{self.prefix}_{n}") not in taken])

    def _view(self, table: Table, tables: Sequence[Table]) -> list[str]:
        """Return a statement about names that no table has, some of which views have."""
        name, other = self._new_table(tables), self._new_table(tables)
        match self.chance.randrange(6):
            case 0 | 1:
                return [f"CREATE OR REPLACE VIEW {name} AS SELECT 1 AS one"]
            case 2:
                return [f"DROP VIEW IF EXISTS {name}"]
            case 3:
                return [f"CREATE TABLE IF NOT EXISTS {name} (a int NOT NULL PRIMARY KEY, b varchar(20))"]
            case 4:
                return [f"RENAME TABLE {name} TO {other}"]
            case _:
                return [f"RENAME TABLE {name} TO {other}, {table.quoted} TO {name}"]

    def _create(self, tables: Sequence[Table]) -> str:
        name = self._new_table(tables)
        kind = self.chance.randrange(5) if tables else 4
        if kind == 0:
            return f"CREATE TABLE {name} LIKE {self.chance.choice(tables).quoted}"
        if kind == 1:
            return f"CREATE TABLE {name} SELECT * FROM {self.chance.choice(tables).quoted}"
        names = self.chance.sample(NAMES, self.chance.choice([1, 2, 4]))
        columns = [self._definition(one) for one in names]
        first, keys = self.chance.choice(KEYS)
        charset = self.chance.choice(["", "", f" DEFAULT CHARSET {self.chance.choice(CHARSETS)}"])
        condition = self.chance.choice(["", "IF NOT EXISTS "])
        inside = ", ".join([first, *columns]) + keys
        return f"CREATE TABLE {condition}{name} ({inside}){charset}"

    def _definition(self, name: str) -> str:
        kind = self.chance.choice(TYPES)
        default = ""
        if kind in ("datetime(3)", "timestamp(6)") and self.chance.random() < 0.3:
            digits = kind.partition("(")[2]
            default = f" DEFAULT CURRENT_TIMESTAMP({digits}"
            if self.chance.random() < 0.5:
                default += f" ON UPDATE CURRENT_TIMESTAMP({digits}"
        elif kind not in ("text", "blob", "timestamp(6)") and self.chance.random() < 0.5:
            default = f" DEFAULT {self._literal(kind)}"
            default = default if not kind.startswith("bit") else " DEFAULT b'101'"
        null = self.chance.choice(["", "", " NULL", " NOT NULL"])
        if kind.startswith("timestamp"):  # MariaDB's log does not record whether a TIMESTAMP is NULL by default
            null = " NULL"
        comment = self.chance.choice(["", "", "", " COMMENT 'it''s a \"comment\"'"])
        return f"`{name}` {kind}{null}{default}{comment}"

    def _alter(self, table: Table) -> list[str]:
        specs = [self._spec(table) for _ in range(self.chance.choice([1, 1, 2, 3]))]
        # MySQL's key of a column passes to another column that takes its name in the same statement, with an unknown
        # prefix length: such a statement is refused (docs/limits.md).
        given_up = {_name_of(spec) for spec in specs if spec.startswith(("CHANGE", "DROP", "RENAME"))}
        kept = [spec for spec in specs if not (spec.startswith("ADD") and _name_of(spec) in given_up)]
        return [f"ALTER TABLE {table.quoted} {', '.join(kept)}"]

    def _spec(self, table: Table) -> str:
        column = self.chance.choice(table.columns)
        place = self.chance.choice(["", "", " FIRST", f" AFTER {self.chance.choice(table.columns).quoted}"])
        match self.chance.randrange(12):
            case 10 | 11:
                return f"ADD COLUMN `{self.chance.choice(NAMES)}` datetime(3) DEFAULT CURRENT_TIMESTAMP(3){place}"
            case 0 | 1 | 2:
                return f"ADD COLUMN {self._definition(self.chance.choice(NAMES))}{place}"
            case 3 | 4:
                return f"DROP COLUMN {column.quoted}"
            case 5:
                null = " NULL" if column.nullable else " NOT NULL"
                return f"MODIFY {column.quoted} {WIDER.get(column.kind, column.kind)}{null}{place}"
            case 6:
                null = " NULL" if column.nullable else " NOT NULL"
                new = self.chance.choice(NAMES)
                return f"CHANGE {column.quoted} `{new}` {WIDER.get(column.kind, column.kind)}{null}{place}"
            case 7:
                return f"RENAME COLUMN {column.quoted} TO `{self.chance.choice(NAMES)}`"
            case 8 if not column.kind.endswith(("text", "blob")):  # of which MySQL has no literal
                value = self._literal(column.kind)
                return f"ALTER COLUMN {column.quoted} " + self.chance.choice(["DROP DEFAULT", f"SET DEFAULT {value}"])
            case _ if self.wild:
                return f"MODIFY {column.quoted} {self.chance.choice(self._any_type(column))} NULL"
            case _:
                return f"COMMENT = 'number {self.chance.randrange(9)}'"

    def _any_type(self, column: Column) -> list[str]:
        """Return the types that a column may become in this session, whatever becomes of its values."""
        is_moment = column.kind.startswith("timestamp")
        return [one for one in TYPES if self.zone != MACHINE or one.startswith("timestamp") is is_moment]

    def _parts(self, table: Table) -> str:
        chosen = self.chance.sample(table.columns, min(len(table.columns), self.chance.choice([1, 1, 2])))
        return ", ".join(f"{one.quoted}(9)" if one.kind.endswith(("text", "blob")) else one.quoted for one in chosen)

    def _index(self, table: Table) -> list[str]:
        keys = [key for key in table.keys if key != "PRIMARY"]
        name, unique = self.chance.choice("klm"), self.chance.choice(["", "UNIQUE "])
        match self.chance.randrange(4):
            case 0 if keys:
                return [f"DROP INDEX {self.chance.choice(keys)} ON {table.quoted}"]
            case 1 if keys:
                return [f"ALTER TABLE {table.quoted} RENAME INDEX {self.chance.choice(keys)} TO {name}"]
            case 2:
                return [f"ALTER TABLE {table.quoted} ADD {unique}KEY ({self._parts(table)})"]
            case _:
                return [f"CREATE {unique}INDEX {name} ON {table.quoted} ({self._parts(table)})"]

    def _primary_key(self, table: Table) -> list[str]:
        if "PRIMARY" in table.keys:
            return [f"ALTER TABLE {table.quoted} DROP PRIMARY KEY"]
        column = self.chance.choice(table.columns)
        part = self._parts(Table("", [column]))
        emptied = [f"TRUNCATE TABLE {table.quoted}"] if self.chance.random() < 0.3 else []
        return [*emptied, f"ALTER TABLE {table.quoted} ADD PRIMARY KEY ({part})"]

    def _rename(self, table: Table, tables: Sequence[Table]) -> list[str]:
        new, others = self._new_table(tables), [one for one in tables if one != table]
        match self.chance.randrange(4):
            case 0:
                return [f"ALTER TABLE {table.quoted} RENAME TO {new}"]
            case 1:
                return [f"ALTER TABLE {table.quoted} {self._spec(table)}, RENAME {new}"]
            case 2 if others:
                other = self.chance.choice(others)
                pairs = f"{table.quoted} TO {new}, {other.quoted} TO {table.quoted}, {new} TO {other.quoted}"
                return [f"RENAME TABLE {pairs}"]
            case _:
                return [f"RENAME TABLE {table.quoted} TO {new}"]

    def _convert(self, table: Table) -> list[str]:
        charset = self.chance.choice(CHARSETS)
        if self.chance.random() < 0.3:
            return [f"ALTER TABLE {table.quoted} DEFAULT CHARSET {charset}"]
        return [f"ALTER TABLE {table.quoted} CONVERT TO CHARACTER SET {charset}"]

    def _online(self, table: Table) -> list[str]:
        """Return the statements of gh-ost or pt-online-schema-change for a table without other writers."""
        name, columns = table.name, ", ".join(one.quoted for one in table.columns)
        kept = self.chance.choice(table.columns)
        added = f"ADD COLUMN `{self.chance.choice(NAMES)}` int NOT NULL DEFAULT 3"
        widened = f"MODIFY {kept.quoted} {WIDER.get(kept.kind, kept.kind)}{' NULL' if kept.nullable else ' NOT NULL'}"
        change = self.chance.choice([added, widened, f"{added}, {widened}", f"ADD KEY ({self._parts(table)})"])
        tool = self.chance.choice([gh_ost, pt_osc])
        return tool(name, change, columns)


def _name_of(spec: str) -> str:
    """Return the first name in backticks."""
    return spec.split("`")[1]


def _without_width(kind: str) -> str:
    """Return a type without its display width, which every server accepts.

    >>> _without_width("bigint(20) unsigned"), _without_width("varchar(20)")
    ('bigint unsigned', 'varchar(20)')
    """
    for name in ("tinyint", "smallint", "mediumint", "bigint", "int", "year"):
        if kind.startswith(f"{name}("):
            return name + kind.partition(")")[2]
    return kind
