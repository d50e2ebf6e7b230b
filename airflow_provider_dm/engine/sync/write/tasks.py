"""The tasks of an epoch, which run on executors. Picklable values; each may run twice, because writes are fenced.

    small epoch     ApplyRanges         decode and fold all ranges, write both waves of all buckets; meanwhile fold the
                                        next epoch, if the next task will probably run in the same process
    transactional   ApplyTransactions   decode and write whole transactions one by one
    large epoch     FoldRange           decode and fold one range; return one blob for each group of buckets
                    FindExchanged       combine the blobs of one group; return the unique values that its rows exchange
                    ApplyGroup          combine the blobs of one group, then write one wave

ApplyRanges writes all buckets itself, so wave 1 ends before wave 2 begins. A group is a sequence of neighbouring
buckets. Spark exchanges one object for each blob; Spark rows would cost more than the folding.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierMove
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.coverage import CoverageFilter
from airflow_provider_dm.engine.sync.log.fallback import unreadable
from airflow_provider_dm.engine.sync.plan.bucket import bucket_function, bucket_of_all
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, Key, SourcePart
from airflow_provider_dm.engine.sync.runner import Shared
from airflow_provider_dm.engine.sync.write.ahead import FoldedAhead
from airflow_provider_dm.engine.sync.write.apply import ApplyResult, Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.chains import Chains, unchanged_tables
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedChanges, compose_into
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency
from airflow_provider_dm.engine.sync.write.disputed import Disputed, ExchangedMarks
from airflow_provider_dm.engine.sync.write.encoded import EncodedFold
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, groups_of


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable the garbage collector during a task; pyspark collects after each task.

    An epoch makes a million small objects without cycles, and searching them takes 40 % of the time of a fold. It
    is always enabled afterwards: if threads restored the state that they found, it could remain disabled.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True)
class EpochJob:
    """The values that all tasks of one epoch share."""

    plan: Shared[SyncPlan]
    source: Endpoint
    target: Endpoint
    step: EpochRange
    writing: WriteConcurrency
    log_bytes: int = 0
    """The uncompressed size of the epoch."""
    next_ranges: tuple[ByteRange, ...] = ()
    """The ranges of the next epoch, to be folded while this one is written."""

    def writer(self, pool: Executor | None) -> WaveWriter:
        return WaveWriter(
            self.plan.value,
            Target.at(self.target),
            self.step,
            pool,
            self.writing.batch,
            self.writing.multiple_rows,
            connections=self.writing.connections if pool else 1,
            log_bytes=self.log_bytes // self.writing.tasks,
        )


@dataclass(frozen=True)
class ApplyRanges:
    """The task that applies a whole epoch."""

    job: EpochJob

    @_without_gc()
    def __call__(self, ranges: tuple[ByteRange, ...]) -> ApplyResult:
        plan, next_ranges = self.job.plan.value, self.job.next_ranges
        waves = FOLDED_AHEAD.take(plan, ranges) or self._folded(ranges)
        writer = self.job.writer(_pool(self.job.writing.connections))
        with FOLDED_AHEAD.folding(plan, next_ranges, partial(self._folded, next_ranges)):
            contested = writer.release(waves.first) + writer.advance(waves.second, range(plan.buckets), waves.later)
        return ApplyResult(waves.changes, waves.rows(), contested, tuple(writer.collisions), waves.largest())

    def _folded(self, ranges: tuple[ByteRange, ...]) -> Waves:
        plan = self.job.plan.value
        compactor = Compactor(plan)
        encoded = EncodedFold(compactor, plan, unchanged_tables(plan))
        for range_ in ranges:
            compactor.add_all(_changes(plan, self.job.source, range_, partial(encoded.take, file=range_.file)))
        return make_waves(plan, encoded.folded())


@dataclass(frozen=True)
class ApplyTransactions:
    """The task that writes an epoch's transactions one after the other. `together`: as one unit (`groups_of`)."""

    job: EpochJob
    together: bool

    @_without_gc()
    def __call__(self, ranges: Sequence[ByteRange]) -> ApplyResult:
        changes_in = partial(_changes, self.job.plan.value, self.job.source)
        units = groups_of(ranges, self.job.step.hi, changes_in, together=self.together)
        return TransactionalWriter(self.job.writer(None)).write(units)


@dataclass(frozen=True)
class FoldRange:
    """The task that folds one range into one blob for each of `groups` groups."""

    job: EpochJob
    groups: int

    @_without_gc()
    def __call__(self, one: ByteRange) -> list[bytes]:
        plan = self.job.plan.value
        compactor = Compactor(plan)
        folded = compactor.add_all(_changes(plan, self.job.source, one, Chains.of(compactor, plan).take))
        return pack(plan, folded, self.groups)


@dataclass(frozen=True)
class FindExchanged:
    """The task that returns the unique values which the rows of one group exchange."""

    job: EpochJob

    @_without_gc()
    def __call__(self, _group: int, blobs: Sequence[bytes]) -> ExchangedMarks:
        plan = self.job.plan.value
        return ExchangedMarks.of(plan, unpack(plan, blobs))


@dataclass(frozen=True)
class ApplyGroup:
    """The task that writes one wave of one group: wave 1 if `act` is RELEASE, else wave 2 and later."""

    job: EpochJob
    groups: int
    act: FrontierMove
    disputed: Disputed

    @_without_gc()
    def __call__(self, group: int, blobs: Sequence[bytes]) -> ApplyResult:
        plan = self.job.plan.value
        waves = make_waves(plan, unpack(plan, blobs), self.disputed)
        writer = self.job.writer(_pool(self.job.writing.connections))
        if self.act is FrontierMove.RELEASE:
            contested = writer.release(waves.first)
        else:
            contested = writer.advance(waves.second, buckets_of(group, self.groups, plan.buckets), waves.later)
        return ApplyResult(waves.changes, waves.rows(), contested, tuple(writer.collisions), waves.largest())


def _changes(
    plan: SyncPlan, source: Endpoint, one: ByteRange, take: Callable[[Batch], Batch] | None = None
) -> Iterator[RowChange]:
    """Yield the changes of a range after the row filters and the coverage filter.

    Raises the errors of the filters, of `decode_range`, and of queries to the source.
    """
    try:
        changes = decode_range(one, plan.wanted(), take=take)
        if plan.filters:
            changes = _filtered(changes, plan.filters)
        if plan.parts:
            changes = CoverageFilter(plan.parts, source).covered(changes)
        yield from (_with_added(changes, plan.sources) if any(source.added for source in plan.sources) else changes)
    except OSError as error:
        raise unreadable(one.path, error) from error


def _filtered(changes: Iterator[RowChange], filters: Mapping[int, RowFilter]) -> Iterator[RowChange]:
    keepers = {table: one.keeper() for table, one in filters.items()}
    for change in changes:
        keeps = keepers.get(change.table)
        if keeps is None or keeps(change.before, change.after):
            yield change


def _with_added(changes: Iterator[RowChange], sources: Sequence[SourcePart]) -> Iterator[RowChange]:
    for table, before, after in changes:
        source = sources[table]
        yield RowChange(table, source.whole(before), source.whole(after))


FOLDED_AHEAD: Final = FoldedAhead()
"""Of this process."""

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _pool(threads: int) -> Executor | None:
    """Return this process's thread pool; each thread keeps its connection to the target between tasks."""
    if threads <= 1:
        return None
    key = (os.getpid(), threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="apply")
    return _pools[key]


# The exchange of folded changes


KeyedItems: TypeAlias = list[tuple[Key, Row | None, Row | None]]
CountItems: TypeAlias = list[tuple[Row, int]]


def buckets_of(group: int, groups: int, buckets: int) -> range:
    """Return the neighbouring buckets of a group.

    >>> [list(buckets_of(group, 2, 5)) for group in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    return range(group * buckets // groups, (group + 1) * buckets // groups)


def pack(plan: SyncPlan, folded: FoldedChanges, groups: int) -> list[bytes]:
    """Return one blob for each group, with its share of the folded changes. Raises InvariantBroken."""
    if folded.kept:
        raise InvariantBroken("an epoch whose changes are not folded is one task", "it is divided into groups")
    group_of = [group for group in range(groups) for _ in buckets_of(group, groups, plan.buckets)]
    keyed: list[dict[int, KeyedItems]] = [{} for _ in range(groups)]
    counts: list[dict[int, CountItems]] = [{} for _ in range(groups)]
    for table, changes in folded.keyed.items():
        part = plan.part(table)
        bucket_of, shares = bucket_function(part, plan.buckets), [share.setdefault(table, []) for share in keyed]
        for key, (before, after) in changes.items():
            shares[group_of[bucket_of(part.row_of(key, before, after))]].append((key, before, after))
    for table, images in folded.counts.items():
        bucket_of = bucket_function(plan.part(table), plan.buckets)
        count_shares = [share.setdefault(table, []) for share in counts]
        for image, count in images.items():
            if count:
                count_shares[group_of[bucket_of(image)]].append((image, count))
    in_order: list[dict[int, list[Change]]] = [{} for _ in range(groups)]
    for table, changes_of in folded.in_order.items():
        in_order[group_of[bucket_of_all(plan.part(table), plan.buckets)]][table] = changes_of
    # Only the blob of the first group has the number of changes, so that the sum is right.
    return [
        pickle.dumps((0 if group else folded.changes, keyed[group], counts[group], in_order[group]), protocol=5)
        for group in range(groups)
    ]


def unpack(plan: SyncPlan, blobs: Iterable[bytes]) -> FoldedChanges:
    """Combine the blobs of one group, in the order of the log. Raises BrokenChain."""
    folded, losses = FoldedChanges(), plan.losses
    for blob in blobs:
        changes, keyed, counts, in_order = pickle.loads(blob)  # written by `pack`, in the same job
        folded.add_count(changes)
        for table, items in keyed.items():
            put = compose_into(folded.keyed.setdefault(table, {}), plan.part(table), loose=table in losses)
            for key, before, after in items:
                put(key, before, after)
        for table, items in counts.items():
            into = folded.counts.setdefault(table, {})
            for image, count in items:
                into[image] = into.get(image, 0) + count
        for table, items in in_order.items():
            folded.in_order.setdefault(table, []).extend(items)
    return folded
