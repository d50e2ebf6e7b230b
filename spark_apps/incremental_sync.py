"""Spark app: incremental sync of all sources of a job, each in a thread of its own.

    spark-submit spark_apps/incremental_sync.py JOBSPEC.json

Sources are independent, and each goes on by itself after what may pass (engine/sync/resuming.py); but when one stops
with an error the others stop too, at the end of their epochs, so that the error is seen and the scheduler can start all
of them again.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: its packages lie beside its folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    gc.disable()  # until `main` is called: what an import makes is no garbage

from airflow_provider_dm.engine.shard.lock import WAITING_FOR_LOCK
from airflow_provider_dm.engine.sync.begin import SyncSource, begin_incremental
from airflow_provider_dm.engine.sync.pausing import run_sync_pausing
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.resuming import run_sync_resuming
from airflow_provider_dm.engine.sync.run import SyncResult
from spark_apps.app import App, Outcome, main
from spark_apps.runner import SparkRunner, TasksCrashed


def work(app: App) -> Outcome:
    """Claim every source, then sync all of them until the job's goal. Raises the first error."""
    began = time.monotonic()
    fences = [app.claim(source.config.source_id) for source in app.spec.sources]
    sources = [SyncSource.of(app.spec, fence) for fence in fences]
    begin_incremental(sources, store=app.store, stop=app.stop)
    runner = app.runner()
    shown = {source.config.source_id: SyncProgress() for source in sources}
    results: dict[str, SyncResult] = {}
    while sources:
        before = results
        results = {**results, **_round(app, runner, sources, shown)}
        sources = _waiting(sources, before, results) if not app.stop.is_set() else []
    return Outcome(_result(results, time.monotonic() - began), all(one.finished for one in results.values()))


def _round(
    app: App, runner: SparkRunner, sources: Sequence[SyncSource], shown: Mapping[str, SyncProgress]
) -> dict[str, SyncResult]:
    """Sync each of the sources until its goal. Raises the first error."""
    with ThreadPoolExecutor(len(sources), thread_name_prefix="sync") as pool:
        syncs = {
            source.config.source_id: pool.submit(_sync, app, runner, source, shown[source.config.source_id])
            for source in sources
        }
        wait(syncs.values(), return_when=FIRST_EXCEPTION)
        failed = [error for sync in syncs.values() if sync.done() and (error := sync.exception())]
        if failed:
            app.end()
    if failed:
        raise failed[0]
    return {source: sync.result() for source, sync in syncs.items()}


def _waiting(
    sources: Sequence[SyncSource], before: Mapping[str, SyncResult], now: Mapping[str, SyncResult]
) -> list[SyncSource]:
    """Return the sources that wait for DDL of others, as long as that changes anything: one that has come to its goal
    first may have to run what the last one has brought.
    """

    def waits(results: Mapping[str, SyncResult]) -> dict[str, object]:
        return {source: one.unresolved_groups for source, one in results.items() if one.unresolved_groups}

    if waits(before) == waits(now):
        return []
    ended = ((source, now[source.config.source_id]) for source in sources)
    return [source for source, result in ended if result.finished and result.unresolved_groups]


def _sync(app: App, runner: SparkRunner, source: SyncSource, progress: SyncProgress) -> SyncResult:
    source_id = source.config.source_id
    if len(app.spec.sources) > 1:
        runner.lane(source_id)
    gate = app.gates[source_id]
    app.report(source_id, progress.to_json)

    def run() -> SyncResult:
        # Without Spark there is nothing to go on with; another app has another one.
        return run_sync_resuming(source, runner, app.store, gate.closed, progress=progress, never=(TasksCrashed,))

    return run_sync_pausing(source, app.store, gate, progress, run)


def _result(results: dict[str, SyncResult], seconds: float) -> dict[str, object]:
    # Rows that are held back are neither lost nor applied: they wait for a shard's DDL, and the next run goes on.
    held_back = {source: one.unresolved_groups for source, one in results.items() if one.unresolved_groups}
    finished = all(one.finished for one in results.values())
    return {
        "status": "stopped" if not finished else WAITING_FOR_LOCK if held_back else "finished",
        "changes_applied": sum(one.changes for one in results.values()),
        "transactions": sum(one.transactions for one in results.values()),
        "ddl_applied": sum(one.ddl_applied for one in results.values()),
        "seconds": round(seconds, 3),
        "unresolved_groups": held_back,
        "sources": {
            source: {
                "location": str(one.location),
                "finished": one.finished,
                "epochs": one.epochs,
                "transactions": one.transactions,
                "changes_applied": one.changes,
                "contested_rows": one.contested_rows,
                "ddl_applied": one.ddl_applied,
                "seconds": one.seconds,
            }
            for source, one in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main(work))
