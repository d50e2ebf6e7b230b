"""Planning of the piece of the log that a sync applies next.

An epoch ends at the latest at the goal, at the end of safe mode, at a location of a user's decision, and after a
restart at `edge` (frontier rule 1). Beside an epoch of a backlog the next one is planned from its end, and before this
one is written if the rows of the next one are to be folded meanwhile (`write/ahead.py`).
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.open_places import OpenPlace, half_epoch
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, reached
from airflow_provider_dm.engine.sync.ddl.by_hand import SubtaskOperators
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.ports import SourceLog
from airflow_provider_dm.engine.sync.runner import Runner


@dataclass(frozen=True)
class Planning:
    """Plans the pieces of one source's log."""

    tail: SourceLog
    by_hand: SubtaskOperators
    open_places: tuple[OpenPlace, ...]
    runner: Runner

    def next(self, following: Future[Planned] | None, state: LoopState, size: EpochSize) -> Planned:
        """Return the next piece. `following`: the piece that was planned during the last epoch. Raises the errors of
        `Tail.plan`, and InvariantBroken."""
        edge = state.edge
        if edge is None:
            if following is not None and not isinstance(following.result(), UpToDate):
                return following.result()  # an UpToDate may be outdated by now
            return self.after(state, size)
        if following is not None:
            following.exception()  # wait for it, and ignore its result: the half-applied epoch must be repeated first
        planned = self.tail.plan(self.cursor(state), EpochLimits(goal=edge, range_bytes=size.range_bytes(1)))
        return _ending_at(planned, state.here, edge)

    def after(self, state: LoopState, size: EpochSize) -> Planned:
        """Return the next piece when no epoch is half applied. Raises the errors of `Tail.plan`."""
        range_bytes = size.range_bytes(self.runner.slots)
        limits = EpochLimits(self.bound(state), size.limit, range_bytes, state.safe_mode.until_time)
        return self.tail.plan(self.cursor(state), limits)

    def cursor(self, state: LoopState) -> Cursor:
        """Return the cursor at which reading continues."""
        edge = state.edge
        half = () if edge is None else (half_epoch(state.fence.ref.source, edge),)
        return Cursor(state.here, state.prepared, (*half, *self.open_places))

    def bound(self, state: LoopState) -> Location | None:
        """Return the location that the next piece must not cross; None: no limit."""
        lo = state.here
        ends = (state.goal, *state.safe_mode.ends, self.by_hand.next_place(lo))
        return min((end for end in ends if end and not reached(lo, end)), key=lambda end: end.sort_key, default=None)


def _ending_at(planned: Planned, here: Location, edge: Location) -> Planned:
    match planned:
        case Epoch(hi=hi) if compare(hi, edge) is Order.SAME:
            return planned
        case DdlStatement(end=end) if planned.rows is not None and compare(end, edge) is Order.SAME:
            return planned
        case Epoch(hi=hi) if compare(hi, edge) is Order.BEFORE:
            return UpToDate(here)  # the relay has not pulled the whole epoch again yet
        case UpToDate():
            return planned
    raise InvariantBroken(f"the first epoch ends at the location of the advanced buckets ({edge})", f"got {planned}")
