"""One source of a run that copies, and its load once that has begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.copy.design import Design
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.target.identity import Fence


@dataclass(frozen=True)
class Source:
    """One source of this run. `fence` is what its claim gave."""

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

    @property
    def goes_by_log(self) -> bool:
        """Tell whether the log is applied where tables are altered, as their rows cannot be told from others'."""
        return self.reads_log and self.subtask.overwrites


@dataclass(frozen=True)
class Loading:
    """A source whose plan stands in the target and whose chunks can be copied."""

    source: Source
    design: Design
    start: Location
    resumed: bool
    numbers: Mapping[TableName, int]
    """The number of each table in dm_row_owner; 0 where no rows are recorded."""
    notes: tuple[str, ...] = ()
    births: Mapping[TableName, str] = field(default_factory=dict)
    """What the tables are told from by which its rows are read (reading/births.py, by_log.py)."""
    blocked_seconds: float = 0.0
    """The longest time that the lock of its start blocked writers of the source."""
