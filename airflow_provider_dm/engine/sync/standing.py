"""Where the sync of one source is, as one frozen value: all that it needs to go on from there.

Each step (an epoch, a DDL statement, events that change nothing, a look at shared tables) makes another value of it.
The loop has the newest one; what is planned, noted and shown is made from the value that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.binlog.xa import Prepared, oldest_place
from airflow_provider_dm.engine.downstream.frontier import Step
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SubtaskTables
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.here import SafeMode


@dataclass(frozen=True)
class Standing:
    """The state of one sync.

    `applied` is the location that all buckets have reached; `here`, at or behind it, is where reading goes on (there
    may be events in between that change nothing). `edge`: the first epoch ends there, as some buckets have reached it
    (frontier rule 1); None: no epoch is half applied. `goal` None: no end.
    """

    fence: Fence
    applied: Location
    here: Location
    edge: Location | None
    goal: Location | None
    plan: SyncPlan
    """The plan that holds behind `edge`."""
    written_by: SyncPlan
    """The plan by which the next epoch is written: the one that began it, if it is half applied (frontier rule 6)."""
    safe_mode: SafeMode
    prepared: tuple[Prepared, ...] = ()
    """The XA transactions that are prepared at `applied`, and `here`."""
    tables: SubtaskTables | None = None
    """The tables at `applied`; None: not read yet, as most runs meet no DDL."""
    online_ddl: OnlineDdls | None = None
    """What is remembered of online DDL there; None as above."""
    written_over: bool = False
    """The rows that waited when the run began, or when safe mode began, are written over others by now."""
    furthest: Location | None = None
    """The end of the last epoch or statement that was begun."""

    @property
    def at_goal(self) -> bool:
        """True if nothing is left to do."""
        return self.edge is None and self.goal is not None and has_passed(self.here, self.goal)

    @property
    def uncertain(self) -> Location | None:
        """The end of the log whose rows may collide, if it is ahead; else None."""
        until = self.safe_mode.until
        return None if until is None or has_passed(self.applied, until) else until

    @property
    def needed(self) -> Location:
        """The location from which on the log is needed, but for rows that are held back."""
        return oldest_place(self.applied, self.prepared)

    def step(self, hi: Location) -> Step:
        """Return the step that leads from here to `hi`."""
        return Step(self.fence, self.applied.sort_key, hi.sort_key)

    def at(self, hi: Location) -> Standing:
        """Return the state when all buckets have reached `hi`."""
        return replace(self, applied=hi, here=hi)

    def behind(self, epoch: Epoch) -> Standing:
        """Return the state when all of an epoch is applied."""
        return replace(self.at(epoch.hi), edge=None, prepared=after(self.prepared, epoch))

    def overwriting(self) -> Standing:
        """Return the state with the plan by which rows that collide are written over from here on, or no longer."""
        safe = self.safe_mode.is_lenient(self.applied)
        return self if self.plan.safe == safe else replace(self, plan=replace(self.plan, safe=safe), written_over=False)

    def behind_past(self) -> Standing:
        """Return the state when the end of a past that is not exact is forgotten."""
        return replace(self, safe_mode=replace(self.safe_mode, until=None))

    def half_through(self, epoch: Epoch) -> Standing:
        """Return the state when some buckets may have applied an epoch."""
        return replace(self, edge=epoch.hi)


def after(prepared: tuple[Prepared, ...], epoch: Epoch) -> tuple[Prepared, ...]:
    """Return what is prepared behind an epoch, in front of which `prepared` is."""
    return prepared if epoch.prepared is None else epoch.prepared
