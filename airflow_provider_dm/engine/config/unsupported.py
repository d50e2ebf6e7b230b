"""What a valid file may ask for and this release cannot do, although doing nothing about it would change data.

Each gap is a value, so that the precheck can show all of them and `subtask` can refuse on the first. A gap that closes
is deleted here and in docs/limits.md. Keys whose absence changes no data are not gaps; `passed_over` has those of them
that a user may expect something of, for a warning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.engine.config.base import kebab
from airflow_provider_dm.engine.config.dump_args import parse_extra_args
from airflow_provider_dm.engine.config.units import Apply
from airflow_provider_dm.engine.errors import NotSupportedYet

if TYPE_CHECKING:  # the models call this module
    from airflow_provider_dm.engine.config.database import DatabaseConfig
    from airflow_provider_dm.engine.config.source import SourceConfig
    from airflow_provider_dm.engine.config.task import MysqlInstance, SubtaskConfig, TaskConfig

RUNNABLE_MODES: Final = frozenset({"full", "incremental", "all"})
LOGICAL_MODES: Final = frozenset({"logical", "sql", "loader"})


def refuse(gaps: Iterable[NotSupportedYet]) -> None:
    """Raise the first gap, if there is one."""
    for gap in gaps:
        raise gap


def gaps_of_task(task: TaskConfig) -> Iterator[NotSupportedYet]:
    """Yield the gaps that concern every source of the task."""
    where = f"task {task.name!r}"
    if task.task_mode not in RUNNABLE_MODES:
        yield NotSupportedYet(f"task-mode {task.task_mode.value}", where, "Use full, incremental or all.")
    if task.sharding == "optimistic":
        yield NotSupportedYet("shard-mode optimistic", where, "Use pessimistic, or leave it out if no DDL is expected.")
    if task.mariadb2tidb.mode == "on":
        yield NotSupportedYet("mariadb2tidb", where, "Create the target tables first and set its mode to off.")
    if task.tidb.backend == "local":
        yield NotSupportedYet("tidb.backend local", where, "Use tidb, which is import-mode: logical.")
    if task.target_database:
        yield from _database_gaps(task.target_database, "target-database")


def gaps_of_instance(task: TaskConfig, instance: MysqlInstance) -> Iterator[NotSupportedYet]:
    """Yield the gaps of one source of the task, with the rules and units that it names."""
    where = f"source {instance.source_id!r} of task {task.name!r}"
    validator = task.validators.get(instance.validator_config_name)
    if validator and validator.mode != "none":
        yield NotSupportedYet("continuous validation", where, "Set its mode to none; run verify afterwards.")
    mydumper, loader = task.mydumper_of(instance), task.loader_of(instance)
    if mydumper.where:
        yield NotSupportedYet("mydumpers.where", where, "Copy whole tables.")
    if flags := parse_extra_args(mydumper.extra_args).narrowing(task.lists_of(instance).do_dbs):
        yield NotSupportedYet(f"extra-args {' '.join(flags)}", where, "Choose tables by block-allow-list.")
    if loader.import_mode not in LOGICAL_MODES:
        yield NotSupportedYet(f"import-mode {loader.import_mode.value}", where, "Use import-mode: logical.")


def _database_gaps(database: DatabaseConfig, where: str) -> Iterator[NotSupportedYet]:
    security = database.security
    if security is None:
        return
    if security.cert_allowed_cn:
        yield NotSupportedYet("cert-allowed-cn", where, "Give ssl-ca: a host that the certificate names is verified.")
    if security.embedded:
        yield NotSupportedYet("TLS material in the file itself", where, "Name files by ssl-ca, -cert, -key.")


def gaps_of_source(source: SourceConfig) -> Iterator[NotSupportedYet]:
    where = f"source {source.source_id!r}"
    if not source.enable:
        yield NotSupportedYet("a source that is switched off", where, "Set enable: true to use it.")
    if source.from_:
        yield from _database_gaps(source.from_, where)


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
