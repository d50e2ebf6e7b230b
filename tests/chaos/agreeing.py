"""Shards of a merged table of two sources that make the same DDL, each when it likes, and take rows of every form.

The DDL is one list, which grows; a shard is so far in it, and no more than a few statements ahead of the last one.
In the end all shards have made all of it. Rows stay with their shard (`moving` has the others).

    list     ADD COLUMN c0 …     MODIFY c0 …     DROP COLUMN c0 …     s_0 has made 3, s_1 one, s_2 and s_3 none yet
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql

from testbed import Server
from tests.beside import beside
from tests.chaos.moving import Place, reconnect
from tests.chaos.sharding import Form, literal, make_ddl

TABLE: Final = "id int NOT NULL PRIMARY KEY, u int NOT NULL DEFAULT 1, v varchar(20)"
SPAN: Final = 1_000_000
"""Numbers that the rows of one shard have for themselves."""
AHEAD: Final = 3
MOST: Final = 6
"""Statements of the list: each costs a shard's rows a re-sync."""
HELD: Final = 300
"""Transactions that are held back at once, so that a re-sync takes a while."""
PAUSE_SECONDS: Final = 0.1


@dataclass
class Shard:
    """One source table. `made`: so many statements of the list. `ids`: of its rows."""

    place: Place
    number: int
    made: int = 0
    ids: list[int] = field(default_factory=list)
    next_id: int = 0


@dataclass
class Agreeing:
    """The shards of both sources, which one thread writes to."""

    servers: Mapping[str, Server]
    schema: str
    places: Sequence[Place]
    chance: random.Random
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held during a statement."""
    slowness: int = 1
    """It pauses so many times longer than usual."""
    transactions: int = 0
    changes: list[str] = field(default_factory=list)
    _acting: threading.Lock = field(default_factory=threading.Lock)
    _forms: list[Form] = field(default_factory=lambda: [{}])
    """Before the first statement, and after each."""
    _keys: list[str] = field(default_factory=list)
    _shards: list[Shard] = field(default_factory=list)
    _connections: dict[str, pymysql.connections.Connection[Any]] = field(default_factory=dict)

    def fill(self, rows: int) -> None:
        """Write so many rows into each shard, which exists."""
        self._shards = [Shard(place, number) for number, place in enumerate(self.places)]
        with self._connected():
            for shard in self._shards:
                shard.ids = [shard.number * SPAN + one for one in range(rows)]
                shard.next_id = rows
                values = ", ".join(f"({one}, 'first')" for one in shard.ids)
                self._execute(shard, f"INSERT INTO {shard.place.table} (id, v) VALUES {values}")

    @property
    def ddls(self) -> int:
        """Make so many statements, in all shards."""
        return sum(shard.made for shard in self._shards)

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Write until the block ends, with DDL all the while; then each shard makes what it has not made."""
        with beside(self._run):
            yield
        with self._connected():
            self._make_up_to(len(self.changes), self._shards)

    def agree(self) -> None:
        """Beside the thread: make one statement more in all shards, and many rows of all but the last one before that
        makes it, which are held back until then."""
        with self._acting:
            *early, late = self.chance.sample(self._shards, len(self._shards))
            goal = len(self.changes) + 1
            self._make_up_to(goal, early)
            for _ in range(HELD):
                self._write(self.chance.choice(early))
            self._make_up_to(goal, [late])

    def _make_up_to(self, goal: int, shards: Sequence[Shard]) -> None:
        for shard in shards:
            while shard.made < goal:
                self._change(shard)

    # The thread

    def _run(self, ended: threading.Event) -> None:
        with self._connected():
            while not ended.wait(self.chance.uniform(0, PAUSE_SECONDS * self.slowness)):
                with self._acting:
                    self._write(self.chance.choice(self._shards))
                    self._now_and_then()

    def _now_and_then(self) -> None:
        if self.chance.random() < 0.1:
            last = min(one.made for one in self._shards)
            able = [one for one in self._shards if one.made < min(last + AHEAD, MOST)]
            if able:
                self._change(self.chance.choice(able))

    # Statements

    def _change(self, shard: Shard) -> None:
        if shard.made == len(self.changes):
            ddl = make_ddl(self._forms[-1], self._keys, len(self.changes), self.chance)
            self.changes.append(", ".join(ddl.specs))
            self._forms.append(ddl.form)
        self._execute(shard, f"ALTER TABLE {shard.place.table} {self.changes[shard.made]}")
        shard.made += 1

    def _write(self, shard: Shard) -> None:
        table, columns = shard.place.table, self._forms[shard.made]
        some = [self.chance.choice(shard.ids) for _ in range(3)] if shard.ids else []
        listed = ", ".join(map(str, some))
        match self.chance.randrange(4):
            case 0 if len(shard.ids) > 50:
                self._execute(shard, f"DELETE FROM {table} WHERE id IN ({listed})")
                shard.ids = [one for one in shard.ids if one not in some]
            case 1 | 2 if some:
                name = self.chance.choice(["v", *columns])
                value = self._value(columns.get(name, "varchar"))
                self._execute(shard, f"UPDATE {table} SET {name} = {value} WHERE id IN ({listed})")
            case _:
                one = shard.number * SPAN + shard.next_id
                shard.next_id += 1
                given = self.chance.sample(list(columns), self.chance.randrange(len(columns) + 1))
                values = "".join(f", {self._value(columns[name])}" for name in given)
                names = "".join(f", {name}" for name in given)
                self._execute(shard, f"INSERT INTO {table} (id, v{names}) VALUES ({one}, 'new'{values})")
                shard.ids.append(one)
        self.transactions += 1

    def _value(self, kind: str) -> str:
        return literal(kind, self.chance.randrange(1000))

    def _execute(self, shard: Shard, sql: str) -> None:
        connection = self._connections[shard.place.source]
        with self.turn:
            reconnect(connection)
            connection.cursor().execute(sql)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        self._connections = {
            name: server.connect(database=self.schema, autocommit=True) for name, server in self.servers.items()
        }
        try:
            yield
        finally:
            for connection in self._connections.values():
                connection.close()
