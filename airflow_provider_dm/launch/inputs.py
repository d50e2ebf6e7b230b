"""The parsed input of a launcher: from files for the command line, from arguments for the operators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.subtask import Subtask, known_subtasks
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import upstream_of
from airflow_provider_dm.launch.workdir import TaskDir, shared_relay


@dataclass(frozen=True)
class Inputs:
    """A task, the sources that it is run for, and its target, with credentials."""

    task: TaskConfig
    sources: tuple[SourceConfig, ...]
    source_endpoints: tuple[Endpoint, ...]
    target: Endpoint

    @property
    def pairs(self) -> tuple[tuple[SourceConfig, Endpoint], ...]:
        """The sources with their endpoints."""
        return tuple(zip(self.sources, self.source_endpoints, strict=True))

    def relay_dirs(self, root: Path) -> dict[str, Path]:
        """Return the directory of each relay log that tasks share, by source-id."""
        sources = (source for source in self.sources if source.enable_relay)
        return {source.source_id: shared_relay(root, source.source_id, source.relay_dir) for source in sources}

    def upstreams(self, directory: TaskDir, until: str) -> tuple[Upstream, ...]:
        """Return the sources with their logs.

        A private log begins at the task's location in the target, and ends at the end of the run (`until`), if that is
        a location. Raises errors of connecting to the target, and InvalidLocation for a bad `meta` of the task.
        """
        task, known = self.task, dict[str, Subtask]()
        if not all(config.enable_relay for config in self.sources):
            with connected(self.target) as connection:
                known = known_subtasks(connection, task.meta_schema, task.name, task.source_ids)
        return tuple(
            upstream_of(task, config, endpoint, directory, known=known.get(config.source_id), until=until)
            for config, endpoint in self.pairs
        )
