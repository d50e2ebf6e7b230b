"""What the sync of one source does about target tables that it shares with others, beside applying its log.

It looks for rows that wait for their places (merge/contests.py), and notices when another source begins to feed a table
that was its own until then. Where nothing is shared, that last question is all that is asked, and only if the task has
more than one source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.merge.servers import Servers
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_SYNCING
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.rules.row_filter import row_filter
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import merged_parts
from airflow_provider_dm.engine.sync.safe_mode.last_wins import (
    check_one_law,
    write_over_waiting,
)
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.source import SyncSource


@dataclass
class Sharing:
    """The target tables that one source's sync shares; for the thread of that sync. `plan`: as it is now."""

    plan: SyncPlan
    contests: Contests
    servers: Servers
    several: bool
    """The task has other sources, which may begin at any time."""
    lawful: bool
    """Rows of others are let alone, or written over by the law of `last_wins`; False: they overwrite each other, as the
    user wishes of the loader."""
    safe: Mapping[str, bool] = field(default_factory=dict)
    """The user's wish for safe mode throughout, by source of the task."""
    written_over: bool = field(default=False, init=False)
    """The rows that waited when the run began, or when safe mode began or ended, are written over."""

    @classmethod
    def of(cls, source: SyncSource, plan: SyncPlan, *, loaded: bool) -> Sharing:
        """`loaded`: by the task, else what the loader should do says nothing."""
        fence = source.fence
        sources = {one.config.source_id: one.endpoint.resolve() for one in source.job.sources}
        subtasks = {name: source.job.subtask(name) for name in source.job.task.source_ids}
        routers = {name: SubtaskRules.of(one).router for name, one in subtasks.items()}
        servers = Servers(source.target, fence.ref, sources, routers)
        agreeing, rules = source.config.shard_mode is ShardMode.PESSIMISTIC, source.rules
        contests = Contests(
            fence,
            servers,
            MOST_WHILE_SYNCING,
            agreeing,
            lambda table: row_filter(rules.events, rules.expressions, table) is not None,
        )
        return cls(
            plan,
            contests,
            servers,
            several=len(source.job.task.source_ids) > 1,
            lawful=source.config.syncs_by_owner or not loaded,
            safe={name: one.syncer.safe_mode for name, one in subtasks.items()},
        )

    @property
    def rows(self) -> int:
        """Rows of this source that waited for their places at the last look."""
        return self.contests.rows

    @property
    def rows_since(self) -> float | None:
        """The time from which the oldest of these rows waits, in seconds since 1970; None: no row waits."""
        return self.contests.since

    def look(self, *, now: bool = False) -> None:
        """Look after rows that wait (`now`: into all of them). Raises as `Contests.look`."""
        self.notice()
        if self.plan.merged or self.plan.held:  # rows of shards that are all held may wait still
            self.contests.look(self.writes_over, now=now)

    def notice(self) -> bool:
        """Tell whether tables are shared now that were not before; `plan` says which."""
        if not self.several or not (self.lawful or self.plan.filters):
            return False
        mine, feeders = self.contests.fence.ref.source, self.servers.feeders()
        elsewhere = {feeder.target for feeder in feeders if feeder.source != mine}
        self.plan.check_filters(elsewhere, overwrites=not self.lawful)
        check_one_law({part.name for part in self.plan.targets if part.key is not None}, self.safe, mine, feeders)
        if not self.lawful:
            return False
        merged = self.plan.merged | merged_parts(self.plan.sources, self.plan.targets, elsewhere)
        news = merged != self.plan.merged
        if news:
            self.plan = replace(self.plan, merged=merged)
        return news

    def write_over(self) -> list[Collision]:
        """Put rows that wait into their places, whosever they are. Raises as `write_over_waiting`."""
        found = write_over_waiting(self.contests.fence, self.servers, self.plan.kept)
        self.written_over = True
        self.contests.count()
        return found

    def writes_over(self, mapping: TableMapping) -> bool:
        """Tell whether rows that wait for their places in such a table will be put there by `write_over`: now, or, with
        `safe-mode: true`, when the log goes on."""
        wanted = self.plan.safe or self.safe.get(self.contests.fence.ref.source, False)
        return wanted and can_be_written_over(mapping) and mapping.target.name not in self.plan.kept

    def overwrite(self, safe: bool) -> None:
        """Take the plan by which rows of merged tables are written over from here on, or no longer."""
        if self.plan.safe != safe:
            self.plan, self.written_over = replace(self.plan, safe=safe), False

    def adopt(self, plan: SyncPlan) -> None:
        """Take the plan that holds behind a DDL statement."""
        self.plan = plan
        self.servers.forget_mappings()

    def finish(self, wait: Callable[[float], bool]) -> None:
        """Give rows that wait a little time, at the goal. Raises as `Contests.finish` does."""
        if self.rows:
            self.contests.finish(wait, self.writes_over)
