"""The state of a run according to the metadata DB, for a process that did not start its app.

    row of the run        launcher      last report      state
    missing               lives         -                Working (Spark is starting)
    missing               has ended     -                Gone
    Running               lives         recent           Working
    Running               has ended     -                Gone
    Running               unknown       too old          Gone
    Finished              -             -                Finished
    Stopped               -             -                Stopped
    Paused                -             -                Failed, with the error

A launcher on another machine is unknown: its run's reports decide. A run that is Gone may still work: its lease and the
generation in the target stop it as soon as another run claims the task. `run_state` is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, assert_never

from airflow_provider_dm.engine.errors import Reaction, ReportedError
from airflow_provider_dm.engine.meta.records import Run, Stage
from airflow_provider_dm.launch.errors import RunGone, SparkAppFailed, TaskTakenOver
from airflow_provider_dm.launch.status import lives
from airflow_provider_dm.launch.submit import AppOutcome

START_SECONDS: Final = 300.0
"""The maximum time from the start of a launcher on another machine to its app's first report: relays, and a JVM."""


@dataclass(frozen=True)
class Working:
    pass


@dataclass(frozen=True)
class Finished:
    result: dict[str, Any]


@dataclass(frozen=True)
class Stopped:
    result: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    error: ReportedError


@dataclass(frozen=True)
class Gone:
    reason: str


RunState = Working | Finished | Stopped | Failed | Gone


def run_state(run: Run | None, *, launcher_ended: bool, waited_seconds: float) -> RunState:
    """Return the state of a run. `waited_seconds`: since its launcher was started."""
    if run is not None and run.finished_at is not None:
        match run.stage:
            case Stage.FINISHED:
                return Finished(dict(run.result or {}))
            case Stage.STOPPED:
                return Stopped(dict(run.result or {}))
            case _:
                return Failed(ReportedError.read(run.error or {}))
    if launcher_ended:
        return Gone("its launcher was killed")
    if run is None:
        return Working() if waited_seconds < START_SECONDS else Gone(f"it did not report in {START_SECONDS:.0f} s")
    return Working() if lives(run) else Gone(f"its last report is {run.heartbeat_age_seconds:.0f} s old")


def outcome_of(state: RunState, app: str, run_id: str) -> AppOutcome:
    """Return the outcome of a run that has ended. Raises SparkAppFailed, TaskTakenOver, RunGone."""
    match state:
        case Finished(result):
            return AppOutcome(result)
        case Stopped(result):
            return AppOutcome(result, finished=False)
        case Failed(error) if error.reaction is Reaction.FENCED:
            raise TaskTakenOver(app, run_id)
        case Failed(error):
            raise SparkAppFailed(app, run_id, error)
        case Gone(reason):
            raise RunGone(app, run_id, reason)
        case Working():
            raise RunGone(app, run_id, "it is still running")
        case unknown:
            assert_never(unknown)
