"""Task keys that have no effect although a user may expect one: the precheck warns of them."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_dm.engine.config.base import kebab
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig
from airflow_provider_dm.engine.config.units import Apply


def ineffective_keys(task: TaskConfig) -> Iterator[tuple[str, str]]:
    """Yield keys without effect, as written in the file, and what is done instead.

    Keys with a default value, and keys that have no effect in DM either, are left out. All keys of a syncer have an
    effect, except those that DM deprecates.
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
    """Yield the keys of a mydumper and a loader whose value is not DM's default."""
    for unit, names in ((subtask.mydumper, ("chunk_filesize", "statement_size")), (subtask.loader, ("dir",))):
        fields = type(unit).model_fields
        yield from (kebab(name) for name in names if getattr(unit, name) not in (None, 0, fields[name].default))
