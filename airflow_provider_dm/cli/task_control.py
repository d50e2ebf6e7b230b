"""`pause-task`, `resume-task`, `stop-task`: a person's wish, by the metadata DB, for apps wherever they run.

Each takes a task by its name or its file, or `-s SOURCE` for all tasks of a source, or both. `stop-task` also forgets
what has ended: a stopped task keeps its files in the relay logs of its sources, as it may be run again, and this verb
releases them. Its checkpoint in the target stays: run again, the task goes on from there, if relay log or upstream
still have what it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.yaml_file import load_task
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch import task_control
from airflow_provider_dm.launch.task_control import Answer

Operation = Callable[[MetaStore, Sequence[SubtaskStatus]], list[Answer]]


class TaskNotNamed(DmError):
    """Neither a task nor a source is named."""

    verb: str

    code = "DM-9043"
    what = "{verb} needs a task, or -s with a source for all of its tasks."
    hint = "dmctl query-status shows what there is."


def add_verbs(verbs: Verbs) -> None:
    for verb, op, operation in (
        ("pause-task", "Pause", task_control.pause),
        ("resume-task", "Resume", task_control.resume),
        ("stop-task", "Stop", task_control.stop),
    ):
        parser = verbs.add(verb, partial(_operate, op=op, operation=operation))
        parser.add_argument("task", metavar="TASK|TASK.yaml", nargs="?")
        parser.add_argument("--source", "-s", metavar="SOURCE-ID", action="append", default=[], dest="sources")
        meta_url.add_arguments(parser)


def _operate(arguments: argparse.Namespace, output: Output, *, op: str, operation: Operation) -> Exit:
    """Pass the wish on, wait until it has come true, and print DM's document."""
    if arguments.task is None and not arguments.sources:
        raise TaskNotNamed(arguments.verb)
    task = _name_of(arguments.task) if arguments.task is not None else None
    store, _ = meta_url.open_store(arguments)
    with store:
        known = store.list_subtasks(task=task)
        chosen = [one for one in known if not arguments.sources or one.source in arguments.sources]
        msg = task_control.refusal(chosen, known) if chosen else _unknown(task, arguments.sources)
        answers = operation(store, chosen) if not msg else []
    result = not msg and not any(one.trouble for one in answers)
    shown = [_shown(one, with_task=task is None) for one in answers]
    return output.document({"op": op, "result": result, "msg": msg, "sources": shown})


def _name_of(given: str) -> str:
    """Return the task's name, which may be given by its file, as with DM. Raises ConfigError."""
    return load_task(Path(given)).name if given.endswith((".yaml", ".yml")) else given


def _unknown(task: str | None, sources: Sequence[str]) -> str:
    of_sources = f" on {', '.join(sources)}" if sources else ""
    return f"no task is known{of_sources}" if task is None else f"no task {task} is known{of_sources}"


def _shown(answer: Answer, *, with_task: bool) -> dict[str, Any]:
    said = {"result": not answer.trouble, "msg": answer.trouble, "source": answer.source, "worker": answer.host}
    return {"task": answer.task, **said} if with_task else said
