"""The files ask for nothing that this release would have to leave out, and for little that it passes over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_dm.engine.config.passed_over import passed_over
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.precheck.result import State


def check_configuration(task: TaskConfig, sources: Sequence[SourceConfig]) -> Iterator[tuple[State, str, str]]:
    gaps = [*task.unsupported(), *(gap for source in sources for gap in source.unsupported())]
    for gap in gaps:
        yield State.FAIL, f"{gap.feature} is not supported yet ({gap.where})", gap.way_out
    if gaps:
        return
    yield State.OK, f"task {task.name} asks for nothing that is not supported", ""
    if task.remove_meta:
        what = "remove-meta in the task file has no effect, as in DM: what the task has done already is not done again"
        yield State.WARN, what, "Leave it out. To begin anew: `dmctl start-task --remove-meta`, or another name."
    for key, instead in passed_over(task):
        yield State.WARN, f"no effect has: {key}; {instead}", "Leave it out, if you need nothing of it."
