"""What the sync of one source does about target tables that it shares with others, beside applying its log.

It looks for rows that wait for their places (merge/contests.py), removes records that nobody needs any more
(merge/records.py), and notices when another source begins to feed a table that was its own until then. Where nothing is
shared, that last question is all that is asked, and only if the task has more than one source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.records import Records
from airflow_provider_dm.engine.merge.servers import Servers
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_SYNCING
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.sync.begin import SyncSource
from airflow_provider_dm.engine.sync.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan_making import merged_parts
from airflow_provider_dm.engine.sync.safe_mode import check_sole_owners


@dataclass
class Sharing:
    """The target tables that one source's sync shares; for the thread of that sync. `plan`: as it is now."""

    plan: SyncPlan
    contests: Contests
    records: Records
    servers: Servers
    several: bool
    """The task has other sources, which may begin at any time."""
    lawful: bool
    """Rows of others are let alone; False: they overwrite each other, as the user wishes."""
    safe_mode: bool = False
    """The user wants it throughout."""

    @classmethod
    def of(cls, source: SyncSource, plan: SyncPlan) -> Sharing:
        fence = source.fence
        sources = {one.config.source_id: one.endpoint.resolve() for one in source.job.sources}
        task = source.job.task
        routers = {name: SubtaskRules.of(task.subtask(name)).router for name in task.source_ids}
        servers = Servers(source.target, fence.ref, sources, routers)
        return cls(
            plan,
            Contests(fence, servers, MOST_WHILE_SYNCING, source.config.shard_mode is ShardMode.PESSIMISTIC),
            Records(fence, servers, plan.adopts),
            servers,
            several=len(source.job.task.source_ids) > 1,
            lawful=not source.config.overwrites,
            safe_mode=source.config.syncer.safe_mode,
        )

    @property
    def rows(self) -> int:
        """Rows of this source that waited for their places at the last look."""
        return self.contests.rows

    @property
    def recording(self) -> bool:
        """Merged tables are not exact yet, whatever the log is."""
        return self.plan.adopts and self.records.recording and any(map(self.plan.owner, range(len(self.plan.sources))))

    def look(self, *, now: bool = False, between: bool = True) -> None:
        """Look after rows that wait (`now`: into all of them) and, `between` two epochs, after records.

        Records decide how an epoch is written, so they do not end while one is half written. Raises as `Contests.look`.
        """
        self.notice()
        if self.plan.merged or self.plan.held:  # rows of shards that are all held may wait still
            self.contests.look(now=now)
            if between:
                self.records.look()

    def notice(self) -> bool:
        """Tell whether tables are shared now that were not before; `plan` says which."""
        if not self.several or not (self.lawful or self.plan.filters or self.safe_mode):
            return False
        mine = self.contests.fence.ref.source
        elsewhere = {feeder.target for feeder in self.servers.feeders() if feeder.source != mine}
        self.plan.check_filters(elsewhere, overwrites=not self.lawful)
        if self.safe_mode:
            check_sole_owners(self.plan, elsewhere)
        if not self.lawful:
            return False
        merged = self.plan.merged | merged_parts(self.plan.sources, self.plan.targets, elsewhere)
        news = merged != self.plan.merged
        if news:
            self.plan = replace(self.plan, merged=merged)
        return news

    def adopt(self, plan: SyncPlan) -> None:
        """Take the plan that holds behind a DDL statement."""
        self.plan = plan
        self.servers.forget_mappings()

    def finish(self, wait: Callable[[float], bool]) -> None:
        """Give rows that wait a little time, at the goal. Raises as `Contests.finish` does."""
        if self.rows:
            self.contests.finish(wait)
