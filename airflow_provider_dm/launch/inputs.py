"""What a launcher is given, once it is read: by the command line from files, by the operators from their arguments."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import upstreams_of
from airflow_provider_dm.launch.workdir import TaskDir


@dataclass(frozen=True)
class Inputs:
    """A task, those of its sources that are worked on, and its target, ready to log in."""

    task: TaskConfig
    sources: tuple[SourceConfig, ...]
    source_endpoints: tuple[Endpoint, ...]
    target: Endpoint

    def upstreams(self, directory: TaskDir, until: str) -> tuple[Upstream, ...]:
        """Return the sources with their relay directories. Asks the target where the task stands."""
        pairs = zip(self.sources, self.source_endpoints, strict=True)
        return upstreams_of(self.task, pairs, self.target, directory, until=until)
