"""Random histories of sources for the model of rounds: what a source's tables are at each position of its log.

Nothing here is the engine's, but for the values that describe tables. A source has one or two tables of its own, and
maybe shards of a merged table. An item of its log is a transaction or a DDL statement. Unique values hold in each table
at all times, and in the merged table in the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table

TEXT: Final = "utf8mb4_general_ci"
WORDS: Final = (b"a", b"A ", b"b", b"B", b"C", b"ab", b"Ab", b"d")
NUMBERS: Final = 7
MERGED: Final = TableName("shop", "m")
DEFAULT: Final = b"7"
"""The value of an added column in rows that are there."""


def ordered(column: Column, value: bytes | None) -> tuple[int, bytes]:
    """Return what sorts as the source sorts the column's values: text by a collation that pads and folds case."""
    assert value is not None
    return (0, value.rstrip(b" ").upper()) if column.data_type == "varchar" else (int(value), b"")


@dataclass(frozen=True)
class Held:
    """A table as it is at one position. `lineage` stays with it when it is renamed; each DDL gives it a new `birth`."""

    table: Table
    rows: tuple[tuple[int, Row], ...]
    """Each row with a number, as tables without a key may have it twice."""
    lineage: int
    birth: int

    def values(self) -> list[Row]:
        return [row for _, row in self.rows]

    def key_of(self, row: Row) -> tuple[tuple[int, bytes], ...]:
        """Return what rows are ordered by. For a table with a key."""
        identity = self.table.identity
        assert identity is not None
        columns = [self.table.column(name) for name in identity.columns]
        return tuple(ordered(column, row[column.position]) for column in columns)

    def uniques(self, row: Row) -> Iterator[tuple[object, ...]]:
        for key in self.table.unique_keys:
            columns = [self.table.column(name) for name in key.columns]
            if all(row[column.position] is not None for column in columns):
                yield (key.columns, *(ordered(column, row[column.position]) for column in columns))


State: TypeAlias = Mapping[TableName, Held]
Change: TypeAlias = tuple[TableName, Row | None, Row | None]


class Transaction(NamedTuple):
    """`prepared_at`: the position at which an XA transaction was prepared, whose commit this is; None: no XA."""

    changes: tuple[Change, ...]
    prepared_at: int | None = None


class Ddl(NamedTuple):
    """A statement. `apply` is what it does to a state: of the source, or of the target's tables by the same names."""

    kind: str
    names: tuple[TableName, ...]
    apply: Callable[[State, int], State]
    renames: tuple[tuple[TableName, TableName], ...] = ()


Item: TypeAlias = Transaction | Ddl


@dataclass
class Source:
    """A source: its log, and its state at each position."""

    number: int
    log: list[Item] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"source_{self.number}"

    def open_xa(self, at: int) -> Iterator[int]:
        """Yield where transactions were prepared that are prepared at this position."""
        for position, item in enumerate(self.log):
            if isinstance(item, Transaction) and item.prepared_at is not None and item.prepared_at <= at <= position:
                yield item.prepared_at

    def read(self, name: TableName, view: int, now: int, planned: Table) -> list[Row] | None:
        """Return what a snapshot of `view` answers at `now` to a SELECT of the planned columns; None: an error.

        The snapshot has the rows of `view`. Which table has the name, and which of its columns has which name, is as
        it is now: so are servers (the design, case 6).
        """
        named = self.states[now].get(name)
        if named is None:
            return None
        shown = [one for one in self.states[view].values() if one.lineage == named.lineage]
        if not shown:
            return None
        places = []
        for column in planned.columns:
            if column.name not in named.table.by_name:
                return None
            places.append(named.table.column(column.name).position)
        return [tuple(row[at] if at < len(row) else DEFAULT for at in places) for row in shown[0].values()]


def is_shard(name: TableName) -> bool:
    return name.table.startswith("m_")


def target_of(name: TableName) -> TableName:
    return MERGED if is_shard(name) else name


def table(name: TableName, kind: str) -> Table:
    """Return a table of one of the kinds: a key of a number, of a text, of both, or none; `v` and `w` are values."""
    number: tuple[str, str | None] = ("int", None)
    text = ("varchar", TEXT)
    types = {
        "number": {"k": number, "u": number, "v": number, "w": number},
        "text": {"k": text, "v": number, "w": number},
        "both": {"k": number, "t": text, "v": number, "w": number},
        "none": {"v": number, "w": number},
    }[kind]
    keys = {"number": (("k",), ("u",)), "text": (("k",),), "both": (("k", "t"),), "none": ()}[kind]
    columns = tuple(
        Column(one, at, data_type, f"{data_type}(9)", False, charset=collation and "utf8mb4", collation=collation)
        for at, (one, (data_type, collation)) in enumerate(types.items())
    )
    return Table(name, columns, _indexes(keys))


def _indexes(keys: tuple[tuple[str, ...], ...]) -> tuple[Index, ...]:
    return tuple(
        Index("PRIMARY" if not number else key[0], key, prefixes=(None,) * len(key)) for number, key in enumerate(keys)
    )


class Histories:
    """A maker of the logs of all sources, in one order of time."""

    def __init__(self, rng: random.Random, *, sources: int, shards: int, items: int, xa: bool) -> None:
        self.rng, self.xa = rng, xa
        self.sources = [Source(number) for number in range(sources)]
        self._count = 0
        for source in self.sources:
            schema = f"s{source.number}"
            kinds = [("a", rng.choice(["number", "number", "text", "both", "none"]))]
            kinds += [("b", rng.choice(["number", "text"]))] * (rng.random() < 0.5)
            kinds += [(f"m_{shard}", "number") for shard in range(shards)]
            state = {
                name: Held(table(name, kind), (), self._next(), self._next())
                for name, kind in ((TableName(schema, one), kind) for one, kind in kinds)
            }
            source.states.append(state)
        for _ in range(rng.randint(2, 8) * sources):
            self._fill()
        for source in self.sources:
            source.states = [source.states[-1]]
            source.log.clear()
        for _ in range(items * sources):
            self._something()
        self._part()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def merged_rows(self) -> Iterator[tuple[Source, TableName, Row]]:
        for source in self.sources:
            for name, held in source.states[-1].items():
                if is_shard(name):
                    yield from ((source, name, row) for row in held.values())

    # Transactions

    def _fill(self) -> None:
        source = self.rng.choice(self.sources)
        name = self.rng.choice(list(source.states[-1]))
        row = self._row(source.states[-1][name].table)
        if not self._refused(source, name, row, None, everywhere=True):
            self._log(source, [(name, None, row)])

    def _something(self) -> None:
        source = self.rng.choice(self.sources)
        kind = self.rng.random()
        if kind < 0.14:
            self._ddl(source)
        elif kind < 0.30:
            self._move(source)
        elif kind < 0.42:
            self._swap_unique(source)
        elif kind < 0.55:
            self._there_and_back(source)
        else:
            changes = [one for _ in range(self.rng.choice([1, 1, 2])) if (one := self._change(source)) is not None]
            if len({name for name, _, _ in changes}) == len(changes) > 0:
                self._log(source, changes)

    def _log(self, source: Source, changes: list[Change]) -> None:
        state = dict(source.states[-1])
        for name, before, after in changes:
            rows = dict(state[name].rows)
            if before is not None:
                del rows[next(number for number, row in rows.items() if row == before)]
            if after is not None:
                rows[self._next()] = after
            state[name] = replace(state[name], rows=tuple(rows.items()))
        prepared = self._prepared(source, changes) if self.xa and self.rng.random() < 0.2 else None
        source.log.append(Transaction(tuple(changes), prepared))
        source.states.append(state)

    def _prepared(self, source: Source, changes: list[Change]) -> int:
        """Return where the transaction may have been prepared: behind all DDL of its tables, which waits for it."""
        at = len(source.log) - self.rng.randint(1, 4)
        tables = {name for name, _, _ in changes}
        ddl = [
            number
            for number, item in enumerate(source.log)
            if isinstance(item, Ddl) and (tables & {*item.names} or item.renames)
        ]
        return max(0, at, *(number + 1 for number in ddl))

    def _value(self, column: Column) -> bytes:
        return self.rng.choice(WORDS) if column.data_type == "varchar" else b"%d" % self.rng.randrange(NUMBERS)

    def _row(self, table: Table, like: Row | None = None) -> Row:
        return tuple(
            like[column.position] if like is not None and self.rng.random() < 0.5 else self._value(column)
            for column in table.columns
        )

    def _refused(
        self, source: Source, name: TableName, row: Row, before: Row | None, *, everywhere: bool = False
    ) -> bool:
        held = source.states[-1][name]
        taken = [one for one in held.values() if one != before]
        if everywhere and is_shard(name):
            taken += [one for _, other, one in self.merged_rows() if other != name]
        mine = set(held.uniques(row))
        return any(mine & set(held.uniques(one)) for one in taken)

    def _change(self, source: Source) -> Change | None:
        name = self.rng.choice(list(source.states[-1]))
        held = source.states[-1][name]
        before = self.rng.choice([None, *held.values()])
        if before is not None and self.rng.random() < 0.3:
            return name, before, None
        after = self._row(held.table, before)
        if after == before or self._refused(source, name, after, before, everywhere=self.rng.random() < 0.9):
            return None
        return name, before, after

    def _move(self, source: Source) -> None:
        """A row goes to another shard, of this source in one transaction, or of another one in either order."""
        places = [(one, name) for one in self.sources for name in one.states[-1] if is_shard(name)]
        mine = [name for one, name in places if one is source and source.states[-1][name].rows]
        if not mine or len(places) < 2:
            return
        name = self.rng.choice(mine)
        row = self.rng.choice(source.states[-1][name].values())
        to, there = self.rng.choice([place for place in places if place != (source, name)])
        if self._refused(to, there, row, None):
            return
        if to is source:
            self._log(source, self.rng.sample([(name, row, None), (there, None, row)], 2))
        else:
            steps: list[tuple[Source, list[Change]]] = [(source, [(name, row, None)]), (to, [(there, None, row)])]
            for one, changes in self.rng.sample(steps, 2):
                self._log(one, changes)

    def _swap_unique(self, source: Source) -> None:
        """Two rows swap a unique value, by way of a value that no row has."""
        held = [(name, one) for name, one in source.states[-1].items() if len(one.table.unique_keys) == 2]
        name, one = self.rng.choice(held) if held else (None, None)
        if name is None or one is None or len(one.rows) < 2:
            return
        place = one.table.column(one.table.unique_keys[1].columns[0]).position

        def given(row: Row, value: bytes | None) -> Row:
            return (*row[:place], value, *row[place + 1 :])

        first, second = self.rng.sample(one.values(), 2)
        away = given(first, b"99")
        self._log(
            source,
            [
                (name, first, away),
                (name, second, given(second, first[place])),
                (name, away, given(first, second[place])),
            ],
        )

    def _there_and_back(self, source: Source) -> None:
        """A key moves, and back, maybe several times."""
        name = self.rng.choice(list(source.states[-1]))
        held = source.states[-1][name]
        if not held.rows:
            return
        row = first = self.rng.choice(held.values())
        for _ in range(self.rng.choice([1, 2, 3])):
            after = self.rng.choice([first, self._row(held.table, row)])
            if after != row and not self._refused(source, name, after, row):
                self._log(source, [(name, row, after)])
                row = after

    def _part(self) -> None:
        """Delete what collides in the merged table."""
        seen: set[object] = set()
        for source, name, row in list(self.merged_rows()):
            values = set(source.states[-1][name].uniques(row))
            if values & seen:
                self._log(source, [(name, row, None)])
            else:
                seen |= values

    # DDL

    def _ddl(self, source: Source) -> None:
        own = [name for name in source.states[-1] if not is_shard(name)]
        if not own:
            return
        name = self.rng.choice(own)
        made = self.rng.choice(
            [self._add, self._drop, self._swap, self._key, self._rename, self._truncate, self._again]
        )
        ddl = made(source.states[-1], name)
        if ddl is not None:
            source.log.append(ddl)
            source.states.append(ddl.apply(source.states[-1], self._next()))

    def _add(self, state: State, name: TableName) -> Ddl | None:
        held = state[name]
        if "x" in held.table.by_name:
            return None
        return _altering("add column", name, lambda of: [*of.columns, Column("x", 0, "int", "int(9)", False)])

    def _drop(self, state: State, name: TableName) -> Ddl | None:
        keyed = {one for key in state[name].table.unique_keys for one in key.columns}
        free = [one.name for one in state[name].table.columns if one.name not in keyed]
        if len(free) < 2 or (not keyed and len(free) < 3):
            return None
        gone = self.rng.choice(free)
        return _altering("drop column", name, lambda of: [one for one in of.columns if one.name != gone])

    def _swap(self, state: State, name: TableName) -> Ddl | None:
        """RENAME COLUMN v TO w, RENAME COLUMN w TO v."""
        if not {"v", "w"} <= state[name].table.by_name.keys():
            return None
        other = {"v": "w", "w": "v"}

        def apply(before: State, birth: int) -> State:
            of = before[name].table
            columns = tuple(replace(one, name=other.get(one.name, one.name)) for one in of.columns)
            return {**before, name: replace(before[name], table=replace(of, columns=columns), birth=birth)}

        return Ddl("swap columns", (name,), apply)

    def _key(self, state: State, name: TableName) -> Ddl | None:
        """The two unique keys change places."""
        keys = state[name].table.unique_keys
        if len(keys) != 2:
            return None
        swapped = _indexes((keys[1].columns, keys[0].columns))

        def apply(before: State, birth: int) -> State:
            of = replace(before[name].table, unique_keys=swapped)
            return {**before, name: replace(before[name], table=of, birth=birth)}

        return Ddl("key", (name,), apply)

    def _rename(self, state: State, name: TableName) -> Ddl | None:
        """A rename, or two tables that take each other's names."""
        others = [one for one in state if one != name and not is_shard(one)]
        if others:
            other, aside = others[0], TableName(name.schema, "aside")
            return _renaming("swap tables", ((name, aside), (other, name), (aside, other)))
        return _renaming("rename", ((name, TableName(name.schema, {"a": "c"}.get(name.table, "a"))),))

    def _truncate(self, state: State, name: TableName) -> Ddl | None:
        def apply(before: State, birth: int) -> State:
            return {**before, name: replace(before[name], rows=(), lineage=birth, birth=birth)}

        return Ddl("truncate", (name,), apply)

    def _again(self, state: State, name: TableName) -> Ddl | None:
        return self._truncate(state, name)._replace(kind="drop and create")  # type: ignore[union-attr]


def _altering(kind: str, name: TableName, made: Callable[[Table], list[Column]]) -> Ddl:
    def apply(before: State, birth: int) -> State:
        held = before[name]
        columns = made(held.table)
        places = [held.table.by_name[one.name].position if one.name in held.table.by_name else None for one in columns]
        numbered = tuple(replace(one, position=at) for at, one in enumerate(columns))
        rows = tuple(
            [(number, tuple(DEFAULT if at is None else row[at] for at in places)) for number, row in held.rows]
        )
        of = replace(held.table, columns=numbered)
        return {**before, name: replace(held, table=of, rows=rows, birth=birth)}

    return Ddl(kind, (name,), apply)


def _renaming(kind: str, pairs: tuple[tuple[TableName, TableName], ...]) -> Ddl:
    def apply(before: State, birth: int) -> State:
        state = dict(before)
        for old, new in pairs:
            held = state.pop(old)
            state[new] = replace(held, table=replace(held.table, name=new), birth=birth)
        return state

    names = tuple(dict.fromkeys(name for pair in pairs for name in pair if name.table != "aside"))
    return Ddl(kind, names, apply, pairs)
