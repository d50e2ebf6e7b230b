"""Looking into the log of shards that are held, ahead of its being applied: what becomes of some rows there.

Nothing is written. The same changes are read as a re-sync will apply: the same stretches of the same tables, by the
same filters. But the target has not got their form yet, so there is no plan: of a row only the values of unique keys
are looked at, by the names of their columns, and its identity is said by those of the target's key.

What was read is not read again: the log goes on, and with it what is known. Only a row that nobody has asked for before
has it read from the beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, assert_never

from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Epoch, UpToDate
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.binlog.xa import Prepared
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, has_passed, reached
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.row_filter import RowFilter, row_filter
from airflow_provider_dm.engine.schema.codec import Row, Value
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.giving_way import Fate, Values
from airflow_provider_dm.engine.shard.group import Piece, Resync
from airflow_provider_dm.engine.sync.epoch import EpochSize, with_data
from airflow_provider_dm.engine.sync.log.fallback import unreadable
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.prepared import after
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.shard_ddl.resync import end_of_held, held_from, tail_of_held
from airflow_provider_dm.engine.sync.source import SyncSource
from airflow_provider_dm.engine.target.session import target_connection
from airflow_provider_dm.engine.target.subtask import read_subtask
from airflow_provider_dm.engine.target.table_schema import load_table_schemas

LOOK_SECONDS = 1.0
"""A look holds up the sync for no longer, but for the epoch that it has begun."""

Identity: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class Keys:
    """The columns of a merged table that are looked at, in lower case. `identity`: in the order of the target's key.

    `constants`: those that routing fills for the shard.
    """

    identity: tuple[str, ...]
    others: tuple[str, ...] = ()
    constants: tuple[tuple[str, Value], ...] = ()

    @property
    def own(self) -> frozenset[str]:
        """The columns that the shard has itself."""
        return frozenset((*self.identity, *self.others)).difference(name for name, _ in self.constants)


@dataclass(frozen=True)
class LookForRows:
    """The task that looks into one range. Picklable. `wanted`: by table, as `tables` has them."""

    tables: tuple[WantedTable, ...]
    filters: tuple[RowFilter | None, ...]
    keys: tuple[Keys, ...]
    wanted: tuple[frozenset[Identity], ...]

    def __call__(self, one: ByteRange) -> list[tuple[TableName, Identity, Values | None, Values | None]]:
        """Return what happens to wanted rows, in the order of the log."""
        readers = [_reader(table.table, keys) for table, keys in zip(self.tables, self.keys, strict=True)]
        keepers = [None if one is None else one.keeper() for one in self.filters]
        found = []
        try:
            for number, before, after_ in decode_range(one, WantedTables(self.tables)):
                keeps, read, wanted = keepers[number], readers[number], self.wanted[number]
                if keeps is not None and not keeps(before, after_):
                    continue
                old, first = (None, None) if before is None else read(before)
                new, last = (None, None) if after_ is None else read(after_)
                name = self.tables[number].table.name
                if old == new and old in wanted:
                    found.append((name, old, first, last))
                    continue
                if old is not None and old in wanted:
                    found.append((name, old, first, None))
                if new is not None and new in wanted:
                    found.append((name, new, None, last))
        except OSError as error:
            raise unreadable(one.path, error) from error
        return found


def _reader(table: Table, keys: Keys) -> Callable[[Row], tuple[Identity, Values]]:
    """Return the function from a row to its identity and its values in unique keys."""
    places = {column.name.lower(): column.position for column in table.columns}
    there = [(name, places[name]) for name in (*keys.identity, *keys.others) if name in places]
    constants = dict(keys.constants)

    def read(row: Row) -> tuple[Identity, Values]:
        values = {**constants, **{name: row[place] for name, place in there}}
        return tuple([values[name] for name in keys.identity]), values

    return read


@dataclass
class HeldLog:
    """What is known of rows of one group's shards that are held. For one thread."""

    source: SyncSource
    runner: Runner
    store: MetaStore
    stop: threading.Event
    keys: Mapping[TableName, Keys]
    wanted: dict[TableName, frozenset[Identity]]
    fates: dict[tuple[TableName, Identity], Fate] = field(default_factory=dict)
    upto: Location | None = None
    _prepared: tuple[Prepared, ...] = ()

    def knows(self, wanted: Mapping[TableName, Collection[Identity]]) -> bool:
        """Tell whether it has looked for all of these."""
        return all(set(rows) <= self.wanted.get(table, frozenset()) for table, rows in wanted.items())

    def read(self, pieces: Sequence[Piece], size: EpochSize, *, to_the_end: bool = False) -> bool:
        """Read on, for LOOK_SECONDS at most or `to_the_end`. Tell whether all is read. Raises what a re-sync does."""
        held = Resync(tuple(pieces))
        until = time.monotonic() + LOOK_SECONDS
        if not pieces or (self.upto is not None and has_passed(self.upto, held.stops[-1])):
            return True
        here = self.upto or self._beginning(held.lo)
        with closing(tail_of_held(self.source, self.store)) as tail:
            for stop in held.stops:
                if reached(here, stop):
                    continue
                task = self._task(held.before(stop))
                while not has_passed(here, stop):
                    found = self._next(tail, here, stop, task, size)
                    if found is None:
                        return False
                    self.upto = here = found
                    if self.stop.is_set() or (not to_the_end and time.monotonic() > until):
                        return has_passed(here, held.stops[-1])
        return True

    def _beginning(self, known: Location) -> Location:
        subtask = read_subtask(target_connection(self.source.target), self.source.fence.ref)
        if subtask is None:
            raise InvariantBroken("a sync is known to the target", f"{self.source.fence.ref} is not")
        return held_from(known, known, subtask, RelayReader(Path(self.source.spec.relay_dir)))

    def _task(self, pieces: Sequence[Piece]) -> LookForRows:
        known = load_table_schemas(target_connection(self.source.target), self.source.fence.ref)
        skipped = {one.table.name: one.skip_until for one in known}
        rules = self.source.rules
        tables, filters, keys, wanted = [], [], [], []
        for piece in pieces:
            table, counts = piece.table, row_filter(rules.events, rules.expressions, piece.table)
            looked_at = self.keys[table.name]
            needed = {*looked_at.identity, *looked_at.others}
            by_filter = counts.columns() if counts is not None else frozenset()
            optional = [
                one.position
                for one in table.columns
                if one.name.lower() not in needed and one.position not in by_filter
            ]
            skip = max(skipped.get(table.name, ""), piece.after.sort_key)
            tables.append(WantedTable(table, skip, tuple(optional)))
            filters.append(counts)
            keys.append(looked_at)
            wanted.append(self.wanted.get(table.name, frozenset()))
        return LookForRows(tuple(tables), tuple(filters), tuple(keys), tuple(wanted))

    def _next(self, tail: Tail, here: Location, stop: Location, task: LookForRows, size: EpochSize) -> Location | None:
        """Return up to where one more piece is read; None: the log has not got it (a relay pulls it again)."""
        range_bytes = size.range_bytes(self.runner.slots)
        planned = tail.plan(
            here,
            goal=stop,
            limit=size.limit,
            range_bytes=range_bytes,
            prepared=self._prepared,
            open_places=(end_of_held(self.source, stop),),
        )
        match planned:
            case Epoch():
                self._look_into(planned, task)
                return planned.hi
            case DdlStatement():
                rows = planned.rows_epoch()
                if rows is not None:
                    self._look_into(rows, task)
                return planned.end
            case UpToDate(at):
                return stop if has_passed(at, stop) else None
            case _:
                assert_never(planned)

    def _look_into(self, epoch: Epoch, task: LookForRows) -> None:
        if task.tables:
            ship = self.source.job.ship_ranges
            ranges = [with_data(one) for one in epoch.ranges] if ship else list(epoch.ranges)
            for found in self.runner.run(task, ranges):
                for table, identity, first, last in found:
                    known = self.fates.get((table, identity), Fate(first, last))
                    self.fates[table, identity] = known.then(last)
        self._prepared = after(self._prepared, epoch)
