"""The ragged frontier: which piece of the log a transaction may apply, decided by the rows that commit with the data.

Rows are hashed into buckets, and each bucket has one row in dm_frontier: `position` (everything of this bucket up to
there is applied), `released` (the epoch that ends there has done its wave 1 in this bucket) and `generation`. An epoch
is the piece (lo, hi] of the log. It acts on a bucket at most twice, each time in one transaction whose *first*
statement moves the frontier row:

    RELEASE   released -> hi           wave 1: deletes, so that no unique value is held by a row that gives it up
    ADVANCE   position: lo -> hi       wave 2 (or the only wave): everything else

The statement is lock, fence, order check and memory in one. Where it matches all rows, the transaction goes on. Where
it does not, nothing is written, and `judge` says what the rows that stand there mean:

    a newer generation                  -> Fenced: another run owns the subtask; end
    an older one, a place before lo, no row at all
                                        -> TargetWentBack: it was restored, or lost commits; end
    already at hi (RELEASE: released)   -> this work was done: a retry, a duplicate, a commit whose answer was lost
    at lo                               -> still to do
    anything else                       -> the protocol is broken; stop

For example two buckets and the epoch (100, 200]; a kill -9 comes when bucket 0 has done both waves, bucket 1 the first:

    bucket    position    released    generation
    0         200         200         7
    1         100         200         7

The next run claims generation 8 in both rows. Its first epoch is (100, 200] again, by rule 1. Bucket 0 answers that
this work was done; in bucket 1 so does RELEASE, and ADVANCE writes what is missing, and nothing twice.

Rules, each with what happens without it (tests/unit/sync/test_frontier_model.py breaks them one by one):
1. After a restart the first epoch ends exactly at `edge`, the furthest position that any bucket has reached or
   released, whatever the planner would prefer. Else rows are applied twice, or a fold with other bounds does not write
   again what wave 1 of the epoch before has deleted. In another server's log the same transactions may end elsewhere:
   then the old log is needed up to `edge` (binlog/open_places.py).
2. Wave 2 begins when wave 1 is committed in all buckets. Else a unique value is claimed before it is given up.
3. Frontier and rows are one transaction. Else rows are lost or doubled.
4. Every transaction checks the generation. Else a zombie of an older run writes old rows.
5. Wave 1 moves `released` in its own transaction. Else a late wave 1 deletes rows that wave 2 has written.
6. Bucket count, hash version, tables, keys, rules and the way of writing change only when all buckets stand at one
   place. Else the second half of an epoch is another epoch's.

Where transactions of the source are written whole (sync/write/transactional.py) all buckets move together, by ADVANCE,
to an end of one: there is no half of an epoch, and rules 1, 2 and 5 have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef, TargetWentBack
from airflow_provider_dm.engine.target.meta_rows import FRONTIER, marks_for

T = TypeVar("T")


class Act(Enum):
    """The action of a transaction on its buckets."""

    RELEASE = "release"
    ADVANCE = "advance"


@dataclass(frozen=True, slots=True)
class Stand:
    """One row of dm_frontier."""

    bucket: int
    position: str
    released: str
    generation: int


@dataclass(frozen=True)
class Step:
    """The piece (lo, hi] of one subtask's log, as sort keys, and the generation that may apply it."""

    fence: Fence
    lo: str
    hi: str


Body = Callable[[Connection, Sequence[int]], None]
"""Writes the rows of these buckets."""


class Transactions(Protocol):
    """A way to run a body as one transaction, again after failures that may pass (`session.run_transaction`)."""

    def __call__(self, body: Callable[[Connection], T], /) -> T: ...


def judge(stands: Sequence[Stand], step: Step, act: Act, buckets: Sequence[int]) -> tuple[int, ...]:
    """Return those of these buckets that are still to be done, as their frontier rows say.

    Raises Fenced, InvariantBroken, TargetWentBack.
    """
    _check_ours(stands, step, buckets)
    return tuple(stand.bucket for stand in stands if _open(stand, step, act))


def _check_ours(stands: Sequence[Stand], step: Step, buckets: Sequence[int]) -> None:
    """Check that all of these buckets are there, and ours. Raises Fenced, TargetWentBack."""
    if strangers := {stand.generation for stand in stands} - {step.fence.generation}:
        raise step.fence.refused(max(strangers))
    if len(stands) < len(buckets):  # what is not there is not applied
        raise step.fence.refused(0)


def _open(stand: Stand, step: Step, act: Act) -> bool:
    if stand.position == step.hi:
        return False
    if stand.position < step.lo:
        found, known = f"bucket {stand.bucket} at {stand.position}", f"all up to {step.lo}"
        raise TargetWentBack(*step.fence.ref.key, found, known)
    if stand.position != step.lo:
        raise InvariantBroken(
            f"a bucket stands at the beginning or the end of the epoch {step.lo}..{step.hi}",
            f"bucket {stand.bucket} at {stand.position}",
        )
    if stand.released > step.lo and stand.released != step.hi:
        raise InvariantBroken(
            f"an epoch is repeated with the same bounds {step.lo}..{step.hi}",
            f"bucket {stand.bucket} has released up to {stand.released}",
        )
    return act is Act.ADVANCE or stand.released != step.hi


def extent(stands: Sequence[Stand]) -> tuple[str, str]:
    """Return (lo, edge): what is applied everywhere, where the first epoch must end; equal if nothing is half done."""
    lo = min(stand.position for stand in stands)
    return lo, max(max(stand.position, stand.released) for stand in stands)


def fenced_transaction(
    transactions: Transactions, step: Step, act: Act, buckets: Sequence[int], body: Body
) -> tuple[int, ...]:
    """Run `body(connection, buckets)` behind the frontier, at most once for each bucket. Return the buckets done now.

    Raises Fenced, TargetWentBack, InvariantBroken, and what `body` raises; then nothing of it is written.
    """
    wanted = tuple(buckets)

    def attempt(connection: Connection) -> None:
        if move(connection, step, act, wanted) != len(wanted):
            raise _NotAllMatched
        body(connection, wanted)

    def look(connection: Connection) -> list[Stand]:
        return read_frontier(connection, step, wanted)

    while wanted:
        try:
            transactions(attempt)
            break
        except _NotAllMatched:
            wanted = judge(transactions(look), step, act, wanted)
    return wanted


def whole_transaction(
    transactions: Transactions, step: Step, buckets: Sequence[int], body: Callable[[Connection], T]
) -> T | None:
    """Run `body(connection)` behind a frontier of which all of `buckets` move from lo to hi. Return what it returns;
    None, with nothing written, where they do not stand at lo (`common_stand` says where).

    Raises what `body` raises; then nothing of it is written.
    """

    def attempt(connection: Connection) -> T:
        if move(connection, step, Act.ADVANCE, buckets) != len(buckets):
            raise _NotAllMatched
        return body(connection)

    try:
        return transactions(attempt)
    except _NotAllMatched:
        return None


def common_stand(stands: Sequence[Stand], step: Step, buckets: Sequence[int]) -> str:
    """Return the one place at which all of these buckets stand. Raises Fenced, TargetWentBack, InvariantBroken."""
    _check_ours(stands, step, buckets)
    lowest, furthest = extent(stands)
    if lowest < step.lo:
        raise TargetWentBack(*step.fence.ref.key, f"a bucket at {lowest}", f"all up to {step.lo}")
    if lowest != max(stand.position for stand in stands):
        raise InvariantBroken("all buckets move together", f"they stand between {lowest} and {furthest}")
    return lowest


def move(connection: Connection, step: Step, act: Act, buckets: Sequence[int]) -> int:
    """Move the frontier by the first statement of the transaction. Return how many of the buckets it matched."""
    change, guard = _MOVES[act]
    where = f"bucket IN ({marks_for(buckets)}) AND generation = %s AND position = %s AND {guard}"
    values = (*buckets, step.fence.generation, step.lo, step.lo, step.hi)
    return FRONTIER.update(connection, step.fence.ref, f"{change} = %s", (step.hi,), where, values)


_MOVES = {
    # A released position beyond lo belongs to this very epoch, or an epoch was cut differently (rule 1).
    Act.ADVANCE: ("position", "(released <= %s OR released = %s)"),
    Act.RELEASE: ("released", "(released <= %s AND released <> %s)"),
}


def read_frontier(connection: Connection, step: Step, buckets: Sequence[int]) -> list[Stand]:
    """Return the rows of these buckets. Raises AnswerCut: what is not seen would not be done."""
    return _stands(connection, step.fence.ref, f"bucket IN ({marks_for(buckets)})", tuple(buckets))


def read_all_stands(connection: Connection, ref: SubtaskRef) -> list[Stand]:
    """Return the whole frontier of a subtask; empty where none was begun. Raises AnswerCut.

    `Subtask.buckets` says how many rows there have to be.
    """
    return _stands(connection, ref)


def _stands(connection: Connection, ref: SubtaskRef, where: str = "", values: tuple[int, ...] = ()) -> list[Stand]:
    rows = FRONTIER.read(
        connection, ref, "bucket, position, released, generation", where, values, tail="ORDER BY bucket"
    )
    return [
        Stand(int(bucket), text(position), text(released), int(found)) for bucket, position, released, found in rows
    ]


def begin_frontier(connection: Connection, fence: Fence, position: str, buckets: int) -> None:
    """Let all buckets stand at one place, whatever was there, in a transaction that has checked the generation."""
    FRONTIER.delete(connection, fence.ref)
    rows = [(bucket, position, fence.generation) for bucket in range(buckets)]
    FRONTIER.put(connection, fence.ref, "bucket, position, generation", rows, verb="INSERT")


class _NotAllMatched(DmError):
    """A mismatch that rolls the transaction back and is answered by `judge`."""

    code = "DM-6012"
    what = "the frontier did not match."
    hint = "Nothing was written; it is tried in another way by itself."
