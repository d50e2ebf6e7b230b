"""The keys of a task that change nothing here, of which a user may expect something: for a warning."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_dm.engine.config.base import kebab
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig
from airflow_provider_dm.engine.config.units import Apply


def passed_over(task: TaskConfig) -> Iterator[tuple[str, str]]:
    """Yield keys that are understood and change nothing here, as files write them, and what is done instead.

    Only those of which a user may expect something: that a key names a default, or that DM does nothing by it either,
    is no news. A syncer's keys all have an effect, but for those that DM deprecates.
    """
    subtasks = [task.subtask(source) for source in task.source_ids]
    files = {key for subtask in subtasks for key in _of_dumps(subtask)}
    if not task.clean_dump_file:
        files.add("clean-dump-file")
    if files:
        yield ", ".join(sorted(files)), "rows go from server to server, and nothing is dumped to files"
    if any(one.syncer.apply is Apply.TRANSACTIONAL and (one.syncer.worker_count or 1) > 1 for one in subtasks):
        yield "worker-count", "with apply: transactional, transactions are written one after the other"
    if task.experimental.async_checkpoint_flush:
        yield "async-checkpoint-flush", "each target transaction carries its checkpoint"


def _of_dumps(subtask: SubtaskConfig) -> Iterator[str]:
    """Yield the keys of a mydumper and a loader that are given another value than DM's default."""
    for unit, names in ((subtask.mydumper, ("chunk_filesize", "statement_size")), (subtask.loader, ("dir",))):
        fields = type(unit).model_fields
        yield from (kebab(name) for name in names if getattr(unit, name) not in (None, 0, fields[name].default))
