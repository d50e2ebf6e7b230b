"""What a sync applies next: a piece of the log from where it stands, ended where something else has to happen first.

An epoch ends at the goal, where safe mode ends, at a place that a person has named, and after
a restart at `edge` (frontier rule 1). While one is applied the next is planned, from where that one ends.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.open_places import OpenPlace, half_epoch
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.binlog.xa import Prepared
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, has_passed, reached
from airflow_provider_dm.engine.sync.ddl.by_hand import ByHand
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.safe_mode.here import SafeModeHere
from airflow_provider_dm.engine.target.frontier import Step
from airflow_provider_dm.engine.target.identity import Fence


@dataclass
class Position:
    """The position of one sync. Mutable.

    `applied` is where all buckets stand; `here`, at or behind it, is where reading goes on (there may be events in
    between that change nothing). `edge`: see frontier rule 1; None once it is reached. `goal` None: no end.
    `overwrite_until`: up to there rows may collide, as the start was in a past that is not exact; None: they may not.
    `furthest`: where the last epoch or statement ends that was begun."""

    fence: Fence
    applied: Location
    here: Location
    edge: Location | None
    goal: Location | None
    overwrite_until: Location | None
    furthest: Location | None = None

    @property
    def at_goal(self) -> bool:
        """True if nothing is left to do."""
        return self.edge is None and self.goal is not None and has_passed(self.here, self.goal)

    @property
    def uncertain(self) -> Location | None:
        """The end of the log whose rows may collide, if it is ahead; else None."""
        until = self.overwrite_until
        return None if until is None or has_passed(self.applied, until) else until

    def step(self, hi: Location) -> Step:
        """Return the step that leads from here to `hi`."""
        return Step(self.fence, self.applied.sort_key, hi.sort_key)


@dataclass(frozen=True)
class Planning:
    """A maker of one source's pieces."""

    tail: Tail
    position: Position
    safe_mode: SafeModeHere
    by_hand: ByHand
    open_places: tuple[OpenPlace, ...]
    runner: Runner

    def next(self, ahead: Future[Planned] | None, prepared: tuple[Prepared, ...], size: EpochSize) -> Planned:
        """Return the piece behind where the sync stands. `ahead`: what was planned meanwhile; `prepared`: the XA
        transactions that are prepared there. Raises what `Tail.plan` raises, and InvariantBroken."""
        edge = self.position.edge
        if edge is None:
            if ahead is not None and not isinstance(ahead.result(), UpToDate):
                return ahead.result()  # an UpToDate would be old news by now
            return self.behind(self.position.here, prepared, size)
        if ahead is not None:
            ahead.exception()  # waited for only: before the edge nothing else may be applied, nor end the run
        planned = self.tail.plan(
            self.position.here,
            goal=edge,
            limit=None,
            range_bytes=size.range_bytes(1),
            prepared=prepared,
            open_places=(half_epoch(self.position.fence.ref.source, edge), *self.open_places),
        )
        return self._ending_at(planned, edge)

    def behind(self, lo: Location, prepared: tuple[Prepared, ...], size: EpochSize) -> Planned:
        """Return the piece behind `lo`, in front of which `prepared` is. Raises what `Tail.plan` raises."""
        return self.tail.plan(
            lo,
            goal=self.bound(lo),
            limit=size.limit,
            range_bytes=size.range_bytes(self.runner.slots),
            prepared=prepared,
            until_time=self.safe_mode.until_time,
            open_places=self.open_places,
        )

    def bound(self, lo: Location) -> Location | None:
        """Return what a piece behind `lo` must not cross; None: nothing is ahead."""
        ends = (self.position.goal, self.position.overwrite_until, self.safe_mode.exit, self.by_hand.next_place(lo))
        return min((end for end in ends if end and not reached(lo, end)), key=lambda end: end.sort_key, default=None)

    def _ending_at(self, planned: Planned, edge: Location) -> Planned:
        match planned:
            case Epoch(hi=hi) if compare(hi, edge) is Order.SAME:
                return planned
            case DdlStatement(end=end) if planned.rows is not None and compare(end, edge) is Order.SAME:
                return planned
            case Epoch(hi=hi) if compare(hi, edge) is Order.BEFORE:
                return UpToDate(self.position.here)  # the relay has not pulled all of it again yet
            case UpToDate():
                return planned
        raise InvariantBroken(f"the first epoch ends where buckets stand already ({edge})", f"the log has {planned}")
