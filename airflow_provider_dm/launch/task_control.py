"""Users' requests to pause, resume or stop tasks. The metadata DB stores them, every running app reads them, and the
caller waits until they are fulfilled.

A request is valid until another one replaces it or the subtask is removed, so it holds for a restarted app as well. A
new start of the task withdraws it (`want_running`), once no other run works on the task (`wait_for_others`): until then
the request is meant for that run.

An app reads requests every two seconds, and fulfils them after the current epoch or page, which usually takes a second
and at most ten (engine/sync/epoch.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.downstream.removal import withdraw_reports
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.health import error_text
from airflow_provider_dm.launch.ddl_locks import forget_locks
from airflow_provider_dm.launch.errors import ControlNotObeyed, TaskUnknown
from airflow_provider_dm.launch.status import host_of, last_run, lives

OBEY_SECONDS: Final = 20.0
OTHERS_POLL_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.25

log = logging.getLogger(__name__)


def chosen_subtasks(store: MetaStore, task: str, sources: Sequence[str]) -> list[SubtaskStatus]:
    """Return the task's subtasks on these sources; without `sources` all of them. Raises TaskUnknown."""
    subtasks = [subtask for subtask in store.list_subtasks(task=task) if not sources or subtask.source in sources]
    unknown = sorted(set(sources) - {subtask.source for subtask in subtasks})
    if unknown or not subtasks:
        raise TaskUnknown(task, tuple(unknown) or ("any source",))
    return subtasks


@dataclass(frozen=True)
class ControlOutcome:
    """The outcome of a request to one source of a task; `trouble` is empty if it is fulfilled."""

    task: str
    source: str
    host: str
    trouble: str = ""


def wait_for_others(store: MetaStore, task: str, sources: Sequence[str], holder: Holder) -> None:
    """Wait until no other run holds these sources: a dead holder does not renew its lease. The app checks it again.

    Raises LeaseHeld if another run is working.
    """
    deadline = 0.0
    while (held := next(filter(None, (store.lease_held(task, one, holder) for one in sources)), None)) is not None:
        now = time.monotonic()
        deadline = deadline or now + held.remaining_seconds + _POLL_SECONDS
        if now > deadline:
            raise held
        log.info("waiting to see whether another run is working: %s", held)
        time.sleep(min(max(deadline - now, 0.0), OTHERS_POLL_SECONDS) + _POLL_SECONDS)


def want_running(
    store: MetaStore, task: str, sources: Iterable[str], instead_of: Collection[Stage] = (Stage.PAUSED, Stage.STOPPED)
) -> None:
    """Withdraw requests for a task that is started now, which would otherwise pause or end immediately."""
    wanted = {subtask.source: subtask.desired for subtask in store.list_subtasks(task=task)}
    for source in sources:
        if wanted.get(source) in instead_of:
            store.set_subtask_desired(task, source, Stage.RUNNING)


def operate(store: MetaStore, subtasks: Sequence[SubtaskStatus], desired: Stage) -> list[ControlOutcome]:
    """Pause, resume, or stop and remove these subtasks; return when that is done."""
    for subtask in subtasks:  # all requests are stored before any is awaited
        store.set_subtask_desired(subtask.task, subtask.source, desired)
    deadline = time.monotonic() + OBEY_SECONDS
    answers = [_answer(store, subtask, desired, deadline) for subtask in subtasks]
    for answer in answers:
        if desired is Stage.STOPPED and not answer.trouble:
            withdraw_reports(store, answer.task, answer.source)
            store.forget_subtask(answer.task, answer.source)
    for task in {subtask.task for subtask in subtasks}:
        if desired is Stage.STOPPED and not store.list_subtasks(task=task):
            forget_locks(store, task)
    return answers


def control(store: MetaStore, task: str, sources: Sequence[str], desired: Stage) -> list[str]:
    """Pause, resume or stop the task's subtasks on these sources; return the sources when that is done.

    Raises TaskUnknown, InvalidInput, ControlNotObeyed.
    """
    chosen = chosen_subtasks(store, task, sources)
    if reason := refusal(chosen, store.list_subtasks(task=task)):
        raise InvalidInput(
            f"nothing was requested of task {task}: {reason}.", "Make the request for all sources of the task."
        )
    answers = operate(store, chosen, desired)
    for one in answers:
        if one.trouble:
            raise ControlNotObeyed(task, one.source, one.trouble)
    return [answer.source for answer in answers]


def refusal(subtasks: Sequence[SubtaskStatus], known: Sequence[SubtaskStatus]) -> str:
    """Return why the request is refused; empty if it is not. `known`: all subtasks of their tasks."""
    asked = {(subtask.task, subtask.source) for subtask in subtasks}
    tasks = {subtask.task for subtask in subtasks}
    loading = {subtask.task for subtask in subtasks if subtask.unit is Unit.LOAD and subtask.stage is Stage.RUNNING}
    left = [one for one in known if one.task in tasks & loading and (one.task, one.source) not in asked]
    if left:
        return f"task {left[0].task} is loading, and all of its sources pause, resume and stop a load together"
    return ""


def live_run(store: MetaStore, task: str) -> Run | None:
    """Return the newest run of a task with a live app; None if there is none."""
    return next(filter(lives, store.list_runs(task=task)), None)


def _answer(store: MetaStore, asked: SubtaskStatus, desired: Stage, deadline: float) -> ControlOutcome:
    while True:
        now = next(iter(store.list_subtasks(task=asked.task, source=asked.source)), None)
        run = live_run(store, asked.task)
        # If the task has other sources that are not to stop, its app does not end.
        others = any(subtask.desired is not Stage.STOPPED for subtask in store.list_subtasks(task=asked.task))
        trouble = _trouble(now, run, desired, others=others)
        host = host_of(run or last_run(store, asked.task))
        if trouble is None:
            return ControlOutcome(asked.task, asked.source, host)
        if run is None or time.monotonic() > deadline:
            return ControlOutcome(asked.task, asked.source, host, trouble)
        time.sleep(_POLL_SECONDS)


def _trouble(now: SubtaskStatus | None, run: Run | None, desired: Stage, *, others: bool) -> str | None:
    """Return why the request is not fulfilled; None if it is."""
    if now is None:
        return None if desired is Stage.STOPPED else "it was removed in the meantime"
    stage = now.stage.value
    match desired:
        case Stage.STOPPED:
            ended = run is None or (others and now.stage is Stage.STOPPED)
            return None if ended else f"it has not ended after {OBEY_SECONDS:.0f} s and is {stage}"
        case Stage.PAUSED:
            if now.stage is Stage.PAUSED:
                return None
            return "it has no run" if run is None else f"it is still {stage} after {OBEY_SECONDS:.0f} s"
        case _:
            if run is None:
                return "it has no run that could resume: start it again"
            if now.stage is not Stage.PAUSED:
                return None
            return f"it is still Paused after {OBEY_SECONDS:.0f} s" + (
                f": {error_text(now.error)}" if now.error else ""
            )
