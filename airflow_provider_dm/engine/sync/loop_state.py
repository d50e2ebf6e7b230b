"""The state of one source's sync as a frozen value, which has everything that is needed to continue.

Each step (an epoch, a DDL statement, events without changes, a check of shared tables) makes a new value. The loop has
the newest; planning and reporting get a value as an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.binlog.xa import PreparedXa, needed_location
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SubtaskTables
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode


@dataclass(frozen=True)
class LoopState:
    """The state of one sync.

    `applied`: the location that all buckets have reached. `here`: the location at which reading continues; the log
    between `applied` and `here` has no changes. `edge`: the end of a half-applied epoch, which some buckets have
    reached and at which the first epoch must end (frontier rule 1); None: no epoch is half applied. `goal`: None if the
    sync has no end.
    """

    fence: Fence
    applied: Location
    here: Location
    edge: Location | None
    goal: Location | None
    plan: SyncPlan
    """The plan that is valid after `edge`."""
    written_by: SyncPlan
    """The plan of the next epoch: if that is half applied, the plan with which it was begun (frontier rule 6)."""
    safe_mode: SafeMode
    prepared: tuple[PreparedXa, ...] = ()
    """The XA transactions that are prepared at `applied` and `here`."""
    tables: SubtaskTables | None = None
    """The tables at `applied`; None: not read yet, as most runs have no DDL."""
    online_ddl: OnlineDdls | None = None
    """The state of online DDL at `applied`; None: not read yet."""
    overwritten: bool = False
    """True once the rows that were contested when `written_by` was chosen have overwritten the rows in their places."""
    furthest: Location | None = None
    """The end of the last epoch or statement that was begun."""

    @property
    def at_goal(self) -> bool:
        """True if the log is applied up to the goal."""
        return self.edge is None and self.goal is not None and has_passed(self.here, self.goal)

    @property
    def uncertain(self) -> Location | None:
        """The end of the part of the log whose rows may collide; None if it is passed."""
        until = self.safe_mode.until
        return None if until is None or has_passed(self.applied, until) else until

    @property
    def needed(self) -> Location:
        """The location from which the log is still needed, without regard to held-back rows."""
        return needed_location(self.applied, self.prepared)

    def step(self, hi: Location) -> EpochRange:
        """Return the frontier's step from `applied` to `hi`."""
        return EpochRange(self.fence, self.applied.sort_key, hi.sort_key)

    def at(self, hi: Location) -> LoopState:
        """Return the state after all buckets have reached `hi`."""
        return replace(self, applied=hi, here=hi)

    def after(self, epoch: Epoch) -> LoopState:
        """Return the state after all buckets have applied the epoch."""
        return replace(self.at(epoch.hi), edge=None, prepared=prepared_after(self.prepared, epoch))

    def overwriting(self) -> LoopState:
        """Return the state with safe mode on or off in its plan, as it applies from here."""
        safe = self.safe_mode.is_lenient(self.applied)
        return self if self.plan.safe == safe else replace(self, plan=replace(self.plan, safe=safe))


def prepared_after(prepared: tuple[PreparedXa, ...], epoch: Epoch) -> tuple[PreparedXa, ...]:
    """Return the XA transactions that are prepared after an epoch, before which `prepared` are."""
    return prepared if epoch.prepared is None else epoch.prepared
