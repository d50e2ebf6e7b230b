"""What a sync applies next: a piece of the log from its position to where something else has to happen first.

An epoch ends at the goal, where safe mode ends, at a place that a person has named, and after
a restart at `edge` (frontier rule 1). While one is applied the next is planned, from where that one ends.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.open_places import OpenPlace, half_epoch
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, reached
from airflow_provider_dm.engine.sync.ddl.by_hand import ByHand
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.log.cursor import Cursor
from airflow_provider_dm.engine.sync.ports import SourceLog
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.standing import Standing


@dataclass(frozen=True)
class Planning:
    """A maker of one source's pieces."""

    tail: SourceLog
    by_hand: ByHand
    open_places: tuple[OpenPlace, ...]
    runner: Runner

    def next(self, ahead: Future[Planned] | None, standing: Standing, size: EpochSize) -> Planned:
        """Return the piece that comes next. `ahead`: what was planned meanwhile. Raises what `Tail.plan` raises, and
        InvariantBroken."""
        edge = standing.edge
        if edge is None:
            if ahead is not None and not isinstance(ahead.result(), UpToDate):
                return ahead.result()  # an UpToDate would be old news by now
            return self.behind(standing, size)
        if ahead is not None:
            ahead.exception()  # waited for only: before the edge nothing else may be applied, nor end the run
        planned = self.tail.plan(self.cursor(standing), goal=edge, limit=None, range_bytes=size.range_bytes(1))
        return _ending_at(planned, standing.here, edge)

    def behind(self, standing: Standing, size: EpochSize) -> Planned:
        """Return the piece that comes next where no epoch is half applied. Raises what `Tail.plan` raises."""
        return self.tail.plan(
            self.cursor(standing),
            goal=self.bound(standing),
            limit=size.limit,
            range_bytes=size.range_bytes(self.runner.slots),
            until_time=standing.safe_mode.until_time,
        )

    def cursor(self, standing: Standing) -> Cursor:
        """Return where the log is read on."""
        edge = standing.edge
        half = () if edge is None else (half_epoch(standing.fence.ref.source, edge),)
        return Cursor(standing.here, standing.prepared, (*half, *self.open_places))

    def bound(self, standing: Standing) -> Location | None:
        """Return what the next piece must not cross; None: nothing is ahead."""
        lo = standing.here
        ends = (standing.goal, *standing.safe_mode.ends, self.by_hand.next_place(lo))
        return min((end for end in ends if end and not reached(lo, end)), key=lambda end: end.sort_key, default=None)


def _ending_at(planned: Planned, here: Location, edge: Location) -> Planned:
    match planned:
        case Epoch(hi=hi) if compare(hi, edge) is Order.SAME:
            return planned
        case DdlStatement(end=end) if planned.rows is not None and compare(end, edge) is Order.SAME:
            return planned
        case Epoch(hi=hi) if compare(hi, edge) is Order.BEFORE:
            return UpToDate(here)  # the relay has not pulled all of it again yet
        case UpToDate():
            return planned
    raise InvariantBroken(f"the first epoch ends where buckets are already ({edge})", f"the log has {planned}")
