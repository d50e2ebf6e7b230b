"""`import-checkpoint`: takes over a task of DM immediately, without starting it.

It does only the first step of a start: the sources begin at DM's checkpoint (engine/sync/start/dm_import.py), and
nothing of the log is applied. So problems are found before a run. The log has to be read for this, so a relay runs
meanwhile.
"""

from __future__ import annotations

import argparse
import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.inputs import add_file_arguments, read_arguments
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP, JobSpec
from airflow_provider_dm.engine.config.secrets import keep
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.claim import claimed_for_a_moment
from airflow_provider_dm.engine.downstream.dm_checkpoint import checkpoint_name, to_take_over
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.subtask import known_subtasks, read_subtask
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import local_holder
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.starts import with_starts
from airflow_provider_dm.launch.supervisor import Supervisor
from airflow_provider_dm.launch.workdir import TaskDir


def _nothing_to_import(task: str, source: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"task {task}: the checkpoint of DM is not taken over for source {source}: {why}.",
        "Nothing was changed. Check name and meta-schema of the task; `start-task` continues a task that has started.",
    )


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("import-checkpoint", import_checkpoint)
    add_file_arguments(parser)
    only = "only this source of the task; may be repeated"
    parser.add_argument("--only", metavar="SOURCE-ID", action="append", default=[], help=only)
    meta.add_arguments(parser)


def import_checkpoint(arguments: argparse.Namespace, output: Output) -> Exit:
    """Start the task's sources at DM's checkpoint. Raises errors that prevent it."""
    inputs = _chosen(read_arguments(arguments.task, arguments.sources, arguments.password_env), arguments.only)
    directory = TaskDir.of(inputs.task.name, meta.root_of(arguments))
    with directory.locked():
        _check_importable(inputs)
        with meta.open_store(arguments) as store:
            _begin(with_starts(inputs), directory, store, meta.meta_url(arguments))
    begun = _begun(inputs.target, inputs.task)
    lines = (f"  {imported['source']} continues at {imported['start']}" for imported in begun)
    output.answer({"task": inputs.task.name, "sources": begun}, "\n".join([f"task {inputs.task.name}:", *lines]))
    return Exit.DONE


def _chosen(inputs: Inputs, only: list[str]) -> Inputs:
    """Return the inputs with only these sources. Raises InvalidInput."""
    if not only:
        return inputs
    instances = tuple(inputs.task.instance(source) for source in dict.fromkeys(only))
    pairs = [pair for pair in inputs.pairs if pair[0].source_id in only]
    return replace(
        inputs,
        task=inputs.task.model_copy(update={"mysql_instances": instances}),
        sources=tuple(source for source, _ in pairs),
        source_endpoints=tuple(endpoint for _, endpoint in pairs),
    )


def _check_importable(inputs: Inputs) -> None:
    """Check that no source has started, and that DM has a checkpoint. Raises InvalidInput, CheckpointUnusable."""
    task = inputs.task
    if task.task_mode is TaskMode.FULL:
        raise _nothing_to_import(task.name, task.source_ids[0], "task-mode full reads no log")
    with connected(inputs.target) as connection:
        known = known_subtasks(connection, task.meta_schema, task.name, task.source_ids)
        for source in task.source_ids:
            subtask = known.get(source)
            if subtask is not None and subtask.start is not None:
                raise _nothing_to_import(task.name, source, f"it has started here, and is at {subtask.location}")
            if to_take_over(connection, SubtaskRef(task.meta_schema, task.name, source), task.task_mode, subtask):
                continue
            table = f"{task.meta_schema}.{checkpoint_name(task.name)}"
            raise _nothing_to_import(task.name, source, f"{table} has no row for it")


def _begin(inputs: Inputs, directory: TaskDir, store: MetaStore, url: Secret) -> None:
    supervisor = Supervisor.prepared(
        inputs,
        directory=directory,
        until=UNTIL_CAUGHT_UP,
        store=store,
        meta_url=url,
        holder=local_holder(inputs.task.name, directory.root),
        settings=SparkSettings(),
    )
    with Relays(supervisor.upstreams, meta_url=url, log_dir=directory.path):
        job = supervisor.job("incremental_sync", UNTIL_CAUGHT_UP)
        keep(job.secrets.by_name)  # as the app has them
        _claim_and_begin(job.spec, store)


def _claim_and_begin(spec: JobSpec, store: MetaStore) -> None:
    # The log reader imports numba, which takes a second that other verbs should not wait for.
    from airflow_provider_dm.engine.sync.start.begin_incremental import begin_incremental
    from airflow_provider_dm.engine.sync.sync_source import SyncSource

    target, task = spec.target.resolve(), spec.task
    with ExitStack() as held:
        refs = [SubtaskRef(task.meta_schema, task.name, source.config.source_id) for source in spec.sources]
        fences = [
            held.enter_context(claimed_for_a_moment(store, target, ref, who="dmctl import-checkpoint")) for ref in refs
        ]
        try:
            begin_incremental([SyncSource.of(spec, fence) for fence in fences], store=store, stop=threading.Event())
        finally:
            for ref in refs:
                _note_stopped(target, ref, store)


def _note_stopped(target: Endpoint, ref: SubtaskRef, store: MetaStore) -> None:
    """Record in the metadata DB which log a subtask needs that has begun and does not run."""
    known = read_subtask(target_connection(target), ref)
    if known is not None and known.start is not None:
        store.put_subtask(*ref.key, unit=Unit.SYNC, stage=Stage.STOPPED, needed=known.start, applied=known.start)


def _begun(target: Endpoint, task: TaskConfig) -> list[dict[str, Any]]:
    connection = target_connection(target)
    begun = []
    for source in task.source_ids:
        subtask = read_subtask(connection, SubtaskRef(task.meta_schema, task.name, source))
        if subtask is not None:
            until = None if subtask.overwrite_until is None else str(subtask.overwrite_until)
            begun.append({"source": source, "start": str(subtask.start), "overwrite_until": until})
    return begun
