"""The JSON that the page reads: DM's documents, as `dmctl query-status` and `shard-ddl-lock` print them, in one answer.

{"tasks": [TASK], "relays": [RELAY], "locks": [LOCK], "verdict": {"level", …}}
TASK    an element of query-status's `tasks`, with `sourceStatus` (the document of the task), `verdict`, `run`, and by
        source `verdicts`, `pausedAt` and `history`; `runs` if it is the only task that was asked for
RELAY   an element of `sources` of query-status -s, of a source that no task reads
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from airflow_provider_dm.engine.meta.model import Run
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.ddl_locks import lock_json
from airflow_provider_dm.launch.status import Known, dm_error, lives
from airflow_provider_dm.links.task_instance import TaskInstanceRef, run_prefix, task_instance_of
from airflow_provider_dm.plugins.verdict import Level, verdict_of, worst

RUNS_SHOWN: Final = 20
POINTS_SHOWN: Final = 400

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """The tasks that are asked for: one by name, those of a source, of a DAG run or a task instance; or all."""

    task: str | None = None
    source: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: str = ""
    """As Airflow writes it into the address of a tab; no number for a task that is not mapped."""

    def names(self, store: MetaStore) -> set[str] | None:
        """Return the names of the tasks; None: all."""
        if self.task is not None:
            return {self.task}
        if self.source is not None:
            return {one.task for one in store.list_subtasks(source=self.source)}
        if self.dag_id is None or self.run_id is None:
            return None
        found = store.list_runs(identity=run_prefix(self.dag_id, self.run_id))
        return {run.task for run in found if self._means(run)}

    def _means(self, run: Run) -> bool:
        if self.task_id is None:
            return True
        assert self.dag_id is not None
        assert self.run_id is not None
        index = int(self.map_index) if self.map_index.isdecimal() else -1
        return run.holder.identity == TaskInstanceRef(self.dag_id, self.run_id, self.task_id, index).identity


def page_document(store: MetaStore, asked: Asked) -> Json:
    """Return what the page shows of these tasks."""
    names = asked.names(store)
    known = Known(store)
    locks = [lock_json(lock, age) for lock, age in known.locks if asked.task in (None, lock.task)]
    listed = known.status()["tasks"]
    chosen = [one for one in listed if names is None or one["taskName"] in names]
    tasks = [_task(store, known, one, locks, detailed=len(chosen) == 1 and names is not None) for one in chosen]
    read = {source for one in listed for source in one["sources"]}
    relays = [source for source in known.relays if source not in read] if names is None else []
    if asked.source is not None and not tasks:
        relays = [asked.source]
    levels = [Level(one["verdict"]["level"]) for one in tasks]
    return {
        "tasks": tasks,
        "relays": known.status(sources=relays)["sources"] if relays else [],
        "locks": [one for one in locks if names is None or one["task"] in names],
        "verdict": {"level": worst(levels).value},
    }


def _task(store: MetaStore, known: Known, listed: Json, locks: Sequence[Json], *, detailed: bool) -> Json:
    """Return one task: of query-status, and beside it its last runs."""
    name: str = listed["taskName"]
    runs = store.list_runs(task=name, limit=RUNS_SHOWN if detailed else 1)
    shown = [run_json(one) for one in runs]
    works = _judged(known.last_run(name), shown)
    sources = known.status(name)["sources"]
    verdicts = {}
    for one in sources:
        source, relay = one["sourceStatus"]["source"], one["sourceStatus"]["relayStatus"]
        mine = [lock for lock in locks if lock["task"] == name and source in (*lock["synced"], *lock["unsynced"])]
        verdicts[source] = verdict_of(one["subTaskStatus"][0], relay, works, mine)
    level = worst([one.level for one in verdicts.values()])
    paused_at = {
        one.source: str(one.error_at) for one in known.subtasks if one.task == name and one.error_at is not None
    }
    found: Json = {
        **listed,
        "sourceStatus": sources,
        "verdict": {"level": level.value},
        "verdicts": {source: one.to_json() for source, one in verdicts.items()},
        "pausedAt": paused_at,
        "run": shown[0] if shown else None,
        "history": {source: history_of(runs, source) for source in listed["sources"]},
    }
    if detailed:
        found["runs"] = shown
    return found


def _judged(run: Run | None, shown: Sequence[Json]) -> Json | None:
    """Return the run by which the sources are judged: the last that loads or syncs. A comparison that has found a
    difference after it, or has failed, is an error of the task as well. `shown`: the last runs of any app.
    """
    if run is None:
        return None
    found = run_json(run)
    return {**found, "error": found["error"] or shown[0]["error"]}


def run_json(run: Run) -> Json:
    """Return one run, with the task instance of Airflow that has started it, if one has."""
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
