"""What people want of tasks: written into the metadata DB, where every running app looks, and waited for.

A wish is kept until another one takes its place or the subtask is forgotten, so an app that is started again after a
death obeys it as well. Whoever starts a task anew takes it back (`want_running`), once nobody else works on it
(`wait_for_others`): until then the wish is meant for that one.

An app looks every two seconds, and obeys behind the epoch or page in hand, which is meant to take a second and may take
ten (engine/sync/epoch.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.config.job import HolderSpec
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.model import Holder, Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.health import said
from airflow_provider_dm.launch.ddl_locks import forget_locks, withdraw
from airflow_provider_dm.launch.status import host_of, last_run, lives

OBEY_SECONDS: Final = 20.0
OTHERS_LOOK_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.25

log = logging.getLogger(__name__)


class TaskUnknown(DmError):
    """No run has named the task, or not on these sources."""

    task: str
    sources: tuple[str, ...]

    code = "DM-9046"
    what = "no task {task} is known on {sources}."
    hint = "`dmctl query-status` shows the tasks and their sources; the first run of a task makes it known."


class ControlRefused(DmError):
    task: str
    reason: str

    code = "DM-9048"
    what = "task {task} was not asked for anything: {reason}."
    hint = "Ask for all sources of the task."


class ControlNotObeyed(DmError):
    """The wish is stored, and no run has fulfilled it yet."""

    task: str
    source: str
    trouble: str

    code = "DM-9049"
    reaction = Reaction.RETRY
    what = "source {source} of task {task}: {trouble}."
    hint = "The wish is stored, and the run that is at work or the next one obeys it; ask again to wait for that."


def chosen_subtasks(store: MetaStore, task: str, sources: Sequence[str]) -> list[SubtaskStatus]:
    """Return the task's subtasks on these sources; without `sources` all of them. Raises TaskUnknown."""
    found = [one for one in store.list_subtasks(task=task) if not sources or one.source in sources]
    unknown = sorted(set(sources) - {one.source for one in found})
    if unknown or not found:
        raise TaskUnknown(task, tuple(unknown) or ("any source",))
    return found


@dataclass(frozen=True)
class ControlOutcome:
    """Outcome of an order to one source of a task; `trouble` is empty where it has come true."""

    task: str
    source: str
    host: str
    trouble: str = ""


def wait_for_others(store: MetaStore, task: str, sources: Sequence[str], holder: HolderSpec) -> None:
    """Wait until nobody else holds these sources: one who has died renews no lease. Its app asks again when it claims.

    Raises LeaseHeld where somebody is at work.
    """
    who, deadline = Holder(**holder.model_dump()), 0.0
    while (held := next(filter(None, (store.lease_held(task, one, who) for one in sources)), None)) is not None:
        now = time.monotonic()
        deadline = deadline or now + held.remaining_seconds + _LOOK_SECONDS
        if now > deadline:
            raise held
        log.info("waiting whether another run is at work: %s", held)
        time.sleep(min(max(deadline - now, 0.0), OTHERS_LOOK_SECONDS) + _LOOK_SECONDS)


def want_running(
    store: MetaStore,
    task: str,
    sources: Iterable[str],
    instead_of: Collection[Stage] = (Stage.PAUSED, Stage.STOPPED),
) -> None:
    """Take back what was wanted of a task that is started now: else it would pause or end at once."""
    wanted = {one.source: one.desired for one in store.list_subtasks(task=task)}
    for source in sources:
        if wanted.get(source) in instead_of:
            store.set_subtask_desired(task, source, Stage.RUNNING)


def operate(store: MetaStore, subtasks: Sequence[SubtaskStatus], wish: Stage) -> list[ControlOutcome]:
    """Let these subtasks wait, go on, or end and be forgotten; return when they do."""
    for one in subtasks:  # the wish for all first
        store.set_subtask_desired(one.task, one.source, wish)
    deadline = time.monotonic() + OBEY_SECONDS
    answers = [_answer(store, one, wish, deadline) for one in subtasks]
    for answer in answers:
        if wish is Stage.STOPPED and not answer.trouble:
            withdraw(store, answer.task, answer.source)
            store.forget_subtask(answer.task, answer.source)
    for task in {one.task for one in subtasks}:
        if wish is Stage.STOPPED and not store.list_subtasks(task=task):
            forget_locks(store, task)
    return answers


def control(store: MetaStore, task: str, sources: Sequence[str], wish: Stage) -> list[str]:
    """Let the task's subtasks on these sources wait, go on, or end; return the sources when they do.

    Raises TaskUnknown, ControlRefused, ControlNotObeyed.
    """
    chosen = chosen_subtasks(store, task, sources)
    if reason := refusal(chosen, store.list_subtasks(task=task)):
        raise ControlRefused(task, reason)
    answers = operate(store, chosen, wish)
    for one in answers:
        if one.trouble:
            raise ControlNotObeyed(task, one.source, one.trouble)
    return [one.source for one in answers]


def refusal(subtasks: Sequence[SubtaskStatus], known: Sequence[SubtaskStatus]) -> str:
    """Return why nothing is asked of these; empty where nothing is against it. `known`: all of their tasks'."""
    asked = {(one.task, one.source) for one in subtasks}
    tasks = {one.task for one in subtasks}
    loading = {one.task for one in subtasks if one.unit is Unit.LOAD and one.stage is Stage.RUNNING}
    left = [one for one in known if one.task in tasks & loading and (one.task, one.source) not in asked]
    if left:
        return f"task {left[0].task} is loading, which all of its sources do together: leave -s out"
    return ""


def live_run(store: MetaStore, task: str) -> Run | None:
    """Return the newest run of a task behind which an app stands; None: there is none."""
    return next(filter(lives, store.list_runs(task=task)), None)


def _answer(store: MetaStore, asked: SubtaskStatus, wish: Stage, deadline: float) -> ControlOutcome:
    while True:
        now = next(iter(store.list_subtasks(task=asked.task, source=asked.source)), None)
        run = live_run(store, asked.task)
        # Where the task has sources that are not to stop, its app does not end.
        others = any(one.desired is not Stage.STOPPED for one in store.list_subtasks(task=asked.task))
        trouble = _trouble(now, run, wish, others=others)
        host = host_of(run or last_run(store, asked.task))
        if trouble is None:
            return ControlOutcome(asked.task, asked.source, host)
        if run is None or time.monotonic() > deadline:
            return ControlOutcome(asked.task, asked.source, host, trouble)
        time.sleep(_LOOK_SECONDS)


def _trouble(now: SubtaskStatus | None, run: Run | None, wish: Stage, *, others: bool) -> str | None:
    """Return what is not as it was wished, None: nothing."""
    if now is None:
        return None if wish is Stage.STOPPED else "it was forgotten meanwhile"
    stage = now.stage.value
    match wish:
        case Stage.STOPPED:
            ended = run is None or (others and now.stage is Stage.STOPPED)
            return None if ended else f"it has not ended after {OBEY_SECONDS:.0f} s and is {stage}"
        case Stage.PAUSED:
            if now.stage is Stage.PAUSED:
                return None
            return "no run of it is there" if run is None else f"it is still {stage} after {OBEY_SECONDS:.0f} s"
        case _:
            if run is None:
                return "no run of it is there to go on: start it again, as it was started"
            if now.stage is not Stage.PAUSED:
                return None
            return f"it is still Paused after {OBEY_SECONDS:.0f} s" + (f": {said(now.error)}" if now.error else "")
