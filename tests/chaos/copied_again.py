"""A plain table of each source that is copied again: its key changes while it is copied in part.

    copied in part by id      DROP KEY u, ADD UNIQUE KEY u (k)      emptied, and copied by k, from its beginning

Small transactions write to it all the while, and move rows from one side of what is copied to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pymysql

from testbed import Server
from tests.chaos.altering import Life

ROWS: Final = 6_000
FACTOR: Final = 7
"""Has no divisor in common with the number of rows, so that `FACTOR * id % rows` is unique."""
AT_ONCE: Final = 2_000
COLUMNS: Final = ("id", "k")
"""Each is the only key at times."""


@dataclass
class LifeCopiedAgain(Life):
    """The history of such a table."""

    rows: int = ROWS
    """At first; so many that they are copied in several rounds."""
    keys: int = 0
    """So many times its key has changed."""

    @property
    def table(self) -> str:
        return f"{self.prefix}_0"

    def begin(self, connection: pymysql.connections.Connection[Any]) -> None:
        """Make the table, with all of its rows."""
        columns = "id int NOT NULL, k int NOT NULL, v varchar(60), UNIQUE KEY u (id)"
        self._execute(connection, f"CREATE TABLE {self.table} ({columns})")
        for first in range(0, self.rows, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, self.rows))
            rows = ", ".join(f"({one}, {self._k(one)}, 'first')" for one in numbers)
            connection.cursor().execute(f"INSERT INTO {self.table} VALUES {rows}")
        connection.commit()

    def act(self, connection: pymysql.connections.Connection[Any]) -> None:
        """A transaction of rows; what is there already is refused."""
        for _ in range(self.chance.choice([1, 1, 2, 5])):
            self._execute(connection, self._change())
        self.chance.choice([connection.commit, connection.commit, connection.rollback])()

    def _k(self, number: int) -> int:
        """Return the second column of the row with this first one: both are unique, whichever is the key."""
        return number * FACTOR % self.rows

    def _change(self) -> str:
        number, column = self.chance.randrange(self.rows), self.chance.choice(COLUMNS)
        match self.chance.randrange(5):
            case 0:
                return f"DELETE FROM {self.table} WHERE {column} = {number}"
            case 1:
                return f"REPLACE INTO {self.table} VALUES ({number}, {self._k(number)}, 'again')"
            case 2:
                return f"UPDATE {self.table} SET id = -1 - id, k = -1 - k WHERE {column} IN ({number}, {-1 - number})"
            case 3:
                return f"INSERT INTO {self.table} VALUES ({-1 - number}, {-1 - self._k(number)}, 'new')"
            case _:
                return f"UPDATE {self.table} SET v = 'v{number}' WHERE {column} BETWEEN {number} AND {number + 20}"

    def change_key(self, server: Server, schema: str) -> None:
        self.keys += 1
        key = COLUMNS[self.keys % len(COLUMNS)]
        with server.connect(database=schema, autocommit=True) as connection:
            self._execute(connection, f"ALTER TABLE {self.table} DROP KEY u, ADD UNIQUE KEY u ({key})")
