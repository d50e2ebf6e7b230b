"""`stop-task`: forget a task that has ended, so that nothing is kept for it any more.

A stopped task keeps its files in the relay logs of its sources, as it may be run again. One that never will holds the
purge for ever; this verb releases it. Its checkpoint in the target stays: run again, the task goes on from there, if
relay log or upstream still have what it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.meta.model import Run, Stage, SubtaskStatus
from airflow_provider_dm.launch.status import SILENT_SECONDS


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("stop-task", stop_task)
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--source", "-s", metavar="SOURCE-ID", action="append", default=[], dest="sources")
    meta_url.add_arguments(parser)


def stop_task(arguments: argparse.Namespace, output: Output) -> Exit:
    """Forget a task and print DM's document. One that still runs, or that nobody knows, is left alone: `result` is
    false.
    """
    store, _ = meta_url.open_store(arguments)
    with store:
        known = store.list_subtasks(task=arguments.task)
        subtasks = [one for one in known if not arguments.sources or one.source in arguments.sources]
        run = next(iter(store.list_runs(task=arguments.task)), None)
        refusal = refused(arguments.task, subtasks, run)
        for subtask in subtasks if not refusal else ():
            store.forget_subtask(subtask.task, subtask.source)
    host = run.holder.host if run else ""
    answers: list[dict[str, Any]] = [
        {"result": not refusal, "msg": refusal, "source": one.source, "worker": host} for one in subtasks
    ]
    return output.document({"op": "Stop", "result": not refusal, "msg": refusal, "sources": answers})


def refused(task: str, subtasks: Sequence[SubtaskStatus], last_run: Run | None) -> str:
    """Return why it is left alone; empty when it may be forgotten."""
    if not subtasks:
        return f"no task {task} is known on these sources"
    if last_run is not None and last_run.stage is Stage.RUNNING and last_run.heartbeat_age_seconds <= SILENT_SECONDS:
        return f"task {task} is running on {last_run.holder.host}: end it there first"
    return ""
