"""The configuration contains no unsupported key; keys without an effect are reported.

`ignore-checking-items` may contain DM's names of checks and the names that this project shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from airflow_provider_dm.engine.config.base import kebab
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig
from airflow_provider_dm.engine.config.units import Apply, SyncerConfig
from airflow_provider_dm.engine.precheck.result import Finding, Findings, State

DM_ITEMS: Final = frozenset(
    {
        *("all", "dump_privilege", "replication_privilege", "target_privilege", "version", "server_id"),
        *("binlog_enable", "binlog_format", "binlog_row_image", "binlog_db", "meta_position", "online_ddl"),
        *("table_schema", "schema_of_shard_tables", "auto_increment_ID", "conn_number", "primary_key"),
        # only for physical import, which is not checked here
        *("empty_region", "region_distribution", "downstream_version", "free_space"),
        *("downstream_mutex_features", "downstream_table_empty"),
    }
)


def check_configuration(task: TaskConfig, sources: Sequence[SourceConfig]) -> Findings:
    gaps = [*task.unsupported(), *(gap for source in sources for gap in source.unsupported())]
    for gap in gaps:
        yield State.FAIL, f"{gap.feature} is not supported yet ({gap.where})", gap.remedy
    if gaps:
        return
    yield State.OK, f"task {task.name} uses only supported settings", ""
    if task.remove_meta:
        what = "remove-meta in the task file has no effect, as in DM: a task never repeats what it has done"
        yield State.WARN, what, "Remove it. To start again: `dmctl start-task --remove-meta`, or another name."
    for key, instead in ineffective_keys(task):
        yield State.WARN, f"without effect: {key}; {instead}", "Remove it, unless you need the same file for DM."


def unknown_items(given: Iterable[str], ours: Iterable[str]) -> list[Finding]:
    """Return a warning for each item that is not the name of a check. DM refuses such items; here they have no
    effect.

    >>> unknown_items(["table_schema", "table_keyz"], ["table_keys"])
    [(<State.WARN: 'warn'>, "ignore-checking-items names 'table_keyz', which is not a check", "Write 'table_keys'.")]
    """
    known = sorted({*DM_ITEMS, *ours})
    return [
        (State.WARN, f"ignore-checking-items names {name!r}, which is not a check", _remedy(name, known))
        for name in given
        if name not in known
    ]


def _remedy(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"Write {near[0]!r}." if near else "Leave it out."


def ineffective_keys(task: TaskConfig) -> Iterator[tuple[str, str]]:
    """Yield keys without effect, as written in the file, and the behaviour instead.

    Keys with a default value, and keys that have no effect in DM either, are left out.
    """
    subtasks = [task.subtask(source) for source in task.source_ids]
    files = {key for subtask in subtasks for key in _of_dumps(subtask)}
    if not task.clean_dump_file:
        files.add("clean-dump-file")
    if files:
        yield ", ".join(sorted(files)), "rows go from server to server, and nothing is dumped to files"
    if any(one.syncer.apply is Apply.TRANSACTIONAL and (one.syncer.worker_count or 1) > 1 for one in subtasks):
        yield "worker-count", "with apply: transactional, transactions are written one after the other"
    if any(one.syncer.queue_size != SyncerConfig().queue_size for one in subtasks):
        yield "queue-size", "a part of the log is limited by its bytes and rows"
    if task.experimental.async_checkpoint_flush:
        yield "async-checkpoint-flush", "each target transaction carries its checkpoint"


def _of_dumps(subtask: SubtaskConfig) -> Iterator[str]:
    """Yield the keys of a mydumper and a loader whose value is not DM's default."""
    for unit, names in ((subtask.mydumper, ("chunk_filesize", "statement_size")), (subtask.loader, ("dir",))):
        fields = type(unit).model_fields
        yield from (kebab(name) for name in names if getattr(unit, name) not in (None, 0, fields[name].default))
