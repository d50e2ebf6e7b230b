"""The files ask for nothing that this release would have to leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.precheck.result import State


def check_configuration(task: TaskConfig, sources: Sequence[SourceConfig]) -> Iterator[tuple[State, str, str]]:
    gaps = [*task.unsupported(), *(gap for source in sources for gap in source.unsupported())]
    for gap in gaps:
        yield State.FAIL, f"{gap.feature} is not supported yet ({gap.where})", gap.way_out
    if not gaps:
        yield State.OK, f"task {task.name} asks for nothing that is not supported", ""
