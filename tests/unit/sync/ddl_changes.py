"""Changes of the rows of one source in the model of DDL: inserts, updates, deletes, swaps and hand-overs.

Keys are few and come again: a key that was given up is taken by another row, in another spelling where the key is text.
Values of a unique column are swapped or handed over within a transaction and across transactions, also from one shard
to another. Without any key rows have twins. A row that the target has otherwise, as a user wanted it so, is left
alone. Where shards are to collide, each keeps to unique keys of its own, and takes the same few keys as the others.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row as Values
from airflow_provider_dm.engine.sync.plan.bucket import RUN
from tests.unit.sync.ddl_merged import Merged
from tests.unit.sync.ddl_tables import Row, Tables

MERGED: Final = "m"
UNIQUE_VALUES: Final = 7
COLLIDING_KEYS: Final = 5


class Change(NamedTuple):
    """A change as it is logged: values without names."""

    table: TableName
    before: Values | None
    after: Values | None


def is_shard(name: TableName) -> bool:
    return name.table.startswith(f"{MERGED}_")


@dataclass
class Changes:
    """The rows of a source. `number`: which of the sources.

    `wanted`: the tables of the target by the source's names, without what is merged; `merged`: the table that all of
    m_1, m_2, … go into.
    """

    rng: random.Random
    number: int
    tables: Tables
    wanted: Tables
    merged: Merged
    _last: int = 0
    _given_up: dict[str, list[str]] = field(default_factory=dict)
    """Keys of rows that are gone, by table; of all shards together."""

    def some(self, name: TableName) -> Iterator[Change]:
        """Yield what happens to a table once: one change, or the three of a swap."""
        there = [row for row in self.tables.rows[name] if self._is_in_target(name, row)]
        chance = self.rng.random()
        if len(there) > 1 and chance < 0.15 and "u" in there[0]:
            yield from self._swap(name, *self.rng.sample(there, 2))
        elif there and chance < 0.35:
            yield self.log(name, self.rng.choice(there), None)
        elif there and chance < 0.6:
            row = self.rng.choice(there)
            yield self.log(name, row, self._changed(name, row))
        else:
            yield self.insert(name)

    def insert(self, name: TableName) -> Change:
        columns, rows = self.tables.columns(name), self.tables.rows[name]
        if rows and self._has_twins(name) and self.rng.random() < 0.3:
            return self.log(name, None, dict(self.rng.choice(rows)))
        new: Row = {one: str(self.rng.randrange(3)) for one in columns}
        new["id"] = self._key(name)
        if "u" in new:
            new["u"] = self._unique(name)
        return self.log(name, None, new)

    def log(self, name: TableName, before: Row | None, after: Row | None) -> Change:
        """Let a change happen. `before`: the row itself, not one that is equal."""
        columns, rows = self.tables.columns(name), self.tables.rows[name]
        change = Change(name, _values(columns, before), _values(columns, after))
        if before is not None:
            rows[:] = [row for row in rows if row is not before]
            if after is None or after["id"] != before["id"]:
                self._given_up.setdefault(_pool(name), []).append(str(before["id"]))
        if after is not None:
            rows.append(after)
        if is_shard(name):
            self.merged.log(rows, before, after)
        elif name in self.wanted.rows:
            self._want(name, before, after)
        return change

    def give_away(self, name: TableName, row: Row) -> Change:
        """Delete a row that another source will have, with all of its keys."""
        change = self.log(name, row, None)
        self._given_up[_pool(name)].pop()
        return change

    def keys_differ(self, name: TableName) -> bool:
        """Return True if `id` can be a key, here and in the target."""
        both = (self.tables.rows[name], self.wanted.rows.get(name, []))
        return all(len({str(row["id"]).lower() for row in rows}) == len(rows) for rows in both)

    def _want(self, name: TableName, before: Row | None, after: Row | None) -> None:
        rows, columns = self.wanted.rows[name], self.wanted.tracker.definition(name).columns
        kept: Row = {}
        if before is not None:
            old = next(row for row in rows if before.items() <= row.items())
            rows[:] = [row for row in rows if row is not old]
            kept = old if after is not None and after["id"] == before["id"] else {}
        if after is not None:
            rows.append({one.name: after.get(one.name, kept.get(one.name, one.default)) for one in columns})

    def _is_in_target(self, name: TableName, row: Row) -> bool:
        return name not in self.wanted.rows or any(row.items() <= one.items() for one in self.wanted.rows[name])

    def _has_twins(self, name: TableName) -> bool:
        both = (one for one in (self.tables, self.wanted) if one.has(name))
        return not is_shard(name) and not any(one.tracker.table(name).unique_keys for one in both)

    # Values

    def _swap(self, name: TableName, one: Row, other: Row) -> Iterator[Change]:
        """Two rows swap their unique values, by a third one in between."""
        between = {**one, "u": None}
        yield self.log(name, one, between)
        new = {**other, "u": one["u"]}
        yield self.log(name, other, new)
        yield self.log(name, between, {**between, "u": other["u"]})

    def _changed(self, name: TableName, row: Row) -> Row:
        new, kind = dict(row), self.rng.randrange(4)
        if kind == 0:
            new["id"] = self._key(name, row)
        elif kind == 1 and "u" in row:
            new["u"] = self._unique(name)
        else:
            column = self.rng.choice(self.tables.columns(name)[1:] or ["id"])
            if column not in ("id", "u"):
                new[column] = str(self.rng.randrange(9))
        return new

    def _key(self, name: TableName, row: Row | None = None) -> str:
        is_text = "varchar" in self._type_of_key(name)
        if is_shard(name) and self.merged.collide:
            return self._colliding_key(name, row, is_text=is_text)
        if row is not None and is_text and self.rng.random() < 0.5:
            return str(row["id"]).swapcase()
        given_up = [one for one in self._given_up.get(_pool(name), []) if one.isdigit() is not is_text]
        if given_up and self.rng.random() < 0.5:
            found = self.rng.choice(given_up)
            self._given_up[_pool(name)].remove(found)
            if found.lower() not in set(self._taken(name, "id")):
                return found.swapcase() if self.rng.random() < 0.5 else found
        self._last += 1
        number = (self._last + 1_000 * self.number) * RUN  # each in another bucket
        return f"{self.rng.choice('aA')}{number}" if is_text else str(number)

    def _colliding_key(self, name: TableName, row: Row | None, *, is_text: bool) -> str:
        taken = set(self._taken(name, "id"))
        free = [one for n in range(COLLIDING_KEYS) if (one := f"a{n}" if is_text else str(n * RUN)) not in taken]
        if not free:
            self._last += 1  # no other row has that key
            return str((row or {}).get("id") or f"{'a' * is_text}{(self._last + 1_000 * (self.number + 1)) * RUN}")
        return self.rng.choice(free)

    def _type_of_key(self, name: TableName) -> str:
        return self.tables.tracker.definition(name).columns[0].type.name.lower()

    def _unique(self, name: TableName) -> str | None:
        taken = set(self._taken(name, "u"))
        first = 0 if is_shard(name) and self.merged.collide else 1_000 * self.number
        free = [one for n in range(UNIQUE_VALUES) if (one := str(n + first)) not in taken]
        return self.rng.choice(free) if free and self.rng.random() < 0.8 else None

    def _taken(self, name: TableName, column: str) -> Iterator[str]:
        rows = [*self.tables.rows[name], *self.wanted.rows.get(name, [])]
        if is_shard(name) and not self.merged.collide:
            rows = self.merged.rows
        return (str(row.get(column)).lower() for row in rows)


def encoded(value: str | None) -> bytes | None:
    """Return a value as the log has it."""
    return None if value is None else value.encode()


def _values(columns: list[str], row: Row | None) -> Values | None:
    if row is None:
        return None
    return tuple(encoded(row[column]) for column in columns)


def _pool(name: TableName) -> str:
    return MERGED if is_shard(name) else name.table
