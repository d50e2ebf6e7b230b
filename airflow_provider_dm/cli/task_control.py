"""`pause-task`, `resume-task`, `stop-task`: requests of a user, through the metadata DB, to apps on any machine.

Each takes a task by its name or its file, or `-s SOURCE` for all tasks of a source, or both. `stop-task` also removes
the state of an ended task: a stopped task keeps its files in the relay logs of its sources, as it may be run again, and
this verb releases them. Its checkpoint in the target remains: a new run continues there, if the relay log or the
upstream still has the log that it needs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.config.yaml_file import load_task
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.launch.task_control import ControlOutcome, operate, refusal


def add_verbs(verbs: Verbs) -> None:
    for op, desired in (("Pause", Stage.PAUSED), ("Resume", Stage.RUNNING), ("Stop", Stage.STOPPED)):
        parser = verbs.add(f"{op.lower()}-task", partial(_operate, op=op, desired=desired))
        parser.add_argument("task", metavar="TASK|TASK.yaml", nargs="?")
        add_sources(parser)
        meta.add_arguments(parser)


def _operate(arguments: argparse.Namespace, output: Output, *, op: str, desired: Stage) -> Exit:
    """Store the request, wait until it is fulfilled, and print DM's document."""
    if arguments.task is None and not arguments.sources:
        raise InvalidInput(
            f"{arguments.verb} needs a task, or -s with a source for all of its tasks.",
            "`dmctl query-status` shows tasks and sources.",
        )
    task = _name_of(arguments.task) if arguments.task is not None else None
    with meta.open_store(arguments) as store:
        known = store.list_subtasks(task=task)
        chosen = [subtask for subtask in known if not arguments.sources or subtask.source in arguments.sources]
        msg = refusal(chosen, known) if chosen else _unknown(task, arguments.sources)
        answers = operate(store, chosen, desired) if not msg else []
    return output.sources(op, [_shown(answer, with_task=task is None) for answer in answers], msg)


def _name_of(given: str) -> str:
    """Return the task's name, which may be given by its file, as in DM. Raises ConfigError."""
    return load_task(Path(given)).name if given.endswith((".yaml", ".yml")) else given


def _unknown(task: str | None, sources: Sequence[str]) -> str:
    of_sources = f" on {', '.join(sources)}" if sources else ""
    return f"no task is known{of_sources}" if task is None else f"task {task} is not known{of_sources}"


def _shown(answer: ControlOutcome, *, with_task: bool) -> dict[str, Any]:
    shown = source_answer(answer.source, answer.host, answer.trouble)
    return {"task": answer.task, **shown} if with_task else shown
