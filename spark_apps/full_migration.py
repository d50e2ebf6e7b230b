"""The full migration: `spark-submit full_migration.py JOBSPEC.json`. This app runs engine/copy on Spark.

Its sources pause and stop together: a request for one of them applies to all.

Result: see `engine.copy.migration.load_all`.
"""

from __future__ import annotations

import gc
import logging
import sys
from functools import partial
from pathlib import Path

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    gc.disable()  # until `main` is called: imports make no garbage
    from spark_apps.runner import start_spark

    start_spark("full_migration")

from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.migration import Hooks, load_all, load_progress
from airflow_provider_dm.engine.copy.preconditions import check_before_claim
from airflow_provider_dm.engine.downstream.dm_checkpoint import to_take_over
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.subtask import known_subtasks
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.mysql.location import Location
from spark_apps.app import App, Outcome, main

log = logging.getLogger(__name__)


def work(app: App) -> Outcome:
    """Check the preconditions, claim every source, copy, and hand over to sync."""
    spec, task = app.spec, app.spec.task.name
    if _is_loaded_by_dm(app):
        return Outcome(
            {
                "rows": 0,
                "seconds": 0.0,
                "notes": ["DM has loaded the task; the sync continues at its checkpoint"],
                "sources": {},
            }
        )
    check_before_claim(spec, {one.config.source_id: one.endpoint.resolve() for one in spec.sources}, app.target)
    fences = {source.config.source_id: app.claim(source.config.source_id) for source in spec.sources}

    def begun(source_id: str, start: Location) -> None:
        app.store.put_subtask(task, source_id, unit=Unit.LOAD, stage=Stage.RUNNING, needed=start)

    def ended(source_id: str, start: Location) -> None:
        if spec.task.task_mode is TaskMode.FULL:
            app.store.put_subtask(task, source_id, unit=Unit.LOAD, stage=Stage.FINISHED, applied=start)
        else:  # not Finished: the relay must keep the log from which sync will begin
            app.store.put_subtask(task, source_id, unit=Unit.SYNC, stage=Stage.NEW, needed=start, applied=start)

    for source_id, fence in fences.items():
        app.report(source_id, partial(load_progress, app.target, fence.ref))
    runner = app.runner()
    hooks = Hooks(
        runner,
        app.store,
        stop=app.is_halted,
        closed=lambda source_id: app.gates[source_id].closed,
        begun=begun,
        ended=ended,
        lane=runner.lane,
    )
    while True:
        loaded = load_all(spec, fences, hooks)
        if loaded.complete:
            return Outcome(loaded.result)
        _report_paused(app)
        if not app.wait_while_paused():
            return Outcome(loaded.result, finished=False)


def _is_loaded_by_dm(app: App) -> bool:
    """Return True if DM has loaded the task: the sync continues at DM's checkpoint, and no rows are copied."""
    task, connection = app.spec.task, target_connection(app.target)
    sources = [source.config.source_id for source in app.spec.sources]
    known = known_subtasks(connection, task.meta_schema, task.name, sources)
    refs = (SubtaskRef(task.meta_schema, task.name, source) for source in sources)
    return any(to_take_over(connection, ref, task.task_mode, known.get(ref.source)) for ref in refs)


def _report_paused(app: App) -> None:
    """Report Paused for the sources that are being loaded, but not for sources that are already loaded."""
    task, sources = app.spec.task.name, set(app.gates)
    try:
        for subtask in app.store.list_subtasks(task=task):
            if subtask.source in sources and subtask.unit is Unit.LOAD and subtask.stage is Stage.RUNNING:
                app.store.put_subtask_paused(task, subtask.source)
    except DmError as lost:
        log.warning("the stage Paused was not reported to the metadata DB: %s", lost)


if __name__ == "__main__":
    sys.exit(main(work))
