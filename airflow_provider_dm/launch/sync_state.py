"""The rule of the sync sensors and their trigger: whether the sync of a task has reached the awaited state.

    condition     met if, for every awaited source
    LagAtMost     the oldest row that may be missing in the target was committed at most so many seconds ago
    Passed        everything before a location of the source's log is applied
    NothingHeld   no row that was read is held back, neither by DDL that shards have not executed nor by another row

A sensor waits while a sync pauses, retries or does not run. It fails if an error has ended the sync since the sensor
began; after an older error it waits, because the Airflow task that runs the sync again may start later. `judge_sync`
is pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Run, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location, holds
from airflow_provider_dm.engine.sync.progress import duration
from airflow_provider_dm.launch.awaited import Awaited, Broken, Met, NotYet
from airflow_provider_dm.launch.status import aged, holds_back, last_run, lives, progress_of, subtask_error


@dataclass(frozen=True)
class LagAtMost:
    seconds: float


@dataclass(frozen=True)
class Passed:
    goal: str
    """A location as JSON (`Location.to_json`); with `server_uuid`, GTID sets decide after a switch of servers."""


@dataclass(frozen=True)
class NothingHeld:
    pass


Condition = LagAtMost | Passed | NothingHeld
_KINDS: Final[Mapping[str, Callable[..., Condition]]] = {one.__name__: one for one in (LagAtMost, Passed, NothingHeld)}


def condition_json(condition: Condition) -> dict[str, Any]:
    """Return a condition for a trigger's arguments."""
    return {"kind": type(condition).__name__, **vars(condition)}


def condition_of(value: Mapping[str, Any]) -> Condition:
    """Return the condition that `condition_json` wrote."""
    return _KINDS[value["kind"]](**{name: field for name, field in value.items() if name != "kind"})


def state_in(
    store: MetaStore, task: str, sources: Sequence[str], condition: Condition, *, waited_seconds: float
) -> Awaited:
    """Return the state of a task's sync, on these sources or on all. Raises errors of reading."""
    run = last_run(store, task)
    known = [subtask for subtask in store.list_subtasks(task=task) if not sources or subtask.source in sources]
    missing = sorted(set(sources) - {subtask.source for subtask in known})
    if missing or not known:
        return NotYet(f"the metadata DB has no sync of task {task} on {', '.join(missing) or 'any source'} yet")
    return judge_sync(known, run, condition, waited_seconds=waited_seconds)


def judge_sync(
    subtasks: Sequence[SubtaskStatus], run: Run | None, condition: Condition, *, waited_seconds: float
) -> Awaited:
    """Return the state of a sync. `run`: the task's newest load or sync."""
    is_current = run is not None and (lives(run) or run.heartbeat_age_seconds <= waited_seconds)
    values, whys = {}, []
    for one in subtasks:
        error = subtask_error(one, run)
        if error and RESUMES_IN_SECONDS not in error:
            why = f"{one.source} is paused by an error: {ReportedError.read(error)}"
            # An app that is starting has not replaced the error of the previous run yet.
            if is_current and run is not None and one.updated_at >= run.started_at:
                return Broken(why)
            whys.append(f"the next run is awaited, as {why}")
            continue
        met, value = _met(one, run, condition) if one.unit is Unit.SYNC else (False, f"its unit is {one.unit.value}")
        values[one.source] = value
        if not met:
            whys.append(f"{one.source}: {value}")
    if not whys:
        return Met(values)
    no_run = "" if run is not None and lives(run) else "; no run is working"
    return NotYet(f"{'; '.join(whys)}{no_run}")


def _met(subtask: SubtaskStatus, run: Run | None, condition: Condition) -> tuple[bool, Any]:
    """Return whether one source meets a condition, and its value or the reason why not."""
    match condition:
        case LagAtMost(most):
            lag = aged(subtask, run, "lag_seconds")
            if lag is None:
                return False, "its lag is not known yet"
            return lag <= most, round(lag, 1) if lag <= most else f"its lag is {duration(lag)}"
        case Passed(text):
            goal = Location.from_json(json.loads(text))
            met = subtask.applied is not None and bool(holds(subtask.applied, goal))
            return met, str(subtask.applied) if met else f"it is applied up to {subtask.applied}, not yet up to {goal}"
        case NothingHeld():
            if progress_of(subtask, run).get("unresolved_groups") is None:
                return False, "it has not checked for held-back rows yet"
            if holds_back(subtask, run):
                held = aged(subtask, run, "held_back_seconds")
                return False, f"rows are held back{'' if held is None else f' for {duration(held)}'}"
            return True, None
        case unknown:
            assert_never(unknown)
