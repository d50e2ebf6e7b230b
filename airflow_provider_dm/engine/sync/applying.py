"""Applies the epochs of one source, for its sync and for the re-sync of rows that were held back."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from airflow_provider_dm.engine.binlog.planned import Epoch, Planned
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.epoch import EpochSize, apply_epoch
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.runner import Runner, Shared
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency
from airflow_provider_dm.engine.sync.write.tasks import EpochJob
from airflow_provider_dm.engine.sync.write.transactional import ApplyResult


@dataclass
class EpochApplier:
    """Applies epochs by the tasks of `runner`. `target`: used for what the driver writes without an epoch."""

    source: SyncSource
    runner: Runner
    target: Target
    size: EpochSize
    """The size of the next epochs."""
    _shared: tuple[SyncPlan, Runner, Shared[SyncPlan]] | None = field(default=None, init=False)
    """The plan that was last shared with tasks, and their runner."""

    def apply(self, epoch: Epoch, state: LoopState, following: Future[Planned] | None = None) -> ApplyResult:
        """Apply all of an epoch by the plan `state.written_by`. `following`: the piece that is planned meanwhile.

        Raises the errors of `apply_epoch`.
        """
        if not self.size.warm and epoch.size > self.size.in_driver and self.runner.start_workers():
            self.size = replace(self.size, warm=True)
        size, plan, source = self.size, state.written_by, self.source
        runner = size.runner(epoch.size, self.runner)
        job = EpochJob(
            self._share(plan, runner),
            source.upstream,
            source.target,
            state.step(epoch.hi),
            WriteConcurrency.of(source.config.syncer, plan, tasks=size.tasks(epoch.size, runner.slots)),
            log_bytes=0 if plan.alone else epoch.size,  # a re-sync writes a small part of the rows of the log
            next_ranges=size.next_ranges(epoch.size, following),
        )
        return apply_epoch(runner, job, epoch, ship=source.job.ship_ranges)

    def _share(self, plan: SyncPlan, runner: Runner) -> Shared[SyncPlan]:
        if self._shared is None or self._shared[0] is not plan or self._shared[1] is not runner:
            self._shared = plan, runner, runner.share(plan)
        return self._shared[2]

    def advance(self, state: LoopState, hi: Location) -> None:
        """Move all buckets to `hi`: the log in between has no changes."""
        WaveWriter(state.plan, self.target, state.step(hi)).advance({}, range(state.plan.buckets))

    def learn(self, epoch: Epoch, seconds: float, applied: ApplyResult) -> None:
        """Adapt the size of the next epochs to the duration and the changes of this one."""
        self.size = self.size.after(epoch.size, seconds, applied.changes, applied.rows, applied.largest)

    def keep_changes(self) -> None:
        """Limit the size of epochs, as they keep every change in memory from now on."""
        self.size = self.size.keeping()
