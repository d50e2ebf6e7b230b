"""The target tables that the sync of one source shares with other source tables.

The sync settles contested rows (merge/contests.py), and detects that another source has begun to write into a table
that only this source fed before. A task with one source and no merged table needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_SYNCING
from airflow_provider_dm.engine.merge.servers import ContestServers
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.rules.row_filter import row_filter
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets
from airflow_provider_dm.engine.sync.safe_mode.last_wins import check_same_safe_mode, overwrite_by_waiting, replaces
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.sync_source import SyncSource


@dataclass
class Sharing:
    """The target tables that one source's sync shares; for the thread of that sync."""

    contests: Contests
    several: bool
    """True if the task has other sources, which may begin at any time."""
    lawful: bool
    """True if rows of other sources are kept, or overwritten by the rule of `last_wins`; False if rows overwrite each
    other in any order, because the user configured the loader so."""
    in_order: Callable[[Iterable[Feeder]], frozenset[TableName]] = lambda _: frozenset()
    """See `targets_in_order`."""
    safe: Mapping[str, bool] = field(default_factory=dict)
    """The configured `safe-mode`, by source of the task."""

    @classmethod
    def of(cls, source: SyncSource, *, loaded: bool) -> Sharing:
        """Return the shared tables of a sync. `loaded`: the task has loaded the tables, so loader settings apply."""
        names = source.job.task.source_ids
        return cls(
            contests_of(source, MOST_WHILE_SYNCING),
            several=len(names) > 1,
            lawful=source.config.syncs_by_owner or not loaded,
            in_order=targets_in_order(source.job),
            safe={name: source.job.subtask(name).syncer.safe_mode for name in names},
        )

    @property
    def rows(self) -> int:
        """The contested rows of this source at the last check."""
        return self.contests.rows

    def check(self, plan: SyncPlan, *, now: bool = False) -> SyncPlan:
        """Settle contested rows where possible (`now`: check all of them); return the plan as `noticed` does.

        Raises the errors of `Contests.check`.
        """
        plan = self.noticed(plan)
        if plan.merged or plan.held:  # rows may still be contested when all shards of a table are held
            self.contests.check(partial(self._overwrites, plan), now=now)
        return plan

    def noticed(self, plan: SyncPlan) -> SyncPlan:
        """Return the plan with the tables into which other sources have begun to write; `plan` if there are none."""
        if not self.several:
            return plan
        mine, feeders = self.contests.fence.ref.source, self.contests.servers.feeders()
        elsewhere = {feeder.target for feeder in feeders if feeder.source != mine}
        check_same_safe_mode({part.name for part in plan.targets if part.key is not None}, self.safe, mine, feeders)
        return SharedTargets(elsewhere, self.in_order(feeders), self.lawful).merged_in(plan)

    def overwrite_by_waiting(self, plan: SyncPlan) -> list[Collision]:
        """Write contested rows over the rows in their places. Raises the errors of `last_wins.overwrite_by_waiting`."""
        collisions = overwrite_by_waiting(self.contests.fence, self.contests.servers, plan)
        self.contests.count()
        return collisions

    def _overwrites(self, plan: SyncPlan, mapping: TableMapping) -> bool:
        """Return True if `overwrite_by_waiting` will write the contested rows of this table: now or, with
        `safe-mode: true`, when the log continues."""
        wanted = plan.safe or self.safe.get(self.contests.fence.ref.source, False)
        return replaces(plan, mapping.target.name, lambda: mapping, safe=wanted)

    def finish(self, plan: SyncPlan, wait: Callable[[float], bool]) -> None:
        """Wait a short time for contested rows, at the goal. Raises the errors of `Contests.finish`."""
        if self.rows:
            self.contests.finish(wait, partial(self._overwrites, plan))


def targets_in_order(job: JobSpec) -> Callable[[Iterable[Feeder]], frozenset[TableName]]:
    """Return the function from source tables of the task to the target tables of those of which filters may ignore
    INSERTs or UPDATEs."""
    subtasks = [job.subtask(name) for name in job.task.source_ids]
    rules = {one.source_id: SubtaskRules.of(one) for one in subtasks if one.filters or one.expression_filters}
    return lambda feeders: frozenset(
        one.target for one in feeders if one.source in rules and rules[one.source].may_ignore_rows(one.table)
    )


def servers_of(source: SyncSource) -> ContestServers:
    """Return access to the servers of the task, for the driver of one of its sources."""
    job = source.job
    sources = {one.config.source_id: one.endpoint.resolve() for one in job.sources}
    routers = {name: SubtaskRules.of(job.subtask(name)).router for name in job.task.source_ids}
    return ContestServers(source.target, source.fence.ref, sources, routers)


def contests_of(source: SyncSource, most: int) -> Contests:
    """Return the contested rows of the task. `most`: if more rows of one table of this source wait, all are checked."""
    agreeing, rules = source.config.shard_mode is ShardMode.PESSIMISTIC, source.rules

    def is_filtered(table: Table) -> bool:
        return row_filter(rules.events, rules.expressions, table) is not None

    return Contests(source.fence, servers_of(source), most, agreeing, is_filtered)
