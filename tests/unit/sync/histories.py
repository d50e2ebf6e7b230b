"""Random histories of sources whose tables go into the same target tables.

Every source has a log of its own, and they have one order in time. A source table keeps its own unique keys at all
times. Across source tables keys are few and collide all the time: rows move from one to another in both orders, unique
values are handed over, some changes care for nobody else's keys. In the end no two rows collide, unless that is asked
for.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table

Rows = Counter[Row]
Logged = tuple[int, Row | None, Row | None]
"""Number of the source table, row before, row after: what the engine decodes."""

KEYS = 6


def table(name: str, columns: str, *keys: Index) -> Table:
    primary = {one for key in keys if key.primary for one in key.columns}
    described = tuple(Column(one, at, "int", "int", one not in primary) for at, one in enumerate(columns))
    return Table(TableName("shop", name), described, keys)


PRIMARY = Index("PRIMARY", ("k",), prefixes=(None,))
UNIQUE_U = Index("u", ("u",), prefixes=(None,))
TARGETS = (
    table("plain", "kv", PRIMARY),
    table("unique", "kuv", PRIMARY, UNIQUE_U),
    table("keyless", "vw"),
    table("nullable", "uv", UNIQUE_U),
)
UNIQUE_COLUMNS: tuple[tuple[int, ...], ...] = ((0,), (0, 1), (), (0,))
NULLABLE = 3


class Place(NamedTuple):
    """A source table."""

    source: int
    number: int


class Pending(NamedTuple):
    """The second half of a move: when it is due, and what it is. `insert` None: the delete."""

    due: int
    place: Place
    key: Row
    insert: Row | None


@dataclass
class Layout:
    """The tables that each source has. All have shards of all targets, but for `nullable`: only the first has one.

    Without a key to tell its rows apart, a unique value of `nullable` cannot be handed over (docs/limits.md).
    """

    sources: int = 1
    shards: int = 1
    targets: list[list[int]] = field(init=False)
    """The target of each source's tables, by number."""
    places: list[Place] = field(init=False)
    tables: dict[Place, Table] = field(init=False)
    """Definitions: those of the targets, under names of their own."""

    def __post_init__(self) -> None:
        self.targets = [
            [
                target
                for shard in range(self.shards)
                for target in range(len(TARGETS))
                if target != NULLABLE or (source, shard) == (0, 0)
            ]
            for source in range(self.sources)
        ]
        self.places = [Place(source, number) for source, one in enumerate(self.targets) for number in range(len(one))]
        self.tables = {place: self._table(place) for place in self.places}

    def feeding(self, target: int) -> list[Place]:
        return [place for place in self.places if self.target(place) == target]

    def target(self, place: Place) -> int:
        return self.targets[place.source][place.number]

    def _table(self, place: Place) -> Table:
        like = TARGETS[self.target(place)]
        name = TableName(f"shop_{place.source}", f"{like.name.table}_{place.number}")
        return Table(name, like.columns, like.unique_keys)


@dataclass
class History:
    """Logs, and of each source the state of its tables at each position of its log."""

    layout: Layout
    rng: random.Random
    orderly: int = 0
    """For so many changes no two source tables have a row with the same key at the same time."""
    logs: list[list[Logged]] = field(default_factory=list)
    states: list[list[tuple[Rows, ...]]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    """The source of each change, in the order of time."""
    _pending: list[Pending] = field(default_factory=list)

    @classmethod
    def make(
        cls, rng: random.Random, changes: int, layout: Layout, *, collide: bool = False, orderly: int = 0
    ) -> History:
        history = cls(layout, rng, orderly)
        for targets in layout.targets:
            history.logs.append([])
            history.states.append([tuple(Counter() for _ in targets)])
        while len(history.order) < changes:
            history._something()
        history._finish_moves()
        history._part()
        if collide:
            history._collide()
        return history

    @staticmethod
    def ends_transaction(position: int) -> bool:
        """Tell whether a transaction of a source ends there, as far as that matters: two thirds of all changes do."""
        return position % 3 != 0

    def positions(self, moment: int) -> list[int]:
        """Return how far each log was when so many changes were made altogether."""
        counted = Counter(self.order[:moment])
        return [counted[source] for source in range(self.layout.sources)]

    def state(self, target: int, at: int = -1) -> Rows:
        """All rows of a target in the end, or behind so many changes of each source."""
        places = self.layout.feeding(target)
        return sum((self.states[place.source][at][place.number] for place in places), start=Counter())

    # Making it

    @property
    def _is_orderly(self) -> bool:
        return len(self.order) < self.orderly

    def _rows(self, place: Place) -> Rows:
        return self.states[place.source][-1][place.number]

    def _log(self, place: Place, before: Row | None, after: Row | None) -> None:
        states = list(self.states[place.source][-1])
        rows = Counter(states[place.number])
        if before is not None:
            rows -= Counter([before])
        if after is not None:
            rows[after] += 1
        states[place.number] = rows
        self.states[place.source].append(tuple(states))
        self.logs[place.source].append((place.number, before, after))
        self.order.append(place.source)

    def _something(self) -> None:
        due = [one for one in self._pending if one.due <= len(self.order)]
        if due:
            self._pending.remove(due[0])
            self._second_half(due[0])
        elif self.layout.sources * self.layout.shards > 1 and self.rng.random() < 0.3:
            self._move()
        else:
            self._change()

    def _change(self) -> None:
        """A change that no unique key of the source table refuses, and mostly none of another one."""
        place = self.rng.choice(self.layout.places)
        rows = list(self._rows(place).elements())
        before = self.rng.choice(rows) if rows and self.rng.random() < 0.65 else None
        if before is not None and self._is_moving(place, before):
            return
        after = self._row(place, before) if before is None or self.rng.random() < 0.6 else None
        careful = self._is_orderly or self.rng.random() < 0.85
        if after is None or not self._refused(place, after, before, everywhere=careful):
            self._log(place, before, after)

    def _row(self, place: Place, before: Row | None) -> Row:
        target = self.layout.target(place)
        keys = UNIQUE_COLUMNS[target]
        values: list[bytes | None] = []
        for at, one in enumerate(TARGETS[target].columns):
            if before is not None and self.rng.random() < 0.6:
                values.append(before[at])
            elif one.nullable and self.rng.random() < 0.15:
                values.append(None)
            else:
                values.append(b"%d" % self.rng.randrange(KEYS if at in keys else 3))
        return tuple(values)

    def _refused(self, place: Place, after: Row, before: Row | None, *, everywhere: bool) -> bool:
        target = self.layout.target(place)
        for other in self.layout.feeding(target) if everywhere else [place]:
            rows = list(self._rows(other).elements())
            if other == place and before is not None:
                rows.remove(before)
            if any(_collide(target, row, after) for row in rows):
                return True
        return False

    def _move(self) -> None:
        """A row goes to another source table, as it is or changed; its two halves in either order, maybe apart."""
        there = [place for place in self.layout.places if self.layout.target(place) < 2 and self._rows(place)]
        if not there:
            return
        place = self.rng.choice(there)
        row = self.rng.choice(list(self._rows(place)))
        target = self.layout.target(place)
        to = self.rng.choice([one for one in self.layout.feeding(target) if one != place])
        new = row if self.rng.random() < 0.5 else (row[0], *self._row(place, row)[1:])
        if self._is_moving(place, row) or self._refused(to, new, None, everywhere=False):
            return
        if any(
            _collide(target, other, new) and (one, other) != (place, row)
            for one in (self.layout.feeding(target) if self._is_orderly else ())
            for other in self._rows(one)
        ):
            return
        due = len(self.order) + 1 + self.rng.choice([0, 0, 1, 3, 10])
        if self._is_orderly or self.rng.random() < 0.5:
            self._log(place, row, None)
            self._pending.append(Pending(due, to, new, new))
        else:
            self._log(to, None, new)
            self._pending.append(Pending(due, place, row, None))

    def _second_half(self, move: Pending) -> None:
        if move.insert is not None:
            if not self._refused(move.place, move.insert, None, everywhere=self._is_orderly):
                self._log(move.place, None, move.insert)
            return
        for row in list(self._rows(move.place)):
            if row[0] == move.key[0]:
                self._log(move.place, row, None)

    def _is_moving(self, place: Place, row: Row) -> bool:
        """Tell whether a row is between the halves of its move, when nobody touches it where all is orderly."""
        target = self.layout.target(place)
        return self._is_orderly and any(
            self.layout.target(one.place) == target and one.key[0] == row[0] for one in self._pending
        )

    def _finish_moves(self) -> None:
        while self._pending:
            self._second_half(self._pending.pop(0))

    def _part(self) -> None:
        """Delete what collides in the end."""
        for target in range(len(TARGETS)):
            kept: list[Row] = []
            for place in self.layout.feeding(target):
                for row in list(self._rows(place).elements()):
                    if any(_collide(target, row, other) for other in kept):
                        self._log(place, row, None)
                    else:
                        kept.append(row)

    def _collide(self) -> None:
        """Two source tables get a row with the same key, or the same unique value, for good."""
        target = self.rng.randrange(2)
        one, other = self.rng.sample(self.layout.feeding(target), 2)
        rows: list[Row] = [(b"91", b"1"), (b"91", b"2")]
        if target == 1:
            rows = [(b"91", b"91", b"1"), (self.rng.choice([b"91", b"92"]), b"91", b"2")]
        for place, row in zip((one, other), rows, strict=True):
            self._log(place, None, row)


def _collide(target: int, one: Row, other: Row) -> bool:
    return any(one[at] is not None and one[at] == other[at] for at in UNIQUE_COLUMNS[target])
