"""Random histories of sources for the model of rounds: what a source's tables are at each position of its log.

Nothing here is the engine's, but for the values that describe tables. A source has one or two tables of its own, and
maybe shards of a merged table. An item of its log is a transaction or a DDL statement. Unique values hold in each table
at all times, and in the merged table in the end.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Table
from tests.unit.sync.rounds_sources import (
    DEFAULT,
    NUMBERS,
    SHARD_DDL,
    WORDS,
    Change,
    Ddl,
    Held,
    Source,
    State,
    Transaction,
    altering,
    indexes,
    is_shard,
    renaming,
    table,
)


class Histories:
    """A maker of the logs of all sources, in one order of time."""

    def __init__(self, rng: random.Random, *, sources: int, shards: int, items: int, xa: bool, ddls: int) -> None:
        self.rng, self.xa, self.ddls = rng, xa, ddls
        self._made: dict[tuple[int, TableName], list[Held]] = {}
        """What each shard was before each DDL of the merged table that it has made."""
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
        if self.ddls and self.rng.random() < 0.05:
            self._agree(source, self.rng.choice([name for name in source.states[-1] if is_shard(name)]))
        elif kind < 0.14:
            self._ddl(source)
        elif kind < (0.50 if self.ddls else 0.30):
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
        """Return where the transaction may have been prepared: after all DDL of its tables, which waits for it."""
        at = len(source.log) - self.rng.randint(1, 4)
        tables = {name for name, _, _ in changes}
        ddl = [
            number
            for number, item in enumerate(source.log)
            if isinstance(item, Ddl) and (tables & {*item.names} or item.renames)
        ]
        return max(0, at, *(number + 1 for number in ddl))

    def _value(self, column: Column) -> bytes:
        return self.rng.choice(WORDS) if column.data_type == "varchar" else b"%d" % self.rng.choice(NUMBERS)

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
        if (everywhere or self.ddls) and is_shard(name):
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
        before, table = dict(zip(source.states[-1][name].table.by_name, row, strict=True)), to.states[-1][there].table
        new = tuple(before.get(column.name, DEFAULT) for column in table.columns)
        values = set(to.states[-1][there].uniques(new))
        if any(values & set(to.states[-1][there].uniques(one)) for one in to.states[-1][there].values()):
            return
        if to is source:
            self._log(source, self.rng.sample([(name, row, None), (there, None, new)], 2))
        else:
            steps: list[tuple[Source, list[Change]]] = [(source, [(name, row, None)]), (to, [(there, None, new)])]
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

    def _agree(self, source: Source, name: TableName) -> None:
        """A shard makes the next DDL of the merged table.

        What has come to it from shards that have made more, of which the target has the row until all have made it, is
        deleted before: the target's DDL waits for rows that wait for their places.
        """
        made = self._made.setdefault((source.number, name), [])
        if len(made) == self.ddls:
            return
        ahead = [held[len(made)] for of, held in self._made.items() if len(held) > len(made)]
        taken = {value for held in ahead for row in held.values() for value in held.uniques(row)}
        for row in source.states[-1][name].values():
            if taken & set(source.states[-1][name].uniques(row)):
                self._log(source, [(name, row, None)])
        made.append(source.states[-1][name])
        ddl = SHARD_DDL[len(made) - 1].of(name)
        source.log.append(ddl)
        source.states.append(ddl.apply(source.states[-1], self._next()))

    def _part(self) -> None:
        """Let all shards make all DDL, and delete what collides in the merged table."""
        shards = [(one, name) for one in self.sources for name in one.states[-1] if is_shard(name)]
        for one, name in self.rng.sample(shards * self.ddls, len(shards) * self.ddls):
            self._agree(one, name)
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
        return altering("add column", name, lambda of: [*of.columns, Column("x", 0, "int", "int(9)", False)])

    def _drop(self, state: State, name: TableName) -> Ddl | None:
        keyed = {one for key in state[name].table.unique_keys for one in key.columns}
        free = [one.name for one in state[name].table.columns if one.name not in keyed]
        if len(free) < 2 or (not keyed and len(free) < 3):
            return None
        gone = self.rng.choice(free)
        return altering("drop column", name, lambda of: [one for one in of.columns if one.name != gone])

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
        swapped = indexes((keys[1].columns, keys[0].columns))

        def apply(before: State, birth: int) -> State:
            of = replace(before[name].table, unique_keys=swapped)
            return {**before, name: replace(before[name], table=of, birth=birth)}

        return Ddl("key", (name,), apply)

    def _rename(self, state: State, name: TableName) -> Ddl | None:
        """A rename, or two tables that take each other's names."""
        others = [one for one in state if one != name and not is_shard(one)]
        if others:
            other, aside = others[0], TableName(name.schema, "aside")
            return renaming("swap tables", ((name, aside), (other, name), (aside, other)))
        return renaming("rename", ((name, TableName(name.schema, {"a": "c"}.get(name.table, "a"))),))

    def _truncate(self, state: State, name: TableName) -> Ddl | None:
        def apply(before: State, birth: int) -> State:
            return {**before, name: replace(before[name], rows=(), lineage=birth, birth=birth)}

        return Ddl("truncate", (name,), apply)

    def _again(self, state: State, name: TableName) -> Ddl | None:
        return self._truncate(state, name)._replace(kind="drop and create")  # type: ignore[union-attr]
