"""The sources of the model of rounds: tables, what a log has of them, and how it is read.

Nothing here is the engine's, but for the values that describe tables, and what knows which transactions are repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from airflow_provider_dm.engine.binlog.applied import Remaining
from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.mysql.gtid import MysqlGtidSet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.plan.bucket import RUN

TEXT: Final = "utf8mb4_general_ci"
WORDS: Final = (b"a", b"A ", b"b", b"B", b"C", b"ab", b"Ab", b"d")
NUMBERS: Final = range(0, 7 * RUN, RUN)
"""Keys, each in another bucket."""
MERGED: Final = TableName("shop", "m")
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
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


class Place(NamedTuple):
    """A place in the log of the first server of a source, or of the one that has taken over."""

    server: int
    number: int

    @property
    def behind(self) -> Place:
        return self._replace(number=self.number + 1)


class Ddl(NamedTuple):
    """A statement. `apply` is what it does to a state: of the source, or of the target's tables by the same names."""

    kind: str
    names: tuple[TableName, ...]
    apply: Callable[[State, int], State]
    renames: tuple[tuple[TableName, TableName], ...] = ()

    @property
    def is_agreed(self) -> bool:
        """Return whether all shards of the merged table make it."""
        return is_shard(self.names[0])


Item: TypeAlias = Transaction | Ddl


@dataclass
class Source:
    """A source: its log, and its state at each position.

    `pulled`: another server has taken over, and so much of the first one's log was pulled before; `first`: with this
    item the new server's log begins, so that it repeats all from there on.
    """

    number: int
    log: list[Item] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    pulled: int | None = None
    first: int = 0

    @property
    def name(self) -> str:
        return f"source_{self.number}"

    def state_of(self, place: Place) -> int:
        """Return how much of the history is before a place: more than the new server's own log has there."""
        return max(place.number, self.pulled or 0) if place.server else place.number

    def location(self, place: Place) -> Location:
        at = self.state_of(place)
        return _location(place, f"{UUID}:1-{at}" if at else "", f"server-{place.server}")

    def place_of(self, sort_key: str) -> Place:
        suffix, _, number = sort_key.split(".")
        return Place(int(suffix) - 1, int(number))

    def ddl_at(self, place: Place) -> Ddl | None:
        """Return the statement that comes next, unless it is repeated there, or was not pulled."""
        end = len(self.log) if self.pulled is None or place.server else self.pulled
        item = self.log[place.number] if self.state_of(place) == place.number < end else None
        return item if isinstance(item, Ddl) else None

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


@lru_cache(4096)
def _location(place: Place, gtid_set: str, server: str) -> Location:
    return Location("bin.000001", place.number, gtid_set, place.server + 1, server)


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
    return Table(name, columns, indexes(keys))


def indexes(keys: tuple[tuple[str, ...], ...]) -> tuple[Index, ...]:
    return tuple(
        Index("PRIMARY" if not number else key[0], key, prefixes=(None,) * len(key)) for number, key in enumerate(keys)
    )


class ShardDdl(NamedTuple):
    """A DDL of the merged table: it adds a column, or drops one."""

    column: str
    adds: bool

    def of(self, name: TableName) -> Ddl:
        def made(table: Table) -> list[Column]:
            kept = [one for one in table.columns if one.name != self.column]
            return [*kept, Column(self.column, 0, "int", "int(9)", False)] if self.adds else kept

        return altering(
            f"ALTER TABLE shop.m {'ADD' if self.adds else 'DROP'} COLUMN {self.column}{' int' if self.adds else ''}",
            name,
            made,
        )

    def took_effect(self, names: Collection[str]) -> bool:
        return bool(names) and (self.column in names) is self.adds


SHARD_DDL: Final = (ShardDdl("y", True), ShardDdl("v", False))
"""In their order."""


def altering(kind: str, name: TableName, made: Callable[[Table], list[Column]]) -> Ddl:
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


def renaming(kind: str, pairs: tuple[tuple[TableName, TableName], ...]) -> Ddl:
    def apply(before: State, birth: int) -> State:
        state = dict(before)
        for old, new in pairs:
            held = state.pop(old)
            state[new] = replace(held, table=replace(held.table, name=new), birth=birth)
        return state

    names = tuple(dict.fromkeys(name for pair in pairs for name in pair if name.table != "aside"))
    return Ddl(kind, names, apply, pairs)


class Logged(NamedTuple):
    """A piece of a log, in the place of a byte range. `began`: where the task's log begins; `applied`: what is applied
    before it, of which a new server's log may repeat some."""

    source: Source
    low: Place
    high: int
    began: int
    applied: str
    path: str = ""


def logged(one: Logged, wanted: WantedTables, *, take: object = None) -> Iterator[RowChange]:
    """Yield the changes as the decoder does. What was prepared before the task's log is in no log of it."""
    low, left = one.low.number, None
    if one.low.server and one.applied:
        own = MysqlGtidSet.parse_text(f"{UUID}:1-{low}" if low else "")
        left = Remaining.of(MysqlGtidSet.parse_text(one.applied), own, "")
    for number, item in enumerate(one.source.log[low : one.high], low):
        if left and left.take((uuid.UUID(UUID).bytes, number + 1), ""):
            continue
        if isinstance(item, Ddl) or (item.prepared_at is not None and item.prepared_at < one.began):
            continue
        for name, before, after in item.changes:
            index = wanted.find(name)
            if index is not None:
                yield RowChange(index, before, after)
