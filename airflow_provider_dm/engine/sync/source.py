"""One source of a run, as everything that its sync is made of knows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from airflow_provider_dm.engine.config.job import JobSpec, SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.subtask import SubtaskRules


@dataclass(frozen=True)
class SyncSource:
    """One source of a run: what it has to do, resolved once, and where to. `fence` is what its claim gave."""

    job: JobSpec
    config: SubtaskConfig
    upstream: Endpoint
    target: Endpoint
    fence: Fence

    @classmethod
    def of(cls, job: JobSpec, fence: Fence) -> SyncSource:
        """Resolve what `fence` lets us write. Raises what `TaskConfig.subtask` does, and SecretMissing."""
        config = job.subtask(fence.ref.source)
        return cls(job, config, job.source(fence.ref.source).endpoint.resolve(), job.target.resolve(), fence)

    @property
    def spec(self) -> SourceSpec:
        return self.job.source(self.config.source_id)

    @cached_property
    def rules(self) -> SubtaskRules:
        return SubtaskRules.of(self.config, self.upstream)
