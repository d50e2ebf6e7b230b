"""What order is left to keep after folding, and how it is kept: two waves.

Every key now has one change, so order matters only where one row gives up a unique value that another row takes. Wave 1
deletes all rows that vanish or whose unique values change; when it is committed everywhere, wave 2 writes. At that
point every row still in the target holds unique values of the state at the end of the epoch, so no write can meet a
foreign value, whatever their order. Inside a bucket's transaction deletes come before writes, which is enough for
tables whose identity is their only unique key (rows that a collation takes for one are in one bucket): they need no
wave 1.

    t (id PRIMARY KEY, a UNIQUE, b UNIQUE) holds (1, a=1, b=1) and (2, a=2, b=2); a transaction swaps their `a`:

    log       1: a=1 -> a=0      2: a=2 -> a=1      1: a=0 -> a=2
    folded    1: (a=1, b=1) -> (a=2, b=1)           2: (a=2, b=2) -> (a=1, b=2)
    wave 1    DELETE 1, DELETE 2                    both give up a unique value; committed in every bucket
    wave 2    INSERT (1, 2, 1), INSERT (2, 1, 2)    written at once, whichever came first would have met the other's `a`

*Exact*: the target is what the log says, so new rows are INSERTs (a duplicate is an error, never overwritten),
changed rows are upserts that must find their row, deletions must find theirs.

*Kept*: filters leave deletes out (`rules.row_filter`), so rows are there that the log knows nothing of. Every change
says what its key's row is to be, and that is written over whatever is there, by the identity key only: a row that is
gone at the source is not removed for another one that has taken its unique value; such a row stops the task. Keys
that the target may hold for one take turns (`turns`), the first in wave 2, the others behind it. And changes that
depend on each other are not sorted at all: they are written in their order, in one bucket (`in_order`).

*Every change* (`compact: false`): nothing was folded. What depends on each other is in one bucket, and level by level
each change is sorted as if it were all there is (`dependence`); deletes come before writes within a level, so there is
no wave 1, and further levels follow in the same transaction. So it is done where tables of one source may write over
each other's rows (`last_wins`).

In merged tables the same holds for the rows of each source table by itself; what becomes of a row whose place another
one's row holds is `merge.writer`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.bucket import BucketOf, bucket_function, bucket_of_all
from airflow_provider_dm.engine.sync.plan.change import Change, Key
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.compactor import Counts, Folded, Keyed, count_into, fold_into
from airflow_provider_dm.engine.sync.write.dependence import Kept, Order, marks_of
from airflow_provider_dm.engine.sync.write.inserts import Inserts, by_bucket
from airflow_provider_dm.engine.sync.write.turns import turns_of


@dataclass
class TableWork:
    """The work of one transaction on the rows of one source table (or of those folded with it), in this order.

    Rows are in the target part's column order."""

    delete: list[Row] = field(default_factory=list)
    """Rows to delete by identity key, given by their last known image."""
    gone: list[Row] = field(default_factory=list)
    """Rows of which nothing should be there, to delete by identity key (where rows may collide)."""
    remove: list[tuple[Row, int]] = field(default_factory=list)
    """Keyless: images to delete, and how many of each."""
    insert: list[Row] = field(default_factory=list)
    inserts: Inserts | None = None
    """More rows to insert; then all others are empty."""
    change: list[Row] = field(default_factory=list)
    in_order: list[Change] = field(default_factory=list)
    """Changes one after the other; then all others are empty."""

    def inserted(self) -> Iterator[Row]:
        """Yield the rows to insert, as rows of values."""
        return chain(self.insert, self.inserts or ())

    def rows(self) -> int:
        removed = sum(count for _, count in self.remove)
        written = len(self.insert) + len(self.inserts or ()) + len(self.change) + len(self.in_order)
        return len(self.delete) + len(self.gone) + removed + written


Wave = dict[int, dict[int, TableWork]]
"""bucket -> source table (a lead, see `plan`) -> work"""


def rows_of(waves: Sequence[Wave], bucket: int) -> int:
    """Return how many rows of the bucket a transaction writes that does all of these waves."""
    return sum(work.rows() for wave in waves for work in wave.get(bucket, {}).values())


@dataclass
class Waves:
    """The work of an epoch. Wave 2 begins when wave 1 is committed in every bucket."""

    first: Wave = field(default_factory=dict)
    second: Wave = field(default_factory=dict)
    later: list[Wave] = field(default_factory=list)
    """What follows wave 2, one behind the other, in each transaction of it."""

    def rows(self) -> int:
        waves = (self.first, self.second, *self.later)
        return sum(work.rows() for wave in waves for tables in wave.values() for work in tables.values())

    def largest(self) -> int:
        """Return the rows of the bucket that has the most in one transaction."""
        together = ([self.first], [self.second, *self.later])
        return max((rows_of(some, bucket) for some in together for wave in some for bucket in wave), default=0)

    def level(self, number: int) -> Wave:
        """Return wave 2, or one of those behind it."""
        while number > len(self.later):
            self.later.append({})
        return self.later[number - 1] if number else self.second


def make_waves(plan: SyncPlan, folded: Folded) -> Waves:
    """Sort folded changes into waves and buckets."""
    waves, sort = Waves(), _Sorting(plan)
    for index, changes in folded.in_order.items():
        part = plan.part(index)
        bucket = waves.second.setdefault(bucket_of_all(part, plan.buckets), {})
        bucket[index] = TableWork(in_order=changes)
    for index, keyed in folded.keyed.items():
        bucket_of = bucket_function(plan.part(index), plan.buckets)
        for turn, in_turn in enumerate(sort.turns(index, keyed)):
            sort.keyed(in_turn, _Sorter.of(waves, index, bucket_of, turn=turn))
    for index, cells in folded.inserted.items():
        part = plan.part(index)
        for number, inserts in by_bucket(cells, part, bucket_function(part, plan.buckets)):
            waves.second.setdefault(number, {})[index] = TableWork(inserts=inserts)
    for index, counts in folded.counts.items():
        sort.counts(counts, _Sorter.of(waves, index, bucket_function(plan.part(index), plan.buckets)))
    for target, kept in folded.kept.items():
        sort.levels(kept, plan.targets[target], waves)
    return waves


@dataclass(frozen=True)
class _Sorting:
    """The choice of how the changes of a table are sorted."""

    plan: SyncPlan

    def turns(self, index: int, keyed: Keyed) -> list[Keyed]:
        return turns_of(keyed, self.plan.part(index)) if self._may_lack_deletes(index) else [keyed]

    def _may_lack_deletes(self, lead: int) -> bool:
        return self.plan.policies[lead] is WritePolicy.UNCOUNTED

    def keyed(self, keyed: Keyed, sorter: _Sorter) -> None:
        part, policy = self.plan.part(sorter.table), self.plan.policies[sorter.table]
        if policy is WritePolicy.UNCOUNTED:
            _kept(keyed.items(), part, sorter)
            return
        if policy is WritePolicy.OVERWRITE:
            _unchanged(keyed.items(), part, sorter)
        if part.unique:
            _exact_in_two_waves(keyed.values(), part, sorter)
        else:
            _exact_in_one_wave(keyed.values(), sorter)

    def counts(self, counts: Counts, sorter: _Sorter) -> None:
        _counted(counts.items(), self.plan.part(sorter.table), sorter)

    def levels(self, kept: Sequence[Kept], part: TargetPart, waves: Waves) -> None:
        lacking = part.key is not None and any(self._may_lack_deletes(lead) for lead in {lead for lead, _, _ in kept})
        contended = any(self.plan.sources[lead].target in self.plan.contended for lead, _, _ in kept[:1])
        order = Order.of(marks_of(part), kept, alone=contended or (lacking and bool(part.unique)))
        keyed: dict[tuple[int, int, int], Keyed] = {}
        counts: dict[tuple[int, int, int], Counts] = {}
        for level, bucket, (lead, before, after) in zip(
            order.levels, order.buckets(self.plan.buckets), kept, strict=True
        ):
            place = (level, bucket, lead)
            if part.key is None:
                count_into(counts.setdefault(place, {}))(before, after)
            else:
                fold_into(keyed.setdefault(place, {}), part)(before, after)
        for (level, bucket, lead), changes in keyed.items():
            self.keyed(changes, _Sorter.of_level(waves, level, lead, bucket))
        for (level, bucket, lead), images in counts.items():
            self.counts(images, _Sorter.of_level(waves, level, lead, bucket))


@dataclass(frozen=True)
class _Sorter:
    wave_1: Wave
    wave_2: Wave
    table: int
    bucket_of: BucketOf
    again: bool = False
    """Wave 2 is not the first to write these rows."""

    @classmethod
    def of(cls, waves: Waves, table: int, bucket_of: BucketOf, *, turn: int = 0) -> _Sorter:
        return cls(waves.first, waves.level(turn), table, bucket_of, again=turn > 0)

    @classmethod
    def of_level(cls, waves: Waves, level: int, table: int, bucket: int) -> _Sorter:
        """Return the sorter of one level of one bucket: its deletes are no wave of their own."""
        wave = waves.level(level)
        return cls(wave, wave, table, lambda _row: bucket)

    def first(self, row: Row) -> TableWork:
        return self._work(self.wave_1, row)

    def second(self, row: Row) -> TableWork:
        return self._work(self.wave_2, row)

    def _work(self, wave: Wave, row: Row) -> TableWork:
        tables = wave.setdefault(self.bucket_of(row), {})
        work = tables.get(self.table)
        if work is None:
            work = tables[self.table] = TableWork()
        return work


def _exact_in_one_wave(changes: Iterable[Change], sort: _Sorter) -> None:
    for before, after in changes:
        if after is None:
            if before is not None:
                sort.second(before).delete.append(before)
        elif before is None:
            sort.second(after).insert.append(after)
        elif before != after:
            sort.second(after).change.append(after)


def _exact_in_two_waves(changes: Iterable[Change], part: TargetPart, sort: _Sorter) -> None:
    for before, after in changes:
        if after is None:
            if before is not None:
                sort.first(before).delete.append(before)
        elif before is None:
            sort.second(after).insert.append(after)
        elif any(before[number] != after[number] for key in part.unique for number in key):
            sort.first(before).delete.append(before)
            sort.second(after).insert.append(after)
        elif before != after:
            sort.second(after).change.append(after)


def _unchanged(changes: Iterable[tuple[Key, Change]], part: TargetPart, sort: _Sorter) -> None:
    """Sort what the log leaves as it was: it says what the target should have at these keys all the same."""
    for key, (before, after) in changes:
        if before is None and after is None:
            row = part.row_of(key, before, after)
            (sort.first if part.unique else sort.second)(row).gone.append(row)
        elif after is not None and before == after:
            sort.second(after).change.append(after)


def _kept(changes: Iterable[tuple[Key, Change]], part: TargetPart, sort: _Sorter) -> None:
    for key, (before, after) in changes:
        # Also of a row that was born and is gone: an older one of its key may have been kept.
        row = part.row_of(key, before, after)
        if part.unique:
            sort.first(row).delete.append(row)
        if sort.again if part.unique else after is None:
            sort.second(row).delete.append(row)
        if after is not None:
            # Not REPLACE, which would take away what only the target has in a row.
            work = sort.second(after)
            (work.insert if part.unique else work.change).append(after)


def _counted(counts: Iterable[tuple[Row, int]], part: TargetPart, sort: _Sorter) -> None:
    for image, count in counts:
        if count < 0:
            work = sort.first(image) if part.unique else sort.second(image)
            work.remove.append((image, -count))
        elif count > 0:
            sort.second(image).insert.extend([image] * count)
