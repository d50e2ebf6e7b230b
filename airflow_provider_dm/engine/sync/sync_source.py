"""One source of a run, of its load and its sync: its configuration, servers, and fence, resolved once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from airflow_provider_dm.engine.config.job import JobSpec, SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules


@dataclass(frozen=True)
class SyncSource:
    """One source of a run. `fence`: the result of its claim, which allows it to write."""

    job: JobSpec
    config: SubtaskConfig
    upstream: Endpoint
    target: Endpoint
    fence: Fence

    @classmethod
    def of(cls, job: JobSpec, fence: Fence) -> SyncSource:
        """Resolve the source of `fence`. Raises the errors of `TaskConfig.subtask`, and SecretMissing."""
        config = job.subtask(fence.ref.source)
        return cls(job, config, job.source(fence.ref.source).endpoint.resolve(), job.target.resolve(), fence)

    @property
    def id(self) -> str:
        return self.config.source_id

    @property
    def reads_log(self) -> bool:
        return self.config.mode is not TaskMode.FULL

    @property
    def spec(self) -> SourceSpec:
        return self.job.source(self.id)

    @cached_property
    def rules(self) -> SubtaskRules:
        return SubtaskRules.of(self.config, self.upstream)
