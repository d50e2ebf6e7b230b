"""The ragged frontier: it decides which part of the log a transaction may apply, by rows that commit with the data.

Rows are hashed into buckets, and each bucket has one row in dm_frontier: `position` (everything of this bucket up to
there is applied), `released` (the epoch that ends there has committed its wave 1 in this bucket) and `generation`. An
epoch is the part (lo, hi] of the log. It changes a bucket at most twice, each time in a transaction whose *first*
statement moves the frontier row:

    RELEASE   released -> hi           wave 1: deletes, so that no unique value is held by a row that gives it up
    ADVANCE   position: lo -> hi       wave 2 (or the only wave): everything else

This statement takes the lock, checks the generation and the order, and records the progress. If it matches all rows,
the transaction continues; if not, nothing is written, and `judge` interprets the rows:

    a newer generation                  -> Fenced: another run owns the subtask; end
    an older one, a position before lo, no row
                                        -> TargetWentBack: it was restored, or lost commits; end
    already at hi (RELEASE: released)   -> this work was done: a retry, a duplicate, a commit whose answer was lost
    at lo                               -> still to do
    anything else                       -> the protocol is broken; stop

For example two buckets and the epoch (100, 200]; after a kill -9 bucket 0 has committed both waves, bucket 1 the first:

    bucket    position    released    generation
    0         200         200         7
    1         100         200         7

The next run claims generation 8 in both rows. Its first epoch is (100, 200] again, by rule 1. In bucket 0 all is done
already; in bucket 1 RELEASE is, and ADVANCE writes the rest, so nothing is written twice.

Rules, each with the consequence of breaking it (tests/unit/sync/test_rounds_model.py breaks them one by one):
1. After a restart the first epoch ends exactly at `edge`, the furthest position that any bucket has reached or
   released, regardless of the planner. Otherwise rows are applied twice, or a fold with other bounds does not write
   again what wave 1 of the previous epoch has deleted. In another server's log the same transactions may end elsewhere:
   then the old log is needed up to `edge` (binlog/open_places.py).
2. Wave 2 begins after wave 1 is committed in all buckets. Otherwise a unique value is claimed before it is released.
3. Frontier and rows are one transaction. Otherwise rows are lost or applied twice.
4. Every transaction checks the generation. Otherwise a process of an older run that is still alive writes old rows.
5. Wave 1 moves `released` in its own transaction. Otherwise a late wave 1 deletes rows that wave 2 has written.
6. Bucket count, hash version, tables, keys and rules change only when all buckets are at one position. Otherwise the
   second half of an epoch differs from its first half. Safe mode and the sharing of tables may change in between if
   they do not affect wave 1 (sync/write/causality.py); otherwise the epoch is completed as it began.

If transactions of the source are written whole (sync/write/transactional.py), all buckets move together, by ADVANCE, to
the end of a transaction: there are no half epochs, and rules 1, 2 and 5 do not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from airflow_provider_dm.engine.downstream.errors import TargetWentBack
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import FRONTIER, marks_for
from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection, text

T = TypeVar("T")


class FrontierMove(Enum):
    """The action of a transaction on its buckets."""

    RELEASE = "release"
    ADVANCE = "advance"


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """One row of dm_frontier."""

    bucket: int
    position: str
    released: str
    generation: int


@dataclass(frozen=True)
class EpochRange:
    """The part (lo, hi] of one subtask's log, as sort keys, and the generation that may apply it."""

    fence: Fence
    lo: str
    hi: str


Body = Callable[[Connection, Sequence[int]], None]
"""Writes the rows of these buckets."""


class Transactions(Protocol):
    """Runs a body as one transaction, and retries it after transient errors (`session.run_transaction`)."""

    def __call__(self, body: Callable[[Connection], T], /) -> T: ...


def judge(
    states: Sequence[FrontierRow], step: EpochRange, act: FrontierMove, buckets: Sequence[int]
) -> tuple[int, ...]:
    """Return the buckets that are still to be done, according to their frontier rows.

    Raises Fenced, InvariantBroken, TargetWentBack.
    """
    _check_generation(states, step, buckets)
    return tuple(state.bucket for state in states if _is_open(state, step, act))


def _check_generation(states: Sequence[FrontierRow], step: EpochRange, buckets: Sequence[int]) -> None:
    """Check that all of these buckets exist and have this generation. Raises Fenced, TargetWentBack."""
    if others := {state.generation for state in states} - {step.fence.generation}:
        raise step.fence.refused(max(others))
    if len(states) < len(buckets):  # a missing bucket is not applied
        raise step.fence.refused(0)


def _is_open(state: FrontierRow, step: EpochRange, act: FrontierMove) -> bool:
    if state.position == step.hi:
        return False
    if state.position < step.lo:
        found, known = f"bucket {state.bucket} at {state.position}", f"all up to {step.lo}"
        raise TargetWentBack(*step.fence.ref.key, found, known)
    if state.position != step.lo:
        raise InvariantBroken(
            f"a bucket is at the beginning or the end of the epoch {step.lo}..{step.hi}",
            f"bucket {state.bucket} at {state.position}",
        )
    if state.released > step.lo and state.released != step.hi:
        raise InvariantBroken(
            f"an epoch is repeated with the same bounds {step.lo}..{step.hi}",
            f"bucket {state.bucket} has released up to {state.released}",
        )
    return act is FrontierMove.ADVANCE or state.released != step.hi


def extent(states: Sequence[FrontierRow]) -> tuple[str, str]:
    """Return (lo, edge): the position applied in all buckets, and the required end of the first epoch."""
    lo = min(state.position for state in states)
    return lo, max(max(state.position, state.released) for state in states)


def fenced_transaction(
    transactions: Transactions, step: EpochRange, act: FrontierMove, buckets: Sequence[int], body: Body
) -> tuple[int, ...]:
    """Run `body(connection, buckets)` after moving the frontier, at most once per bucket. Return the buckets done now.

    Raises Fenced, TargetWentBack, InvariantBroken, and the errors of `body`, whose writes are then rolled back.
    """
    wanted = tuple(buckets)

    def attempt(connection: Connection) -> None:
        if move(connection, step, act, wanted) != len(wanted):
            raise _NotAllMatched
        body(connection, wanted)

    def read_rows(connection: Connection) -> list[FrontierRow]:
        return read_frontier(connection, step, wanted)

    while wanted:
        try:
            transactions(attempt)
            break
        except _NotAllMatched:
            wanted = judge(transactions(read_rows), step, act, wanted)
    return wanted


def whole_transaction(
    transactions: Transactions, step: EpochRange, buckets: Sequence[int], body: Callable[[Connection], T]
) -> T | None:
    """Run `body(connection)` after moving all of `buckets` from lo to hi. Return its result; None, with nothing
    written, if they are not at lo (`common_position` returns their position).

    Raises the errors of `body`, whose writes are then rolled back.
    """

    def attempt(connection: Connection) -> T:
        if move(connection, step, FrontierMove.ADVANCE, buckets) != len(buckets):
            raise _NotAllMatched
        return body(connection)

    try:
        return transactions(attempt)
    except _NotAllMatched:
        return None


def common_position(states: Sequence[FrontierRow], step: EpochRange, buckets: Sequence[int]) -> str:
    """Return the position that all given buckets have reached. Raises Fenced, TargetWentBack, InvariantBroken."""
    _check_generation(states, step, buckets)
    lowest, furthest = extent(states)
    if lowest < step.lo:
        raise TargetWentBack(*step.fence.ref.key, f"a bucket at {lowest}", f"all up to {step.lo}")
    if lowest != max(state.position for state in states):
        raise InvariantBroken("all buckets move together", f"they are between {lowest} and {furthest}")
    return lowest


def move(connection: Connection, step: EpochRange, act: FrontierMove, buckets: Sequence[int]) -> int:
    """Move the frontier by the first statement of the transaction. Return the number of matched buckets."""
    change, guard = _MOVES[act]
    where = f"bucket IN ({marks_for(buckets)}) AND generation = %s AND position = %s AND {guard}"
    values = (*buckets, step.fence.generation, step.lo, step.lo, step.hi)
    return FRONTIER.update(connection, step.fence.ref, f"{change} = %s", (step.hi,), where, values)


_MOVES = {
    # A `released` beyond lo belongs to this very epoch, or an epoch had other bounds (rule 1).
    FrontierMove.ADVANCE: ("position", "(released <= %s OR released = %s)"),
    FrontierMove.RELEASE: ("released", "(released <= %s AND released <> %s)"),
}


def read_frontier(connection: Connection, step: EpochRange, buckets: Sequence[int]) -> list[FrontierRow]:
    """Return the rows of these buckets. Raises IncompleteResult: a missing row would be skipped."""
    return _frontier_rows(connection, step.fence.ref, f"bucket IN ({marks_for(buckets)})", tuple(buckets))


def read_whole_frontier(connection: Connection, ref: SubtaskRef) -> list[FrontierRow]:
    """Return the whole frontier of a subtask; empty if it has none. Raises IncompleteResult.

    `Subtask.buckets` is the expected number of rows.
    """
    return _frontier_rows(connection, ref)


def _frontier_rows(
    connection: Connection, ref: SubtaskRef, where: str = "", values: tuple[int, ...] = ()
) -> list[FrontierRow]:
    rows = FRONTIER.read(
        connection, ref, "bucket, position, released, generation", where, values, tail="ORDER BY bucket"
    )
    return [
        FrontierRow(int(bucket), text(position), text(released), int(found))
        for bucket, position, released, found in rows
    ]


def begin_frontier(connection: Connection, fence: Fence, position: str, buckets: int) -> None:
    """Set all buckets to one position, in a transaction that has checked the generation."""
    FRONTIER.delete(connection, fence.ref)
    rows = [(bucket, position, fence.generation) for bucket in range(buckets)]
    FRONTIER.put(connection, fence.ref, "bucket, position, generation", rows, verb="INSERT")


class _NotAllMatched(DmError):
    """The frontier is not where the transaction expects it. The transaction is rolled back; `judge` compares them."""

    code = "DM-6012"
    what = "the frontier did not match."
    hint = "Nothing was written; the frontier is read again."
