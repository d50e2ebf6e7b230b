"""Coverage: the keys of a source table that the load has copied, and the filter that removes changes of other keys.

    NONE            no key: all changes of the table are skipped, as for a table whose rows are held back
    ranges          the keys of some chunks, each up to the last key that a page has copied
    ALL             every key: all changes are applied

The filter sets a change's `before` to None if the key of `before` is not covered, and `after` likewise; a change with
neither is removed. So an UPDATE that moves a key across the border becomes a DELETE or an INSERT, and the history of a
key is kept or removed as a whole. The filter runs after the event and row filters, which see each change as the source
logged it, and before every fold.

Coverage does not change while the frontier moves, so an epoch that is repeated is filtered in the same way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.key_comparison import KEYS_OF_A_STATEMENT, KeyComparison, KeyOrders
from airflow_provider_dm.engine.reading.keyset import KeyOrder, PageKey, read_key
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Table


@dataclass(frozen=True)
class KeyRange:
    """Keys whose first column is in `low`..`high`, inclusive, and that are not greater than `upto`. None: no limit."""

    low: int | None
    high: int | None
    upto: PageKey | None


Coverage: TypeAlias = tuple[KeyRange, ...]
"""The covered keys of a table, as ranges that do not overlap, in the order of their keys."""
NONE: Final[Coverage] = ()
ALL: Final[Coverage] = (KeyRange(None, None, None),)


def coverages(chunks: Iterable[ChunkProgress]) -> dict[TableName, Coverage]:
    """Return the coverage of each table that has chunks. A table without chunks was created in the log: it is ALL."""
    by_table: dict[TableName, list[ChunkProgress]] = {}
    for chunk in chunks:
        by_table.setdefault(chunk.table, []).append(chunk)
    return {table: _coverage(of_table) for table, of_table in by_table.items()}


def _coverage(chunks: list[ChunkProgress]) -> Coverage:
    if all(chunk.done for chunk in chunks):
        return ALL
    begun = [chunk for chunk in chunks if chunk.done or chunk.last_key is not None]
    ranges = [KeyRange(one.low, one.high, None if one.done else read_key(one.last_key or "")) for one in begun]
    return tuple(sorted(ranges, key=lambda one: (one.low is not None, one.low or 0)))


@dataclass(frozen=True)
class _Border:
    """Decides which keys of one table are covered. `lows`: the lower limits in `ranges`, without an open one."""

    ranges: Coverage
    comparison: KeyComparison
    positions: tuple[int, ...]
    lows: tuple[int, ...]

    @classmethod
    def of(cls, table: Table, ranges: Coverage) -> _Border:
        order = KeyOrder.of(table)
        if order is None:
            raise InvariantBroken(
                "only a table that is copied in the order of a key is covered in part", str(table.name)
            )
        lows = tuple(range_.low for range_ in ranges if range_.low is not None)
        return cls(ranges, KeyComparison.of(order), order.positions, lows)

    def covered(self, row: Row | None, answers: KeyOrders) -> Row | None:
        """Return the row if its key is covered according to `answers`, else None."""
        if row is None:
            return None
        key = tuple([row[position] or b"" for position in self.positions])  # key columns are not null
        candidate = self._candidate(key)
        if candidate is None:
            return None
        return row if candidate.upto is None or self.comparison.compare(key, candidate.upto, answers) <= 0 else None

    def _candidate(self, key: PageKey) -> KeyRange | None:
        """Return the range in which the key's first column is."""
        ranges = self.ranges
        if not self.lows and ranges[0].high is None:
            return ranges[0]  # one range without limits: the column may be of any type
        first = int(key[0])
        number = bisect_right(self.lows, first) + len(ranges) - len(self.lows) - 1
        if number < 0:
            return None
        high = ranges[number].high
        return ranges[number] if high is None or first <= high else None


class CoverageFilter:
    """The filter for the tables that are covered in part. `parts`: by index of the source table."""

    def __init__(self, parts: Mapping[int, tuple[Table, Coverage]], source: Endpoint) -> None:
        self._borders = {index: _Border.of(table, coverage) for index, (table, coverage) in parts.items()}
        self._source = source

    def covered(self, changes: Iterable[RowChange]) -> Iterator[RowChange]:
        """Yield the changes, restricted to covered keys. Raises the errors of `source_session.read`."""
        changes = iter(changes)
        while batch := list(islice(changes, KEYS_OF_A_STATEMENT)):
            answers = KeyOrders()
            kept = [self._covered(change, answers) for change in batch]
            if answers.unanswered:
                answers.complete(self._source)
                kept = [self._covered(change, answers) for change in batch]
            yield from (change for change in kept if change.before is not None or change.after is not None)

    def _covered(self, change: RowChange, answers: KeyOrders) -> RowChange:
        border = self._borders.get(change.table)
        if border is None:
            return change
        return RowChange(change.table, border.covered(change.before, answers), border.covered(change.after, answers))
