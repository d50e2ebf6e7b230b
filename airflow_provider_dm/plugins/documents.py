"""The JSON that the page reads: DM's documents, as `dmctl query-status` and `shard-ddl-lock` print them, in one answer.

{"tasks": [TASK], "relays": [RELAY], "locks": [LOCK], "verdict": {"level", …}}
TASK    an element of query-status's `tasks`, with `sourceStatus` (the document of the task), `verdict`, `run`, and by
        source `verdicts`, `pausedAt` and `history`; `runs` if it is the only selected task
RELAY   an element of `sources` of query-status -s, of a source that no task reads
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from airflow_provider_dm.engine.meta.records import Run
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.ddl_locks import lock_json
from airflow_provider_dm.launch.status import StatusRecords, dm_error, lives
from airflow_provider_dm.links.task_instance import task_instance_of
from airflow_provider_dm.plugins.verdict import VerdictLevel, verdict_of, worst

RUNS_SHOWN: Final = 20
POINTS_SHOWN: Final = 400

Json = dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """The names of the tasks to show, and the source-ids of the sources to show with the tasks that read them."""

    tasks: Collection[str] = ()
    sources: Collection[str] = ()


def page_document(
    store: MetaStore, selection: Selection | None = None, is_visible: Callable[[Run | None], bool] = lambda _: True
) -> Json:
    """Return the page of the selected tasks and sources; None: of all. `is_visible`: whether it shows a run, and a task
    with this last load or sync."""
    known = StatusRecords(store)
    listed = known.status()["tasks"]
    read = {source for task in listed for source in task["sources"]}
    listed = [task for task in listed if is_visible(known.last_run(task["taskName"]))]
    chosen, relays = listed, [source for source in known.relays if source not in read]
    if selection is not None:
        tasks, sources = {*selection.tasks}, {*selection.sources}
        chosen = [task for task in listed if task["taskName"] in tasks or sources & {*task["sources"]}]
        relays = [source for source in relays if source in sources]
    names = {task["taskName"] for task in chosen}
    locks = [lock_json(lock, age) for lock, age in known.locks if is_visible(known.last_run(lock.task))]
    locks = [lock for lock in locks if selection is None or lock["task"] in names]
    detailed = len(chosen) == 1 and selection is not None
    runs = {
        name: [run for run in store.list_runs(task=name, limit=RUNS_SHOWN if detailed else 1) if is_visible(run)]
        for name in names
    }
    documents = [_task(known, task, locks, runs[task["taskName"]], detailed=detailed) for task in chosen]
    levels = [VerdictLevel(document["verdict"]["level"]) for document in documents]
    return {
        "tasks": documents,
        "relays": known.status(sources=relays)["sources"] if relays else [],
        "locks": locks,
        "verdict": {"level": worst(levels).value},
    }


def _task(known: StatusRecords, listed: Json, locks: Sequence[Json], runs: Sequence[Run], *, detailed: bool) -> Json:
    """Return one task as query-status shows it, with its last runs."""
    name: str = listed["taskName"]
    shown = [run_json(one) for one in runs]
    sources = known.status(name)["sources"]
    verdicts = {}
    for one in sources:
        source, relay = one["sourceStatus"]["source"], one["sourceStatus"]["relayStatus"]
        run = _run_for_verdict(known.last_run(name, source), shown)
        own_locks = [lock for lock in locks if lock["task"] == name and source in (*lock["synced"], *lock["unsynced"])]
        verdicts[source] = verdict_of(one["subTaskStatus"][0], relay, run, own_locks)
    level = worst([verdict.level for verdict in verdicts.values()])
    paused_at = {
        one.source: str(one.error_at) for one in known.subtasks if one.task == name and one.error_at is not None
    }
    document: Json = {
        **listed,
        "sourceStatus": sources,
        "verdict": {"level": level.value},
        "verdicts": {source: verdict.to_json() for source, verdict in verdicts.items()},
        "pausedAt": paused_at,
        "run": shown[0] if shown else None,
        "history": {source: history_of(runs, source) for source in listed["sources"]},
    }
    if detailed:
        document["runs"] = shown
    return document


def _run_for_verdict(run: Run | None, shown: Sequence[Json]) -> Json | None:
    """Return the run that decides the verdict on a source: its last that loads or syncs. A later comparison that has
    found a difference, or has failed, adds its error. `shown`: the last runs of any app.
    """
    if run is None:
        return None
    found = run_json(run)
    return {**found, "error": found["error"] or (shown[0]["error"] if shown and shown[0]["app"] == "verify" else None)}


def run_json(run: Run) -> Json:
    """Return one run, with the Airflow task instance that started it, if any."""
    instance = task_instance_of(run.holder.identity)
    return {
        "id": run.run_id,
        "app": run.app,
        "stage": run.stage.value,
        "lives": lives(run),
        "startedAt": run.started_at.isoformat(timespec="seconds"),
        "finishedAt": run.finished_at.isoformat(timespec="seconds") if run.finished_at else None,
        "heartbeatAgeSeconds": round(run.heartbeat_age_seconds, 1),
        "host": run.holder.host,
        "attempt": run.holder.attempt,
        "error": dm_error(run.error) if run.error else None,
        "airflow": {**asdict(instance), "path": instance.path} if instance is not None else None,
        "startedBy": run.holder.identity,
    }


def history_of(runs: Iterable[Run], source: str) -> list[list[Any]]:
    """Return the lag and rows per second of a source over time, through these runs: [seconds since 1970, lag, rows/s].

    Between two runs there is a point without values, so that a plot shows the gap.
    """
    points: list[list[Any]] = []
    for run in sorted(runs, key=lambda one: one.started_at):
        progress = run.progress.get(source)
        own = list(progress.get("history") or ()) if isinstance(progress, Mapping) else []
        if own and points:
            points.append([points[-1][0] + 1, None, None])
        points += own
    return points[-POINTS_SHOWN:]
