"""The end of a run according to the metadata DB, for a process that did not start its app.

    row of the run        launcher      last report      end
    missing               lives         -                none yet (Spark is starting)
    missing               has ended     -                RunLost
    Running               lives         recent           none yet
    Running               has ended     -                RunLost
    Running               unknown       too old          RunLost
    Finished, Stopped     -             -                its result
    Paused                -             -                its error

A launcher on another machine is unknown: its run's reports decide. A lost run may still be working: its lease
and the generation in the target stop it as soon as another run claims the task. `run_end` is pure.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError
from airflow_provider_dm.engine.meta.records import Run, Stage
from airflow_provider_dm.launch.errors import RunLost, SparkAppFailed, TaskTakenOver
from airflow_provider_dm.launch.status import lives
from airflow_provider_dm.launch.submit import AppOutcome

START_SECONDS: Final = 300.0
"""The maximum time from the start of a launcher on another machine to its app's first report: relays, and a JVM."""


def run_end(
    run_id: str, app: str, run: Run | None, *, launcher_ended: bool, waited_seconds: float
) -> AppOutcome | DmError | None:
    """Return the outcome of a run, or the error to raise for its end; None while it works. `run`: its row.
    `waited_seconds`: since its launcher was started.
    """
    if run is not None and run.finished_at is not None:
        if run.stage in (Stage.FINISHED, Stage.STOPPED):
            return AppOutcome(dict(run.result or {}), finished=run.stage is Stage.FINISHED)
        error = ReportedError.read(run.error or {})
        fenced = error.reaction is Reaction.FENCED
        return TaskTakenOver(app, run_id) if fenced else SparkAppFailed(app, run_id, error)
    if launcher_ended:
        return RunLost(app, run_id, "its launcher was killed")
    if run is None and waited_seconds >= START_SECONDS:
        return RunLost(app, run_id, f"it did not report in {START_SECONDS:.0f} s")
    if run is not None and not lives(run):
        return RunLost(app, run_id, f"its last report is {run.heartbeat_age_seconds:.0f} s old")
    return None
