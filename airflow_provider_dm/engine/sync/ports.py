"""What the loop of a sync asks of others (its ports): the log, the followers of DDL, the shared tables, the re-sync.

The loop knows no more of them than this. The product's are `Tail`, `Following`, `Sharing` and `Resyncing` (run.py); the
tests of the loop have their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Operator
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.online_ddl.outcomes import Apply
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.following import Meaning
from airflow_provider_dm.engine.sync.log.cursor import Cursor
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.standing import Standing
from airflow_provider_dm.engine.sync.write.transactional import Applied


class SourceLog(Protocol):
    """The growing log of one source (`Tail`)."""

    @property
    def waiting(self) -> bool:
        """True if the log did not reach the last cursor."""
        ...

    def plan(
        self,
        at: Cursor,
        *,
        goal: Location | None,
        limit: int | None,
        range_bytes: int,
        until_time: int | None = None,
    ) -> Planned:
        """Plan the next piece."""
        ...

    def distrust(self, error: DmError, epoch: Epoch, at: Cursor) -> None:
        """Read elsewhere, as a piece could not be decoded. Raises `error` unless the log is at fault."""
        ...

    def idle(self, here: Cursor, seconds: float) -> None:
        """Find out why nothing has come for so long."""
        ...

    def look(self, here: Location, goal: Location | None, *, held: Location | None) -> None:
        """Show where the source's log ends."""
        ...


class Follower(Protocol):
    """The follower of one source's DDL (`Following`)."""

    def meaning(self, ddl: DdlStatement, standing: Standing) -> Meaning:
        """Return what a statement is to the task."""
        ...

    def noted(self, ddl: DdlStatement) -> Collection[int]:
        """Return the numbers under which something is noted of the statement."""
        ...

    def pass_over(self, meaning: Meaning, standing: Standing) -> Standing:
        """Remember what a statement is to online DDL."""
        ...

    def follow(
        self, meaning: Meaning, statement: Statement | Apply | None, standing: Standing, operator: Operator | None
    ) -> Standing:
        """Follow a statement up to its rows, if it has any."""
        ...

    def inject(self, operator: Operator, here: Location, standing: Standing) -> Standing:
        """Execute a person's statements in front of the rows that begin here."""
        ...

    def plan_without(self, group: Group, plan: SyncPlan) -> SyncPlan:
        """Return the plan that holds when the group's rows are applied."""
        ...


class SharedTables(Protocol):
    """The target tables that one source's sync shares (`Sharing`)."""

    @property
    def rows(self) -> int:
        """Rows of this source that waited for their places at the last look."""
        ...

    @property
    def rows_since(self) -> float | None:
        """The time from which the oldest of them waits."""
        ...

    def look(self, plan: SyncPlan, *, now: bool = False) -> SyncPlan:
        """Look after rows that wait; return the plan as `noticed` does."""
        ...

    def noticed(self, plan: SyncPlan) -> SyncPlan:
        """Return the plan with the tables that other sources have begun to feed."""
        ...

    def write_over(self, plan: SyncPlan) -> list[Collision]:
        """Put rows that wait into their places, whosever they are."""
        ...

    def finish(self, plan: SyncPlan, wait: Callable[[float], bool]) -> None:
        """Give rows that wait a little time, at the goal."""
        ...

    def feeders(self) -> Sequence[Feeder]:
        """Return the source tables that feed the target tables of the task."""
        ...

    def forget_mappings(self) -> None:
        """Read the definitions of tables again, as they have changed."""
        ...


Resync: TypeAlias = Callable[[Group, Standing, EpochSize, Callable[[Applied], None]], bool]
"""Apply all rows of a group that were held back, and count each epoch; False: asked to stop before the end."""
