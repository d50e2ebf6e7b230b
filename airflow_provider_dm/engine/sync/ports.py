"""The ports of the sync loop: protocols for the log, the DDL, and the re-sync.

The product's implementations are `Tail`, `Following` and `Resyncing` (run_sync.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Operator
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.following import DdlMeaning
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.write.apply import ApplyResult


class SourceLog(Protocol):
    """The growing log of one source (`Tail`)."""

    @property
    def waiting(self) -> bool:
        """True if the log did not reach the last cursor."""
        ...

    def plan(self, at: Cursor, limits: EpochLimits) -> Planned:
        """Plan the next piece."""
        ...

    def distrust(self, error: DmError, epoch: Epoch, at: Cursor) -> None:
        """Switch to another log, as an epoch could not be decoded. Raises `error` unless the log is the cause."""
        ...

    def idle(self, here: Cursor, seconds: float) -> None:
        """Check the log after `seconds` without events."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the log has grown or `stop` is set, at most about `seconds`."""
        ...

    def update_progress(self, here: Location, goal: Location | None, *, held: Location | None) -> None:
        """Update the progress with the end of the source's log."""
        ...


class Follower(Protocol):
    """The follower of one source's DDL (`Following`)."""

    def meaning(self, ddl: DdlStatement, state: LoopState) -> DdlMeaning:
        """Return the meaning of a statement for the task."""
        ...

    def noted(self, ddl: DdlStatement) -> Collection[int]:
        """Return the numbers of the statement's entries in the DDL journal."""
        ...

    def pass_over(self, meaning: DdlMeaning, state: LoopState) -> LoopState:
        """Save the state of online DDL after a skipped statement."""
        ...

    def follow(
        self, meaning: DdlMeaning, statement: Statement | ApplyDdl | None, state: LoopState, operator: Operator | None
    ) -> LoopState:
        """Execute the effect of a statement in the target, except the rows of its transaction."""
        ...

    def inject(self, operator: Operator, here: Location, state: LoopState) -> LoopState:
        """Execute an operator's statements before the rows that begin at `here`."""
        ...

    def plan_without(self, group: Group, plan: SyncPlan) -> SyncPlan:
        """Return the plan that is valid once the group's held-back rows are applied."""
        ...


RunResync: TypeAlias = Callable[[Group, LoopState, Callable[[ApplyResult], None]], bool]
"""Apply all held-back rows of a group, and report each epoch. Return False after a stop request before the end."""


@dataclass(frozen=True)
class MergedTables:
    """The merged tables of a sync: their contested rows, their shard DDL, and the re-sync that follows it."""

    sharing: Sharing
    shards: Shards
    resync: RunResync
