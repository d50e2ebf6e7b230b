"""Spark app: incremental sync of all sources of a job, each in a thread of its own.

    spark-submit spark_apps/incremental_sync.py JOBSPEC.json

Sources are independent, as DM's subtasks: each resumes automatically after a transient error (engine/sync/resuming.py),
and a permanent error stops its own source only:

    without a goal   the source is Paused with its error until resume-task, or until no other source works; its lease is
                     released, so that commands can claim it (`dmctl binlog-schema update`)
    with a goal      the other sources run to their goals; then the app fails with the first error; its result has all

An error that needs a new app (a lost Spark, a lost lease) ends all sources, after their epochs.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are in the parent directory
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    gc.disable()  # until `main` is called: imports make no garbage
    from spark_apps.runner import start_spark

    start_spark("incremental_sync")

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.errors import LeaseHeld
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.resuming import report_stopped, run_sync_resuming, wait_for_resumption
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.start.begin_incremental import begin_incremental
from airflow_provider_dm.engine.sync.sync_result import SyncResult, result_json
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from spark_apps.app import App, Outcome, main
from spark_apps.errors import TasksCrashed
from spark_apps.runner import SparkRunner

log = logging.getLogger(__name__)


def work(app: App) -> Outcome:
    """Claim every source, then sync all of them until the job's goal. Raises the first error."""
    began = time.monotonic()
    fences = [app.claim(source.config.source_id) for source in app.spec.sources]
    sources = [SyncSource.of(app.spec, fence) for fence in fences]
    begin_incremental(sources, store=app.store, stop=app.stop)
    runner = app.runner()
    shown = {source.config.source_id: SyncProgress() for source in sources}
    results: dict[str, SyncResult] = {}
    failures: dict[str, DmError] = {}
    while sources:
        before = results
        running = RunningSources(app, {source.config.source_id for source in sources})
        results = {**results, **_sync_all(running, runner, sources, shown)}
        failures = running.failures
        sources = _waiting(sources, before, results) if not (app.stop.is_set() or failures) else []
    failed = {source: str(error) for source, error in failures.items()}
    result = result_json(results, failed, time.monotonic() - began)
    finished = not failures and all(one.finished for one in results.values())
    return Outcome(result, finished, next(iter(failures.values()), None))


@dataclass
class RunningSources:
    """The sources that are synced at the same time. Its methods may be called by any thread."""

    app: App
    working: set[str]
    """Sources that have neither ended nor wait to be resumed."""
    failures: dict[str, DmError] = field(default_factory=dict)
    """The errors that have stopped single sources, in order of time."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def failed(self, source: SyncSource, error: DmError) -> SyncSource | None:
        """Record the error that has stopped a source and, in a sync without an end, wait until it is resumed.

        Returns the source with its new fence; None if it is not resumed. Raises the errors of `App.claim`.
        """
        name = source.config.source_id
        with self._lock:
            self.failures[name] = error
        self.ended(name)
        if not self.working or self.app.spec.until != UNTIL_FOREVER:
            return None
        log.error("the sync of %s is paused until it is resumed, the others continue: %s", name, error)
        self.app.release(name)
        if not wait_for_resumption(source, self.app.store, self.app.gates[name]):
            return None
        try:
            fence = self.app.claim(name, again=True)
        except LeaseHeld as held:
            log.error("%s is not resumed here, as another run holds it: %s", name, held)
            return None
        with self._lock:
            self.working.add(name)
            del self.failures[name]
        return replace(source, fence=fence)

    def drop_failure_if_stopped(self, source: SyncSource) -> None:
        """If a user has stopped a failed source, report it as stopped: its error is then not an error of the app."""
        name = source.config.source_id
        if self.app.gates[name].requested is not Stage.STOPPED or self.app.stop.is_set():
            return
        report_stopped(source, self.app.store)
        with self._lock:
            del self.failures[name]

    def ended(self, name: str) -> None:
        """Record that a source has ended. If all remaining sources wait to be resumed, end them."""
        with self._lock:
            self.working.discard(name)
            if not self.working and self.failures:
                self.app.end()


def _sync_all(
    running: RunningSources, runner: SparkRunner, sources: Sequence[SyncSource], shown: Mapping[str, SyncProgress]
) -> dict[str, SyncResult]:
    """Sync each source until its goal or an error. Return the results of the sources without an error.

    Raises the first error that affects more than one source.
    """
    with ThreadPoolExecutor(len(sources), thread_name_prefix="sync") as pool:
        syncs = {
            source.config.source_id: pool.submit(_sync, running, runner, source, shown[source.config.source_id])
            for source in sources
        }
        wait(syncs.values(), return_when=FIRST_EXCEPTION)
        failed = [error for sync in syncs.values() if sync.done() and (error := sync.exception())]
        if failed:
            running.app.end()
    if failed:
        raise failed[0]
    return {source: result for source, sync in syncs.items() if (result := sync.result()) is not None}


def _waiting(
    sources: Sequence[SyncSource], before: Mapping[str, SyncResult], now: Mapping[str, SyncResult]
) -> list[SyncSource]:
    """Return the sources that wait for DDL of other sources, if syncing them again can change that: the source that
    reached its goal first may have to execute a DDL that the last source has reported.
    """

    def waits(results: Mapping[str, SyncResult]) -> dict[str, object]:
        return {source: result.unresolved_groups for source, result in results.items() if result.unresolved_groups}

    if waits(before) == waits(now):
        return []
    ended = ((source, now[source.config.source_id]) for source in sources)
    return [source for source, result in ended if result.finished and result.unresolved_groups]


def _sync(
    running: RunningSources, runner: SparkRunner, source: SyncSource, progress: SyncProgress
) -> SyncResult | None:
    """Sync one source. Return None if its own error has stopped it; `running` has the error."""
    app, source_id = running.app, source.config.source_id
    if len(app.spec.sources) > 1:
        runner.lane(source_id)
    gate = app.gates[source_id]
    app.report(source_id, progress.beat)

    def run() -> SyncResult:
        return run_sync(source, runner, app.store, gate.closed, progress=progress)

    try:
        while True:
            try:
                # A lost Spark needs another app.
                return run_sync_resuming(source, app.store, gate, progress, run, never=(TasksCrashed,))
            except DmError as error:
                if error.reacts() is not Reaction.STOP:
                    raise
                progress.paused()
                again = running.failed(source, error)
                if again is None:
                    running.drop_failure_if_stopped(source)
                    return None
                source = again
    finally:
        running.ended(source_id)


if __name__ == "__main__":
    sys.exit(main(work))
