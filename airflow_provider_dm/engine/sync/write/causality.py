"""Causality: sorts folded changes into two waves, so that unique keys are never violated.

After folding, every key has one change, so order matters only if one row releases a unique value that another row
needs (`disputed`). Wave 1 deletes all rows that release such a value. When it is committed in all buckets, wave 2
writes. At that point a value that a row needs is held by no other row in the target, so the writes cannot collide, in
any order. Within a bucket's transaction deletes precede writes. This is enough for tables with one unique key (rows
whose keys a collation compares as equal are in one bucket): they need no wave 1.

    t (id PRIMARY KEY, a UNIQUE, b UNIQUE) has (1, a=1, b=1) and (2, a=2, b=2); a transaction swaps their `a`:

    log       1: a=1 -> a=0      2: a=2 -> a=1      1: a=0 -> a=2
    folded    1: (a=1, b=1) -> (a=2, b=1)           2: (a=2, b=2) -> (a=1, b=2)
    wave 1    DELETE 1, DELETE 2                    both release a value that the other needs; committed in every bucket
    wave 2    INSERT (1, 2, 1), INSERT (2, 1, 2)    without wave 1, the first one would collide with the other's `a`

*Exact*: the target has the expected rows, so new rows are INSERTs (a duplicate is an error), changed rows are upserts
that must find their row, and deletes must find their rows. In safe mode and in merged tables a row whose unique values
change is deleted and inserted, as its place may be taken. Wave 1 is the same in all three cases, because a half-applied
epoch may be completed with another policy: safe mode is set or removed, or a table becomes a merged one.

*Kept*: filters skip deletes (`rules.row_filter`), so the target has rows that the source has deleted. Each change is
written over an existing row with the same identity key. With further unique keys wave 1 deletes all of these rows, so
that a half-applied epoch must be completed with this policy. A kept row is not deleted because another row needs its
unique value: that stops the task. Keys that the target may compare as equal are written in turns (`turns_of`): the
first in wave 2, the others after it. If filters skip inserts or updates, changes are not sorted, but written in their
order in one bucket (`in_order`).

*Every change* (`compact: false`): nothing is folded. Dependent changes are in one bucket and have levels
(`dependence`). Each level is sorted like an epoch, with deletes before writes, so there is no wave 1; all levels are
written in one transaction. The same is done if tables of one source may overwrite each other's rows (`last_wins`).

In merged tables this applies to the rows of each source table separately; `merge.writer` handles a row whose key a row
of another table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.bucket import BucketOf, bucket_function, bucket_of_all, forms_function
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, Key, TargetPart
from airflow_provider_dm.engine.sync.write.compactor import Counts, FoldedChanges, Keyed, count_into, fold_into
from airflow_provider_dm.engine.sync.write.dependence import ChangeOrder, LoggedChange
from airflow_provider_dm.engine.sync.write.disputed import Disputed, ExchangedMarks, disputed_values, releases
from airflow_provider_dm.engine.sync.write.encoded import CellRows, by_bucket
from airflow_provider_dm.engine.sync.write.marks import marks_of


@dataclass
class TableWork:
    """The work of one transaction on the rows of one source table (a lead), in the order of the fields.

    Rows are in the target part's column order."""

    delete: list[Row] = field(default_factory=list)
    """Rows to delete by identity key; each is the last known image."""
    transient: list[Row] = field(default_factory=list)
    """Rows inserted and deleted in the epoch: in safe mode deleted by identity key; none is expected to exist."""
    remove: list[tuple[Row, int]] = field(default_factory=list)
    """Without a key: images to delete, and how many of each."""
    insert: list[Row] = field(default_factory=list)
    inserts: CellRows | None = None
    """More rows to insert."""
    change: list[Row] = field(default_factory=list)
    changes: CellRows | None = None
    """More rows to change."""
    in_order: list[Change] = field(default_factory=list)
    """Changes to be written one after the other; then all other fields are empty."""

    def put(self, verb: Verb, rows: CellRows) -> None:
        """Set the rows to insert or to change (UPSERT) that are cells."""
        if verb is Verb.INSERT:
            self.inserts = rows
        else:
            self.changes = rows

    def inserted(self) -> Iterator[Row]:
        """Yield the rows to insert, as rows of values."""
        return chain(self.insert, self.inserts or ())

    def changed(self) -> Iterator[Row]:
        """Yield the rows to change, as rows of values."""
        return chain(self.change, self.changes or ())

    def rows(self) -> int:
        removed = sum(count for _, count in self.remove)
        inserted, changed = len(self.insert) + len(self.inserts or ()), len(self.change) + len(self.changes or ())
        return len(self.delete) + len(self.transient) + removed + inserted + changed + len(self.in_order)


Wave = dict[int, dict[int, TableWork]]
"""bucket → source table (a lead, see `plan`) → work"""


def rows_in_waves(waves: Sequence[Wave], bucket: int) -> int:
    """Return the number of the bucket's rows in all of these waves."""
    return sum(work.rows() for wave in waves for work in wave.get(bucket, {}).values())


@dataclass
class Waves:
    """The work of an epoch. Wave 2 begins when wave 1 is committed in every bucket. `changes`: those in the log."""

    changes: int = 0
    first: Wave = field(default_factory=dict)
    second: Wave = field(default_factory=dict)
    later: list[Wave] = field(default_factory=list)
    """The waves after wave 2, written one after the other in the same transactions."""

    def rows(self) -> int:
        waves = (self.first, self.second, *self.later)
        return sum(work.rows() for wave in waves for tables in wave.values() for work in tables.values())

    def largest(self) -> int:
        """Return the largest number of rows of one bucket in one transaction."""
        together = ([self.first], [self.second, *self.later])
        return max((rows_in_waves(some, bucket) for some in together for wave in some for bucket in wave), default=0)

    def level(self, number: int) -> Wave:
        """Return wave 2 (number 0), or the later wave of this number."""
        while number > len(self.later):
            self.later.append({})
        return self.later[number - 1] if number else self.second


def make_waves(plan: SyncPlan, folded: FoldedChanges, disputed: Disputed | None = None) -> Waves:
    """Sort folded changes into waves and buckets. `disputed`: of the epoch; None: `folded` is the whole epoch."""
    if disputed is None:
        disputed = disputed_values([ExchangedMarks.of(plan, folded)])
    waves, sort = Waves(folded.changes), _Sorting(plan)
    for index, changes in folded.in_order.items():
        part = plan.part(index)
        bucket = waves.second.setdefault(bucket_of_all(part, plan.buckets), {})
        bucket[index] = TableWork(in_order=changes)
    for index, keyed in folded.keyed.items():
        bucket_of = bucket_function(plan.part(index), plan.buckets)
        for turn, in_turn in enumerate(sort.turns(index, keyed)):
            sort.keyed(in_turn, _Sorter.of(waves, index, bucket_of, turn=turn), disputed)
    for index, cells in folded.cells.items():
        part = plan.part(index)
        sorter = _Sorter.of(waves, index, bucket_function(part, plan.buckets))
        for row in cells.delete:
            sorter.second(row).delete.append(row)
        for verb, some in ((Verb.INSERT, cells.insert), (Verb.UPSERT, cells.change)):
            for number, rows in by_bucket(some, part, plan.buckets):
                sorter.in_bucket(number).put(verb, rows)
    for index, counts in folded.counts.items():
        part = plan.part(index)
        _counted(counts.items(), part, _Sorter.of(waves, index, bucket_function(part, plan.buckets)))
    for target, kept in folded.kept.items():
        sort.levels(kept, plan.targets[target], waves)
    return waves


@dataclass(frozen=True)
class _Sorting:
    """Sorts the changes of a table by its write policy."""

    plan: SyncPlan

    def turns(self, index: int, keyed: Keyed) -> list[Keyed]:
        return turns_of(keyed, self.plan.part(index)) if self._may_lack_deletes(index) else [keyed]

    def _may_lack_deletes(self, lead: int) -> bool:
        return self.plan.policies[lead] is WritePolicy.UNCOUNTED

    def keyed(self, keyed: Keyed, sorter: _Sorter, disputed: Disputed | None = None) -> None:
        """Sort the changes of one table. `disputed` None: any value may be disputed."""
        part, policy = self.plan.part(sorter.table), self.plan.policies[sorter.table]
        if policy is WritePolicy.UNCOUNTED:
            _kept(keyed.items(), part, sorter)
            return
        if policy is WritePolicy.OVERWRITE:
            _unchanged(keyed.items(), part, sorter)
        if part.unique:
            exact = policy is WritePolicy.EXACT
            anew: _Is = (lambda _before, _after: False) if exact else releases(part, None)
            _exact_in_two_waves(keyed.values(), sorter, releases(part, disputed), anew)
        else:
            _exact_in_one_wave(keyed.values(), sorter)

    def levels(self, kept: Sequence[LoggedChange], part: TargetPart, waves: Waves) -> None:
        lacking = part.key is not None and any(self._may_lack_deletes(lead) for lead in {lead for lead, _, _ in kept})
        contended = any(self.plan.sources[lead].target in self.plan.contended for lead, _, _ in kept[:1])
        order = ChangeOrder.of(marks_of(part), kept, alone=contended or (lacking and bool(part.unique)))
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
            _counted(images.items(), part, _Sorter.of_level(waves, level, lead, bucket))


@dataclass(frozen=True)
class _Sorter:
    wave_1: Wave
    wave_2: Wave
    table: int
    bucket_of: BucketOf
    again: bool = False
    """True for turns after the first one."""

    @classmethod
    def of(cls, waves: Waves, table: int, bucket_of: BucketOf, *, turn: int = 0) -> _Sorter:
        return cls(waves.first, waves.level(turn), table, bucket_of, again=turn > 0)

    @classmethod
    def of_level(cls, waves: Waves, level: int, table: int, bucket: int) -> _Sorter:
        """Return the sorter of one level of one bucket, whose deletes and writes are in one wave."""
        wave = waves.level(level)
        return cls(wave, wave, table, lambda _row: bucket)

    def first(self, row: Row) -> TableWork:
        return self._work(self.wave_1, self.bucket_of(row))

    def second(self, row: Row) -> TableWork:
        return self._work(self.wave_2, self.bucket_of(row))

    def in_bucket(self, number: int) -> TableWork:
        """Return the work of wave 2 in this bucket."""
        return self._work(self.wave_2, number)

    def _work(self, wave: Wave, bucket: int) -> TableWork:
        tables = wave.setdefault(bucket, {})
        work = tables.get(self.table)
        if work is None:
            work = tables[self.table] = TableWork()
        return work


def turns_of(keyed: Keyed, part: TargetPart) -> list[Keyed]:
    """Divide changes, given in the order of the last change of each key, into as few turns as possible.

    Changes are folded by the bytes of their keys, but the target's collation may compare two keys as equal ('a', 'A').
    If the log has all deletes, at most one of them exists in the end, so it is enough to write deletes first. If
    filters skip deletes (`rules.row_filter`), several may seem to exist, and the last change must win:

        log                INSERT 'a'   (DELETE 'a', skipped)   INSERT 'A'   DELETE 'A'
        folded             write 'a', delete 'A'; in the order of their last changes
        deletes first      'a' exists: a wrong row
        in turns           write 'a'; then delete 'A'

    It is not known which keys are equal, only which have the same form; for unequal keys turns are harmless. Within a
    turn, deletes are written first. Keys of one form have one bucket, so all turns are in one transaction.

    If the table has further unique keys, rows are deleted and inserted, and a turn writes at most one row of a form.
    """
    form_of = forms_function(part)
    turns: list[Keyed] = [{}]
    last: dict[tuple[bytes, ...], tuple[int, bool]] = {}
    for key, change in keyed.items():
        form, writes = form_of(part.row_of(key, *change)), change.after is not None
        turn, written = last.get(form, (0, False))
        if written and (part.unique or not writes):
            turn, written = turn + 1, False
        if turn == len(turns):
            turns.append({})
        turns[turn][key] = change
        last[form] = turn, written or writes
    return turns


def _exact_in_one_wave(changes: Iterable[Change], sort: _Sorter) -> None:
    for before, after in changes:
        if after is None:
            if before is not None:
                sort.second(before).delete.append(before)
        elif before is None:
            sort.second(after).insert.append(after)
        elif before != after:
            sort.second(after).change.append(after)


_Is: TypeAlias = Callable[[Row, Row | None], bool]
"""A condition of a change (before, after)."""


def _exact_in_two_waves(changes: Iterable[Change], sort: _Sorter, is_disputed: _Is, is_anew: _Is) -> None:
    """`is_anew`: if an existing row is deleted and inserted, not updated in place."""
    for before, after in changes:
        if before is None:
            if after is not None:
                sort.second(after).insert.append(after)
            continue
        first = is_disputed(before, after)
        if first or after is None or is_anew(before, after):
            (sort.first if first else sort.second)(before).delete.append(before)
            if after is not None:
                sort.second(after).insert.append(after)
        elif before != after:
            sort.second(after).change.append(after)


def _unchanged(changes: Iterable[tuple[Key, Change]], part: TargetPart, sort: _Sorter) -> None:
    """Sort changes without an effect: in safe mode the target may differ at their keys, and is corrected."""
    for key, (before, after) in changes:
        if before is None and after is None:
            # Not in wave 1: the target may treat a key of another row as equal, which wave 2 writes again.
            row = part.row_of(key, before, after)
            sort.second(row).transient.append(row)
        elif after is not None and before == after:
            sort.second(after).change.append(after)


def _kept(changes: Iterable[tuple[Key, Change]], part: TargetPart, sort: _Sorter) -> None:
    for key, (before, after) in changes:
        # Also for a row that was inserted and deleted: an older row with its key may have been kept.
        row = part.row_of(key, before, after)
        if part.unique:
            sort.first(row).delete.append(row)
        if sort.again if part.unique else after is None:
            sort.second(row).delete.append(row)
        if after is not None:
            # Not REPLACE, which would lose the values of the target's own columns.
            work = sort.second(after)
            (work.insert if part.unique else work.change).append(after)


def _counted(counts: Iterable[tuple[Row, int]], part: TargetPart, sort: _Sorter) -> None:
    for image, count in counts:
        if count < 0:
            work = sort.first(image) if part.unique else sort.second(image)
            work.remove.append((image, -count))
        elif count > 0:
            sort.second(image).insert.extend([image] * count)
