"""`start-task`: `dmctl run TASK.yaml --until forever` in the background.

DM's dmctl passes a task to running workers. Here a process without a terminal is started on this machine, and the
command answers when its first app works on all sources, or with the error that prevented it. From then on the metadata
DB has its state, and `pause-task`, `resume-task` and `stop-task` reach it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.inputs import read_arguments
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.cli.run import add_run_arguments
from airflow_provider_dm.engine.config.secrets import filled_pipe, receive, received
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.removal import remove_progress
from airflow_provider_dm.engine.meta.records import Run, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.secrets import inherited
from airflow_provider_dm.launch.status import host_of
from airflow_provider_dm.launch.task_control import live_run, operate, want_running
from airflow_provider_dm.launch.workdir import TaskDir

START_TASK_SECONDS: Final = 120.0
"""Time for precheck, relays and the start of a JVM, on a busy machine."""
_POLL_SECONDS: Final = 0.25
LOG: Final = "start-task.log"
ANSWER: Final = "start-task.json"


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("start-task", start_task)
    removing = "first remove the task's state from the target, as DM does: it starts from the beginning"
    parser.add_argument("--remove-meta", action="store_true", help=removing)
    add_run_arguments(parser)


def start_task(arguments: argparse.Namespace, output: Output) -> Exit:
    """Start the task, or resume it if it is paused. Raises for invalid files, and LeaseHeld if state is to be removed
    during a run."""
    inputs = read_arguments(arguments.task, arguments.sources, arguments.password_env)
    task = inputs.task
    directory = TaskDir.of(task.name, meta.root_of(arguments))
    with meta.open_store(arguments) as store:
        if arguments.remove_meta:
            remove_progress(store, inputs.target, task.meta_schema, task.name, task.source_ids, who="dmctl start-task")
        if (run := live_run(store, task.name)) is not None:
            return _resume(store, output, task, run)
        want_running(store, task.name, task.source_ids)
        before = {one.run_id for one in store.list_runs(task=task.name)}
        child = _Child.start(arguments, directory)
        trouble = child.wait_for_start(store, task, before)
        host = host_of(live_run(store, task.name))
    return _answer(output, task, host, dict.fromkeys(task.source_ids, trouble), trouble)


def _resume(store: MetaStore, output: Output, task: TaskConfig, run: Run) -> Exit:
    """Resume the paused sources of a running task. If there are none, refuse, as DM does."""
    paused = [
        subtask
        for subtask in store.list_subtasks(task=task.name)
        if subtask.desired not in (None, Stage.RUNNING) or subtask.stage is Stage.PAUSED
    ]
    if not paused:
        refusal = f"task {task.name} is running already"
        return _answer(output, task, run.holder.host, dict.fromkeys(task.source_ids, refusal), refusal)
    return _answer(
        output, task, run.holder.host, {one.source: one.trouble for one in operate(store, paused, Stage.RUNNING)}
    )


def _answer(output: Output, task: TaskConfig, host: str, troubles: Mapping[str, str], msg: str = "") -> Exit:
    return output.sources("Start", [source_answer(one, host, troubles.get(one, "")) for one in task.source_ids], msg)


@dataclass(frozen=True)
class _Child:
    process: subprocess.Popen[bytes]
    log_path: Path
    answer_path: Path

    @classmethod
    def start(cls, arguments: argparse.Namespace, directory: TaskDir) -> _Child:
        """Start the process in its own session; passwords and the metadata DB's URL reach it by a pipe."""
        log_path, answer_path = directory.path / LOG, directory.path / ANSWER
        pipe = filled_pipe({**received(), meta.META_URL_VARIABLE: meta.meta_url(arguments).reveal()})
        with _private(log_path) as log, _private(answer_path) as answer, os.fdopen(pipe) as secrets:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, *_run_arguments(arguments, directory)],
                stdin=secrets,
                stdout=answer,
                stderr=log,
                env=inherited(),
                start_new_session=True,
            )
        return cls(process, log_path, answer_path)

    def wait_for_start(self, store: MetaStore, task: TaskConfig, before: set[str]) -> str:
        """Wait until an app that is not in `before` works on all sources, and return ""; or return the error that ended
        it. From then on the other verbs find the task.
        """
        deadline = time.monotonic() + START_TASK_SECONDS
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            known = {subtask.source for subtask in store.list_subtasks(task=task.name)}
            began = any(run.run_id not in before for run in store.list_runs(task=task.name))
            if began and known >= set(task.source_ids):
                return ""
            if ended:
                return self._failure()
            time.sleep(_POLL_SECONDS)
        return f"it has not started after {START_TASK_SECONDS:.0f} s; its log is {self.log_path}"

    def _failure(self) -> str:
        try:
            msg = str(json.loads(self.answer_path.read_text(encoding="utf-8"))["msg"])
        except (OSError, ValueError, KeyError):
            msg = ""
        return msg or f"it ended with exit code {self.process.returncode}; its log is {self.log_path}"


def _run_arguments(arguments: argparse.Namespace, directory: TaskDir) -> list[str]:
    """Return the arguments of `dmctl run`."""
    words = ["run", str(arguments.task.absolute()), "--until", "forever", "--no-verify", "--json"]
    for file in arguments.sources:
        words += ["--source", str(file.absolute())]
    for pair in arguments.password_env:
        words += ["--password-env", pair]
    for key, value in arguments.spark_conf:
        words += ["--spark-conf", f"{key}={value}"]
    if arguments.start_time:
        words += ["--start-time", arguments.start_time]
    if arguments.master:
        words += ["--master", arguments.master]
    return [*words, "--driver-memory", arguments.driver_memory, "--work-dir", str(directory.root)]


def _private(path: Path) -> IO[bytes]:
    """Create or truncate a file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


if __name__ == "__main__":  # the process that `start-task` starts
    from airflow_provider_dm.cli.main import main

    receive(0)
    sys.exit(main())
