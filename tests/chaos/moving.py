"""A random history of rows that move between source tables of one merged table, and hand unique values over.

At rest no two rows share a key or a unique value. A move is a delete and an insert, in either order, in one transaction
or in two, at once or a while apart; so for a moment both rows are there, or none.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pymysql

from testbed import Server
from tests.beside import beside

TABLE: Final = "id int NOT NULL PRIMARY KEY, u int NOT NULL, v varchar(300) NOT NULL, UNIQUE KEY u (u)"
MOVING: Final = 80
"""Rows that move; they lie among the others, so that each page of a copy has some."""
AMONG: Final = 500
SPARE_VALUES: Final = 40
PAUSE_SECONDS: Final = 0.01
LONGEST_GAP: Final = 0.3
"""Between the halves of a move. Rows that are twice there for longer are a collision (`merge.contests`)."""


class Place(NamedTuple):
    """A source table."""

    source: str
    table: str


class Step(NamedTuple):
    """A statement at a source."""

    source: str
    sql: str


@dataclass
class Row:
    """A row's place, and its unique value."""

    place: Place
    u: int


@dataclass
class Mover:
    """`places`: the source tables, which exist and are empty."""

    servers: Mapping[str, Server]
    schema: str
    places: list[Place]
    chance: random.Random
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held during a transaction."""
    slowness: int = 1
    """It pauses so many times longer than usual."""
    transactions: int = 0
    _rows: dict[int, Row] = field(default_factory=dict)
    _values: list[int] = field(default_factory=list)
    """Unique values that no row has."""

    def fill(self, rows: int) -> None:
        """About so many rows that stay, and those that move."""
        ids = [one * AMONG for one in range(MOVING)]
        self._values = [-number for number in range(1, SPARE_VALUES + 1)]
        held: dict[Place, list[str]] = {place: [] for place in self.places}
        for number in ids:
            place = self.chance.choice(self.places)
            self._rows[number] = Row(place, number)
            held[place].append(f"({number}, {number}, 'first')")
        staying = [number for number in range(1, MOVING * AMONG, MOVING * AMONG // rows) if number % AMONG]
        for at, number in enumerate(staying):
            held[self.places[at % len(self.places)]].append(f"({number}, {number}, REPEAT('x', 200))")
        for place, values in held.items():
            with self.servers[place.source].connect(database=self.schema) as connection:
                for start in range(0, len(values), 1000):
                    connection.cursor().execute(
                        f"INSERT INTO {place.table} VALUES {', '.join(values[start : start + 1000])}"
                    )

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Write until the block ends; then all is at rest."""
        with beside(self._run):
            yield

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(self.chance.uniform(0, 2 * PAUSE_SECONDS * self.slowness)):
            steps = [step for _ in range(self.chance.choice([1, 1, 1, 2, 4])) for step in self._something()]
            self._execute(steps)

    def _execute(self, steps: list[Step]) -> None:
        """Neighbours of one source are one transaction, or several."""
        transaction: list[Step] = []
        for step in steps:
            if transaction and (transaction[-1].source != step.source or self.chance.random() < 0.4):
                self._commit(transaction)
                transaction = []
                if self.chance.random() < 0.03:
                    time.sleep(self.chance.uniform(0, LONGEST_GAP))
            transaction.append(step)
        self._commit(transaction)

    def _commit(self, transaction: list[Step]) -> None:
        if not transaction:
            return
        for _ in range(50):
            server = self.servers[transaction[0].source]
            with self.turn, server.connect(database=self.schema, autocommit=False) as connection:
                with suppress(pymysql.err.OperationalError):  # a lock that a snapshot of the copy has
                    for step in transaction:
                        connection.cursor().execute(step.sql)
                    connection.commit()
                    self.transactions += 1
                    return
            time.sleep(0.05)
        raise AssertionError("a source never lets us write")

    # What happens

    def _something(self) -> list[Step]:
        there = list(self._rows)
        absent = [number * AMONG for number in range(MOVING) if number * AMONG not in self._rows]
        match self.chance.randrange(12):
            case 0 if absent:
                return [self._insert(self.chance.choice(absent), self.chance.choice(self.places), self._spare())]
            case 1 if self._may_lose_one():
                return [self._delete(self.chance.choice(there))]
            case 2 | 3:
                return [self._change(self.chance.choice(there), None)]
            case 4:
                return [self._change(self.chance.choice(there), self._spare())]
            case 5 | 6:
                return self._hand_over(*self.chance.sample(there, 2))
            case _ if len(self.places) > 1:
                return self._move(self.chance.choice(there))
            case _:
                return [self._change(self.chance.choice(there), None)]

    def _may_lose_one(self) -> bool:
        return len(self._rows) > MOVING // 2

    def _spare(self) -> int:
        self.chance.shuffle(self._values)
        return self._values.pop()

    def _word(self) -> str:
        return f"'v{self.chance.randrange(1000)}'"

    def _insert(self, number: int, place: Place, u: int) -> Step:
        self._rows[number] = Row(place, u)
        return Step(place.source, f"INSERT INTO {place.table} VALUES ({number}, {u}, {self._word()})")

    def _delete(self, number: int) -> Step:
        row = self._rows.pop(number)
        self._values.append(row.u)
        return Step(row.place.source, f"DELETE FROM {row.place.table} WHERE id = {number}")

    def _change(self, number: int, u: int | None) -> Step:
        row = self._rows[number]
        assignments = f"v = {self._word()}"
        if u is not None:
            self._values.append(row.u)
            row.u = u
            assignments += f", u = {u}"
        return Step(row.place.source, f"UPDATE {row.place.table} SET {assignments} WHERE id = {number}")

    def _move(self, number: int) -> list[Step]:
        """Move it to another table, as it is or changed, maybe with another unique value."""
        row = self._rows[number]
        to = self.chance.choice([place for place in self.places if place != row.place])
        u = row.u
        delete = self._delete(number)
        if self.chance.random() < 0.3:
            u = self._spare()
        else:
            self._values.remove(u)
        insert = self._insert(number, to, u)
        if to.source == row.place.source and u == row.u and self.chance.random() < 0.3:
            copied = f"INSERT INTO {to.table} SELECT id, u, v FROM {row.place.table} WHERE id = {number}"
            return [Step(to.source, copied), delete]
        return self._in_either_order(delete, insert)

    def _hand_over(self, giver: int, taker: int) -> list[Step]:
        """The one's unique value is the other's."""
        u = self._rows[giver].u
        same_table = self._rows[giver].place == self._rows[taker].place
        deletes = self.chance.random() < 0.5 and self._may_lose_one()
        gives = self._delete(giver) if deletes else self._change(giver, self._spare())
        self._values.remove(u)
        takes = self._change(taker, u)
        return [gives, takes] if same_table else self._in_either_order(gives, takes)

    def _in_either_order(self, one: Step, other: Step) -> list[Step]:
        return [one, other] if self.chance.random() < 0.5 else [other, one]


def reconnect(connection: pymysql.Connection[Any]) -> None:
    """Connect again if the connection has ended: its source may have failed over."""
    try:
        connection.ping()
    except (pymysql.err.Error, OSError):
        connection.connect()
