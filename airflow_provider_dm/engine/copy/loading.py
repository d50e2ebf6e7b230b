"""One source of a run that loads, and its load after the start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules


@dataclass(frozen=True)
class Source:
    """One source of this run. `fence`: of its claim."""

    spec: SourceSpec
    subtask: SubtaskConfig
    endpoint: Endpoint
    fence: Fence

    @property
    def id(self) -> str:
        return self.subtask.source_id

    @cached_property
    def rules(self) -> SubtaskRules:
        return SubtaskRules.of(self.subtask)

    @property
    def reads_log(self) -> bool:
        return self.subtask.mode is not TaskMode.FULL


@dataclass(frozen=True)
class Loading:
    """A source whose load has started. `start`: the location from which its log is read; `notes`: for people."""

    source: Source
    start: Location
    resumed: bool
    notes: tuple[str, ...] = ()
