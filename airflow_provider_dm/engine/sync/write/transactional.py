"""Transactions of the source, whole and in their order (`apply: transactional`).

A target transaction holds one or more whole transactions of the source and moves all buckets to the end of the last of
them, so readers of the target see a state that the source had, at any time and after any crash.

    log         100     140          220   260          400            an epoch: (100, 400]
    source      | tx 1  | tx 2       | tx 3 | tx 4      |
    target      ( tx 1, tx 2: 100 -> 220 ) ( tx 3, tx 4: 220 -> 400 )

The frontier is always between two transactions of the source, at one position in all buckets; there are no half epochs.
A task that is repeated, late or concurrent finds the frontier further ahead than expected, and continues from there:
the division of the log into target transactions matters only to their writer. Only a plan of the same epoch with other
ranges may have no group that ends there (`TransactionGroupsChanged`); then the sync opens again at that position.

Within a target transaction changes are folded, or kept one by one (`compact`), as in an epoch. A transaction of the
source that exceeds the memory limit is decoded and written in parts, within one target transaction.

Exceptions, which docs/limits.md lists: waiting rows of merged tables, and held-back rows of shards with a pending DDL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.downstream.errors import TargetLimit, TargetRefused
from airflow_provider_dm.engine.downstream.frontier import common_position, read_frontier, whole_transaction
from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.errors import TransactionGroupsChanged
from airflow_provider_dm.engine.sync.write.apply import SMALL_BATCH, ApplyResult, WaveWriter, with_careful_retry
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.dependence import LoggedChange

LARGE_BYTES: Final = 1 << 20
"""A group with more bytes of log is decoded while it is written."""
PIECE_CHANGES: Final = 10_000
"""The number of changes of a large group that are in memory at a time."""
SMALL_CHANGE_BYTES: Final = 16
"""The size of the smallest change in the log, from which the size of ranges with at most `batch` rows is estimated."""
RANGE_BYTES: Final = 50_000
"""The size of a range if `batch` is not configured."""
_TOO_LARGE: Final = frozenset({1197, 8004, 8175})
"""Of max_binlog_cache_size (MySQL, MariaDB), txn-total-size-limit and tidb_mem_quota_query (TiDB)."""


@dataclass(frozen=True)
class TransactionGroup:
    """Whole transactions of the source. `hi`: the sort key of their end. `changes`: decodes them, at each call."""

    hi: str
    size: int
    changes: Callable[[], Iterator[LoggedChange]]


def groups_of(
    ranges: Sequence[ByteRange], hi: str, changes_in: Callable[[ByteRange], Iterator[LoggedChange]], *, together: bool
) -> list[TransactionGroup]:
    """Return the groups of an epoch that ends at `hi`, as small as its ranges allow.

    `together`: return one group, because the prepared XA transactions are known for the epoch's ends only. A range of a
    prepared transaction (`counts_at`) belongs to the group of its commit, which follows it.
    """
    groups: list[TransactionGroup] = []
    held: list[ByteRange] = []
    for range_ in ranges:
        held.append(range_)
        if not (together or range_.closes or range_.counts_at):
            groups.append(_group(held, Location(range_.file, range_.end, "", range_.suffix).sort_key, changes_in))
            held = []
    if held or not groups:
        groups.append(_group(held, hi, changes_in))
    groups[-1] = replace(groups[-1], hi=hi)
    return groups


def _group(
    ranges: list[ByteRange], hi: str, changes_in: Callable[[ByteRange], Iterator[LoggedChange]]
) -> TransactionGroup:
    def changes() -> Iterator[LoggedChange]:
        return (change for range_ in ranges for change in changes_in(range_))

    return TransactionGroup(hi, sum(range_.end - range_.start for range_ in ranges), changes)


@dataclass(frozen=True)
class _TargetTransaction:
    """The changes of one target transaction. `pieces`: parts that are folded and written separately."""

    hi: str
    pieces: Callable[[], Iterable[Sequence[LoggedChange]]]


@dataclass(frozen=True)
class TransactionalWriter:
    """The writer of one epoch. `writer`: for the epoch's step; only its `write_inside` is used."""

    writer: WaveWriter

    def write(self, groups: Sequence[TransactionGroup]) -> ApplyResult:
        """Write the groups that are not written yet. Raises Fenced, TargetWentBack, TargetLimit,
        TransactionGroupsChanged, and the errors of decoding and writing."""
        applied, here = ApplyResult(), self.writer.step.lo
        while left := [group for group in groups if group.hi > here]:
            for transaction in self._target_transactions(left):
                writing = partial(self._try_transaction, here, transaction)
                done = with_careful_retry(writing, safe=self.writer.plan.safe)
                if done is None:
                    break
                applied, here = applied + done, transaction.hi
            else:
                break
            here = self._moved_to(last=here, groups=groups)
        return applied

    def _moved_to(self, *, last: str, groups: Sequence[TransactionGroup]) -> str:
        """Return the position to which another call has moved the frontier from `last`. Raises
        TransactionGroupsChanged if no group ends there."""
        step, buckets = self.writer.step, range(self.writer.plan.buckets)
        frontier = self.writer.target.transactions(lambda connection: read_frontier(connection, step, buckets))
        here = common_position(frontier, replace(step, lo=last), buckets)
        if here == last:
            raise InvariantBroken(f"another call has moved the frontier of {step.lo}..{step.hi} from {last}", here)
        if here < step.hi and here not in {group.hi for group in groups}:
            raise TransactionGroupsChanged(step.lo, step.hi, here)
        return here

    def _target_transactions(self, groups: Iterable[TransactionGroup]) -> Iterator[_TargetTransaction]:
        most = self.writer.batch or SMALL_BATCH
        held: list[LoggedChange] = []
        hi = ""
        for group in groups:
            if group.size > LARGE_BYTES:
                if hi:
                    yield _in_memory(hi, held)
                yield _TargetTransaction(group.hi, partial(_pieces_of, group))
                held, hi = [], ""
                continue
            changes = list(group.changes())
            if hi and len(held) + len(changes) > most:
                yield _in_memory(hi, held)
                held = []
            held, hi = held + changes, group.hi
            if len(held) >= most:
                yield _in_memory(hi, held)
                held, hi = [], ""
        if hi:
            yield _in_memory(hi, held)

    def _try_transaction(
        self, here: str, transaction: _TargetTransaction, *, careful: bool, met: DmError | None = None
    ) -> ApplyResult | None:
        """Write a target transaction that begins at `here`; return None if another call has written it."""
        step = replace(self.writer.step, lo=here, hi=transaction.hi)
        writer = replace(self.writer, step=step)

        def body(connection: Connection) -> ApplyResult:
            done = ApplyResult()
            for piece in transaction.pieces():
                waves = self._waves(piece)
                written = writer.write_inside(
                    connection, [waves.first, waves.second, *waves.later], careful=careful, met=met
                )
                done += replace(written, changes=waves.changes, rows=waves.rows())
            return done

        try:
            return whole_transaction(writer.target.transactions, step, range(writer.plan.buckets), body)
        except TargetRefused as error:
            if error.number in _TOO_LARGE:
                raise TargetLimit(
                    f"the target does not accept the transactions from {here} to {transaction.hi} as one: "
                    f"{error.number} {error.reason}.",
                    "Raise max_binlog_cache_size of the target (TiDB: tidb_mem_quota_query; txn-total-size-limit if it "
                    "is set) or set `batch` below 100, then resume; or let the sync pass that location with "
                    "`apply: concurrent`.",
                ) from error
            raise

    def _waves(self, changes: Sequence[LoggedChange]) -> Waves:
        writer = self.writer
        folded = Compactor(writer.plan).add_all(changes)
        return make_waves(writer.plan, folded)


def _in_memory(hi: str, changes: list[LoggedChange]) -> _TargetTransaction:
    return _TargetTransaction(hi, lambda: [changes])


def _pieces_of(group: TransactionGroup) -> Iterator[Sequence[LoggedChange]]:
    changes = group.changes()
    while piece := list(islice(changes, PIECE_CHANGES)):
        yield piece
