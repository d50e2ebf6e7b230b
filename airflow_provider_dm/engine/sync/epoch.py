"""How one epoch is applied: which tasks, in which order, and how big the next one should be.

Small epochs are one task, as an exchange would cost more than it saves. Large ones fold range by range and write by
group of buckets; where a table has further unique keys, wave 1 is a job of its own and its end is the barrier. On one
machine every epoch is one task: an exchange there brings no further machine, only files to write and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch
from airflow_provider_dm.engine.downstream.errors import RowStatementError
from airflow_provider_dm.engine.downstream.frontier import Act
from airflow_provider_dm.engine.sync.log.fallback import unreadable
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.write.tasks import (
    ApplyGroup,
    ApplyRanges,
    ApplyTransactions,
    EpochJob,
    FoldRange,
)
from airflow_provider_dm.engine.sync.write.transactional import SMALL_CHANGE_BYTES, Applied

MIB: Final = 1 << 20
LARGEST_RANGE: Final = 8 * MIB
TARGET_SECONDS: Final = 1.0
SPREAD: Final = 2
"""The largest of an epoch's buckets has at most about so many times the average number of rows."""
LONGEST_SECONDS: Final = 10.0
"""What an epoch of the usual size may take before epochs become smaller than that."""


def apply_epoch(runner: Runner, job: EpochJob, epoch: Epoch, *, ship: bool) -> Applied:
    """Apply all of it, by as many tasks as the job says.

    Raises what the tasks raise; then some buckets may be done, and the same epoch may be repeated.

    `ship`: send the bytes along, for executors that do not see the relay directory.
    """
    try:
        return _applied(runner, job, epoch, ship=ship)
    except RowStatementError as error:
        raise replace(error, log=f"from {epoch.lo} to {epoch.hi}") from error.__cause__


def _applied(runner: Runner, job: EpochJob, epoch: Epoch, *, ship: bool) -> Applied:
    ranges = [with_data(one) for one in epoch.ranges] if ship else list(epoch.ranges)
    groups = job.writing.tasks
    if job.plan.value.whole:
        (applied,) = runner.run(ApplyTransactions(job, epoch.prepared is not None), [tuple(ranges)])
        return applied
    if groups == 1:
        (applied,) = runner.run(ApplyRanges(job), [tuple(ranges)])
        return applied
    exchange = runner.exchange(FoldRange(job, groups), ranges, groups)
    released: list[Applied] = []
    if any(part.unique for part in job.plan.value.targets):
        released = exchange.run(ApplyGroup(job, groups, Act.RELEASE))
    done = exchange.run(ApplyGroup(job, groups, Act.ADVANCE))
    collisions = tuple(collision for one in released for collision in one.collisions)
    return sum(done, Applied(collisions=collisions))


def with_data(one: ByteRange) -> ByteRange:
    """Return the range with its bytes. Raises RelayFileGone or RelayDirectoryUnusable."""
    try:
        with open(one.path, "rb") as file:
            file.seek(one.start)
            return replace(one, data=file.read(one.end - one.start))
    except OSError as error:
        raise unreadable(one.path, error) from error


@dataclass(frozen=True)
class EpochSize:
    """The size in bytes that the next epoch may have: so many that applying them takes about TARGET_SECONDS.

    What an epoch costs whatever its size does not shrink with it, so epochs of less than `usual` bytes come only of a
    target that takes longer than LONGEST_SECONDS for those. The first epoch tells nothing: it waits for workers to
    start, to import and to load their kernels.
    """

    limit: int = 8 * MIB
    one_task: int | None = 4 * MIB
    """Up to here an epoch is one task. None: of any size, as the transaction that crosses `limit` is in it."""
    smallest: int = MIB
    usual: int = 8 * MIB
    largest: int = 64 * MIB
    """What the folded rows of an epoch need in memory is a small multiple of this."""
    warm: bool = False
    """An epoch was applied before."""
    most_changes: int | None = None
    """The changes that an epoch may hold, estimated from the epoch before."""
    most_rows: int | None = None
    """The rows that the largest bucket of an epoch may have, estimated likewise: a transaction takes whole buckets."""
    cut: int = LARGEST_RANGE
    """The bytes behind which a range ends with the next transaction, or statement of a large one."""

    @classmethod
    def on_one_machine(cls) -> EpochSize:
        """Return where a local Spark begins."""
        return cls(one_task=None, largest=32 * MIB)

    def tasks(self, epoch_bytes: int, slots: int) -> int:
        """Return by how many tasks an epoch is written, of a cluster with so many slots."""
        return 1 if self.one_task is None or epoch_bytes <= self.one_task else slots

    def range_bytes(self, slots: int) -> int:
        """Return the size of a range: two for each slot, if they are not too small to be worth a task or too large to
        be held."""
        return min(self.cut, max(self.smallest, min(LARGEST_RANGE, self.limit // (2 * slots))))

    def keeping(self) -> EpochSize:
        """Return the size where each change is held, with the values that it depends on others by."""
        return replace(self, largest=self.usual, limit=min(self.limit, self.usual))

    def is_backlog(self, size: int) -> bool:
        """Tell whether the limit cut an epoch of `size` bytes, and not (as far as one can tell) the log's end."""
        return size >= self.limit // 2

    def holding(self, most_changes: int | None) -> EpochSize:
        """Return the size for epochs of so many changes at most; the first one is small, as nothing is known yet."""
        return self if most_changes is None else replace(self, limit=self.smallest, most_changes=most_changes)

    def with_batch(self, rows: int | None, buckets: int) -> EpochSize:
        """Return the size for epochs whose buckets have at most `rows` rows, even if every change is small."""
        if rows is None:
            return self
        first = SMALL_CHANGE_BYTES * rows * buckets // SPREAD
        return replace(self, limit=min(self.limit, first), smallest=min(self.smallest, first), most_rows=rows)

    def after(self, size: int, seconds: float, changes: int = 0, largest: int = 0) -> EpochSize:
        """Return the size that follows from what an epoch of `size` bytes took. One smaller than the limit was cut by
        the log: it says nothing of larger ones, unless it was slow."""
        return self._as_time_says(size, seconds)._capped(size, changes, largest)

    def _capped(self, size: int, changes: int, largest: int) -> EpochSize:
        caps = [self.limit]
        if self.most_changes is not None and changes:
            caps.append(size * self.most_changes // changes)
        if self.most_rows is not None and largest:
            caps.append(size * self.most_rows * 3 // (4 * largest))
        return replace(self, limit=max(1, min(caps)))

    def _as_time_says(self, size: int, seconds: float) -> EpochSize:
        if not self.warm:
            return replace(self, warm=True)
        seconds = max(seconds, 0.001)
        if seconds <= TARGET_SECONDS and not self.is_backlog(size):
            return self
        wanted = size * min(2.0, TARGET_SECONDS / seconds)
        bearable = min(self.usual, self.limit) if seconds <= LONGEST_SECONDS else size * LONGEST_SECONDS / seconds
        return replace(self, limit=max(self.smallest, min(self.largest, int(max(wanted, bearable)))))
