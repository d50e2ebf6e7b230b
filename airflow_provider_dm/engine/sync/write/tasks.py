"""The tasks of an epoch, which run on executors. Picklable values; each may run twice, because writes are fenced.

    small epoch     ApplyRanges         decode and fold all ranges, write both waves of all buckets; meanwhile fold the
                                        next epoch, if the next task will probably run in the same process
    transactional   ApplyTransactions   decode and write whole transactions one by one
    large epoch     FoldRange           decode and fold one range; return one blob for each group of buckets
                    FindExchanged       combine the blobs of one group; return the unique values that its rows exchange
                    ApplyGroup          combine the blobs of one group, then write one wave

ApplyRanges writes all buckets itself, so wave 1 ends before wave 2 begins.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierMove
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.sync.coverage import CoverageFilter
from airflow_provider_dm.engine.sync.log.fallback import unreadable
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart
from airflow_provider_dm.engine.sync.runner import Shared
from airflow_provider_dm.engine.sync.write.ahead import FoldedAhead, FoldedEpoch
from airflow_provider_dm.engine.sync.write.apply import ApplyResult, Target, WaveWriter
from airflow_provider_dm.engine.sync.write.blobs import buckets_of, pack, unpack
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.chains import Chains, unchanged_tables
from airflow_provider_dm.engine.sync.write.compactor import Compactor
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
        folded = FOLDED_AHEAD.take(plan, ranges) or self._folded(ranges)
        waves = folded.waves
        writer = self.job.writer(_pool(self.job.writing.connections))
        with FOLDED_AHEAD.folding(plan, next_ranges, partial(self._folded, next_ranges)):
            contested = writer.release(waves.first) + writer.advance(waves.second, range(plan.buckets), waves.later)
        return ApplyResult(folded.changes, waves.rows(), contested, tuple(writer.collisions), waves.largest())

    def _folded(self, ranges: tuple[ByteRange, ...]) -> FoldedEpoch:
        plan = self.job.plan.value
        compactor = Compactor(plan)
        encoded = EncodedFold(compactor, plan, unchanged_tables(plan))
        for range_ in ranges:
            compactor.add_all(_changes(plan, self.job.source, range_, partial(encoded.take, file=range_.file)))
        folded = encoded.folded()
        return FoldedEpoch(folded.changes, make_waves(plan, folded))


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
        folded = unpack(plan, blobs)
        waves = make_waves(plan, folded, self.disputed)
        writer = self.job.writer(_pool(self.job.writing.connections))
        if self.act is FrontierMove.RELEASE:
            contested = writer.release(waves.first)
        else:
            contested = writer.advance(waves.second, buckets_of(group, self.groups, plan.buckets), waves.later)
        return ApplyResult(folded.changes, waves.rows(), contested, tuple(writer.collisions), waves.largest())


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
