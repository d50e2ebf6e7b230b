"""Applying one epoch: its tasks, their order, and the size of the next epoch.

The driver itself applies an epoch of up to `in_driver` bytes, because a Spark job would take longer than the work: a
sync that has caught up starts none. While workers start, it applies the epochs of usual size, too. On one machine it
applies all epochs of a job with one source (`EpochSize.by_the_driver`). An epoch of up to `one_task` bytes is one task,
because an exchange would cost more than it saves; on one machine, where it would only write files, every epoch is. A
larger epoch is folded by range and written by group of buckets; if a table has several unique keys, a job before finds
disputed values (`write/disputed.py`), and wave 1 is a separate job, so that it ends before wave 2 begins.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch, Planned
from airflow_provider_dm.engine.downstream.errors import RowStatementError
from airflow_provider_dm.engine.downstream.frontier import FrontierMove
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.log.fallback import unreadable
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner, Shared
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import ApplyResult, Target, WaveWriter
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency
from airflow_provider_dm.engine.sync.write.disputed import Disputed, disputed_values
from airflow_provider_dm.engine.sync.write.tasks import (
    ApplyGroup,
    ApplyRanges,
    ApplyTransactions,
    EpochJob,
    FindExchanged,
    FoldRange,
)
from airflow_provider_dm.engine.sync.write.transactional import SMALL_CHANGE_BYTES

MIB: Final = 1 << 20
DRIVER: Final = LocalRunner(1)
EVERY: Final = sys.maxsize
"""The value of `EpochSize.in_driver` by which the driver applies every epoch."""
LARGEST_RANGE: Final = 8 * MIB
MOST_ROWS: Final = 1 << 16
MOST_ROW_BYTES: Final = 32 * MIB
"""Limits for what one task writes, estimated from the previous epoch: rows, and their part of the log. Two such epochs
are in memory, one of them folded ahead."""
TARGET_SECONDS: Final = 1.0
SPREAD: Final = 2
"""The largest bucket of an epoch has at most about this many times the average number of rows."""
LONGEST_SECONDS: Final = 10.0
"""If an epoch of the usual size takes longer, epochs become smaller than the usual size."""


def apply_epoch(runner: Runner, job: EpochJob, epoch: Epoch, *, ship: bool) -> ApplyResult:
    """Apply all of an epoch, in `job.writing.tasks` tasks.

    `ship`: send the bytes of the log with the tasks, for executors without access to the relay directory.

    Raises the errors of the tasks: some buckets may have applied the epoch; repeating it is safe.
    """
    try:
        return _applied(runner, job, epoch, ship=ship)
    except RowStatementError as error:
        raise replace(error, log=f"from {epoch.lo} to {epoch.hi}") from error.__cause__


def _applied(runner: Runner, job: EpochJob, epoch: Epoch, *, ship: bool) -> ApplyResult:
    ranges = [with_data(range_) for range_ in epoch.ranges] if ship else list(epoch.ranges)
    groups = job.writing.tasks
    if job.plan.value.whole:
        (applied,) = runner.run(ApplyTransactions(job, epoch.prepared is not None), [tuple(ranges)])
        return applied
    if groups == 1:
        (applied,) = runner.run(ApplyRanges(job), [tuple(ranges)])
        return applied
    exchange = runner.exchange(FoldRange(job, groups), ranges, groups)
    released: list[ApplyResult] = []
    disputed: Disputed = frozenset()
    if any(part.unique for part in job.plan.value.targets):
        disputed = disputed_values(exchange.run(FindExchanged(job)))
        released = exchange.run(ApplyGroup(job, groups, FrontierMove.RELEASE, disputed))
    done = exchange.run(ApplyGroup(job, groups, FrontierMove.ADVANCE, disputed))
    collisions = tuple(collision for batch in released for collision in batch.collisions)
    return sum(done, ApplyResult(collisions=collisions))


def with_data(part: ByteRange) -> ByteRange:
    """Return the range with its bytes. Raises RelayFileGone or RelayDirectoryUnusable."""
    try:
        with open(part.path, "rb") as file:
            file.seek(part.start)
            return replace(part, data=file.read(part.end - part.start))
    except OSError as error:
        raise unreadable(part.path, error) from error


@dataclass(frozen=True)
class EpochSize:
    """The size limit of the next epoch, chosen so that applying it takes about TARGET_SECONDS. Sizes are in bytes.

    Each epoch has a fixed cost, so the limit falls below `usual` only if an epoch of that size takes longer than
    LONGEST_SECONDS. The driver's epochs are not measured while workers start, because the start uses the same CPUs.
    """

    limit: int = 8 * MIB
    in_driver: int = MIB
    """An epoch of up to this size is applied by the driver."""
    one_task: int | None = 4 * MIB
    """An epoch of up to this size is one task. None: every epoch is one task (a transaction may exceed `limit`)."""
    smallest: int = MIB
    usual: int = 8 * MIB
    largest: int = 64 * MIB
    warm: bool = False
    """True if the workers have started, or none are needed."""
    most_rows: int | None = None
    """Limit for the rows in the largest bucket of an epoch, estimated from the previous epoch: a transaction writes
    whole buckets. None: no limit."""
    period: float = 0.015
    """Shortest time in seconds between the beginnings of two epochs while the sync has caught up: every epoch is a
    transaction in the target, whose cost does not depend on its size."""
    cut: int = LARGEST_RANGE
    """A range ends after this many bytes, with the next transaction or, in a large transaction, statement."""

    @classmethod
    def of_one_task(cls) -> EpochSize:
        """Return the initial size if every epoch is one task.

        The larger the epoch, the more changes of a row are one: sysbench's skewed updates are 427 thousand rows of 1.2
        million changes in epochs of 32 MiB, 274 thousand in epochs of 128 MiB. `MOST_ROWS` and `MOST_ROW_BYTES` bound
        the memory of the rows that are left.
        """
        return cls(one_task=None, largest=128 * MIB)

    @classmethod
    def by_the_driver(cls) -> EpochSize:
        """Return the initial size if the driver applies every epoch: on one machine, for a job with one source.

        A Spark job costs 50 ms, in which nothing is written (a fifth of the time of `bench sync --cases oltp`), and its
        worker a second of CPU and 200 MB. Several sources have workers: the driver's threads run Python code in turn.
        """
        return replace(cls.of_one_task(), in_driver=EVERY, warm=True)

    def runner(self, epoch_bytes: int, workers: Runner) -> Runner:
        """Return the runner of an epoch's tasks: `workers` or the driver."""
        return DRIVER if epoch_bytes <= self._most_in_driver else workers

    @property
    def _most_in_driver(self) -> int:
        return self.in_driver if self.warm else 2 * self.usual  # an epoch ends after the transaction at its limit

    def tasks(self, epoch_bytes: int, slots: int) -> int:
        """Return the number of tasks that write an epoch, on a cluster with `slots` slots."""
        return 1 if self.one_task is None or epoch_bytes <= self.one_task else slots

    def next_ranges(self, epoch_bytes: int, following: Future[Planned] | None) -> tuple[ByteRange, ...]:
        """Return the ranges of the next epoch if they are folded while this one is written: both by one process.

        Waits for the planning, and leaves its error to `Planning.next`.
        """
        by_one = self.one_task is None and self._by_one_process(epoch_bytes)
        if not by_one or following is None or following.exception() is not None:
            return ()
        planned = following.result()
        return planned.ranges if isinstance(planned, Epoch) and self._by_one_process(planned.size) else ()

    def _by_one_process(self, epoch_bytes: int) -> bool:
        """Return True if such epochs of one source follow each other in a process that applies no other source."""
        return self.in_driver == EVERY or epoch_bytes > self._most_in_driver

    def range_bytes(self, slots: int) -> int:
        """Return the size of a range: two ranges for each slot, within the limits for one task."""
        return min(self.cut, max(self.smallest, min(LARGEST_RANGE, self.limit // (2 * slots))))

    def keeping(self) -> EpochSize:
        """Return the size for epochs that keep every change, and the values it depends on, in memory."""
        return replace(self, largest=self.usual, limit=min(self.limit, self.usual))

    def is_backlog(self, size: int) -> bool:
        """Return True if an epoch of `size` bytes was probably ended by the limit, not by the end of the log."""
        return size >= self.limit // 2

    def with_batch(self, rows: int | None, buckets: int) -> EpochSize:
        """Return the size for epochs whose buckets have at most `rows` rows, even if every change is small."""
        if rows is None:
            return self
        first = SMALL_CHANGE_BYTES * rows * buckets // SPREAD
        return replace(self, limit=min(self.limit, first), smallest=min(self.smallest, first), most_rows=rows)

    def after(self, size: int, seconds: float, changes: int = 0, rows: int = 0, largest: int = 0) -> EpochSize:
        """Return the size of the next epoch, after an epoch of `size` bytes took `seconds`. A fast epoch below the
        limit changes nothing: it was ended by the log.

        `changes`, `rows`: of the whole epoch. `largest`: the rows of its largest bucket.
        """
        return self._for_duration(size, seconds)._capped(size, changes, rows, largest)

    def _capped(self, size: int, changes: int, rows: int, largest: int) -> EpochSize:
        caps = [self.limit]
        if self.one_task is None and rows:
            caps.append(max(self.usual, min(MOST_ROWS * size, MOST_ROW_BYTES * changes) // rows))
        if self.most_rows is not None and largest:
            caps.append(size * self.most_rows * 3 // (4 * largest))
        return replace(self, limit=max(1, min(caps)))

    def _for_duration(self, size: int, seconds: float) -> EpochSize:
        if not self.warm and size > self.in_driver:
            return self
        seconds = max(seconds, 0.001)
        if seconds <= TARGET_SECONDS and not self.is_backlog(size):
            return self
        wanted = size * min(2.0, TARGET_SECONDS / seconds)
        acceptable = min(self.usual, self.limit) if seconds <= LONGEST_SECONDS else size * LONGEST_SECONDS / seconds
        return replace(self, limit=max(self.smallest, min(self.largest, int(max(wanted, acceptable)))))


@dataclass
class EpochApplier:
    """Applies epochs by the tasks of `runner`. `target`: used for what the driver writes without an epoch."""

    source: SyncSource
    runner: Runner
    target: Target
    size: EpochSize
    """The size of the next epochs."""
    _shared: tuple[SyncPlan, Runner, Shared[SyncPlan]] | None = field(default=None, init=False)
    """The plan that was last shared with tasks, and their runner."""

    def apply(self, epoch: Epoch, state: LoopState, following: Future[Planned] | None = None) -> ApplyResult:
        """Apply all of an epoch by the plan `state.written_by`. `following`: the piece that is planned meanwhile.

        Raises the errors of `apply_epoch`.
        """
        if not self.size.warm and epoch.size > self.size.in_driver and self.runner.start_workers():
            self.size = replace(self.size, warm=True)
        size, plan, source = self.size, state.written_by, self.source
        runner = size.runner(epoch.size, self.runner)
        job = EpochJob(
            self._share(plan, runner),
            source.upstream,
            source.target,
            state.step(epoch.hi),
            WriteConcurrency.of(source.config.syncer, plan, tasks=size.tasks(epoch.size, runner.slots)),
            log_bytes=0 if plan.alone else epoch.size,  # a re-sync writes a small part of the rows of the log
            next_ranges=size.next_ranges(epoch.size, following),
        )
        return apply_epoch(runner, job, epoch, ship=source.job.ship_ranges)

    def _share(self, plan: SyncPlan, runner: Runner) -> Shared[SyncPlan]:
        if self._shared is None or self._shared[0] is not plan or self._shared[1] is not runner:
            self._shared = plan, runner, runner.share(plan)
        return self._shared[2]

    def advance(self, state: LoopState, hi: Location) -> None:
        """Move all buckets to `hi`: the log in between has no changes."""
        WaveWriter(state.plan, self.target, state.step(hi)).advance({}, range(state.plan.buckets))

    def learn(self, epoch: Epoch, seconds: float, applied: ApplyResult) -> None:
        """Adapt the size of the next epochs to the duration and the changes of this one."""
        self.size = self.size.after(epoch.size, seconds, applied.changes, applied.rows, applied.largest)

    def keep_changes(self) -> None:
        """Limit the size of epochs, as they keep every change in memory from now on."""
        self.size = self.size.keeping()
