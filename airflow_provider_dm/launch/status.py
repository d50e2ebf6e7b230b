"""The state of tasks, sources and relays in the metadata DB, in the format of DM's query-status.

It is the base of `dmctl query-status` and of all pages that show the same. DM's "worker" is the host of the working
process; a state without a recent heartbeat is shown as Stopped, since the process can no longer report it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, RelayStatus, Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import has_ended
from airflow_provider_dm.engine.relay.health import GONE_SECONDS, age_of, sees_source
from airflow_provider_dm.engine.shard.lock import Lock
from airflow_provider_dm.launch.ddl_locks import stored_locks

RUN_SILENT_SECONDS: Final = 30.0
"""A run sends a heartbeat every few seconds; without one for longer it counts as ended."""
RUNS_READ: Final = 20
"""The number of runs among which the living one of a source is searched."""

Json = dict[str, Any]


class StatusRecords:
    """The contents of the metadata DB, each part read on demand and once: the value of one response."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self._runs: dict[tuple[str, int], list[Run]] = {}

    @cached_property
    def subtasks(self) -> list[SubtaskStatus]:
        return self._store.list_subtasks()

    @cached_property
    def relays(self) -> dict[str, RelayStatus]:
        """The relays by source."""
        return {relay.source: relay for relay in self._store.list_relays()}

    @cached_property
    def locks(self) -> list[tuple[Lock, float]]:
        """The DDL locks of all tasks, with their ages in seconds."""
        return stored_locks(self._store)

    def last_run(self, task: str, source: str | None = None) -> Run | None:
        """Return the newest run of a task that is a load or a sync. With `source`: unless an earlier run of this source
        still works, as mapped loads are runs of one source each.
        """
        newest = next(iter(self._last_runs(task, 1)), None)
        if newest is None or source is None or source in newest.progress:
            return newest
        return next((run for run in self._last_runs(task, RUNS_READ) if lives(run) and source in run.progress), newest)

    def _last_runs(self, task: str, limit: int) -> list[Run]:
        if (task, limit) not in self._runs:
            self._runs[task, limit] = self._store.list_runs(task=task, but="verify", limit=limit)
        return self._runs[task, limit]

    def status(self, task: str | None = None, sources: Sequence[str] = ()) -> Json:
        """Return DM's document: of all tasks, of one task's sources, or of these sources."""
        if task or sources:
            return self._of_sources(task, sources)
        return {"result": True, "msg": "", "tasks": self._tasks()}

    def _tasks(self) -> list[Json]:
        answer = []
        for task, group in groupby(self.subtasks, key=lambda subtask: subtask.task):
            subtasks = [(subtask, self.last_run(task, subtask.source)) for subtask in group]
            sources = [subtask.source for subtask, _ in subtasks]
            relays = [self.relays[source] for source in sources if source in self.relays]
            status = task_status(subtasks, relays)
            answer.append({"taskName": task, "taskStatus": status, "sources": sources})
        return answer

    def _of_sources(self, task: str | None, sources: Sequence[str]) -> Json:
        known = self.subtasks
        subtasks = [one for one in known if task in (None, one.task) and (not sources or one.source in sources)]
        if task is not None and not any(subtask.task == task for subtask in known):
            return {"result": False, "msg": f"task {task} has no source or not exist", "sources": []}
        answers: list[Json] = []
        for name in sources or dict.fromkeys(subtask.source for subtask in subtasks):
            relay = self.relays.get(name)
            if relay is None and not any(relay_status.source == name for relay_status in known):
                answers.append({"result": False, "msg": f"source {name} is not known: no task has run with it"})
                continue
            of_source = [(one, self.last_run(one.task, name)) for one in subtasks if one.source == name]
            answers.append(source_status(name, relay, of_source, self._unresolved(name)))
        unknown = [str(answer["msg"]) for answer in answers if not answer["result"]]
        return {"result": not unknown, "msg": "; ".join(unknown), "sources": answers}

    def _unresolved(self, source: str) -> dict[str, str]:
        """Return, by task, the oldest lock that a source waits for."""
        unresolved: dict[str, str] = {}
        for lock, _ in self.locks:
            info = lock.info(source)
            if info is not None and not info.done:
                unresolved.setdefault(lock.task, lock.id)
        return unresolved


def last_run(store: MetaStore, task: str) -> Run | None:
    """Return the newest run of a task that is a load or a sync; comparisons may run at the same time."""
    return next(iter(store.list_runs(task=task, but="verify", limit=1)), None)


# Formatting


def lives(run: Run) -> bool:
    """Return True if the process of a run works: it reported recently and is not known to have ended."""
    return run.stage is Stage.RUNNING and not _is_gone(run)


def _is_gone(run: Run) -> bool:
    """Return True if a run has not reported for a while, or its process died on this machine without an outcome."""
    died = run.stage is Stage.RUNNING and has_ended(run.holder.process)
    return died or run.heartbeat_age_seconds > RUN_SILENT_SECONDS


def host_of(run: Run | None) -> str:
    """Return DM's worker: the host of the process that works, or worked last."""
    return run.holder.host if run is not None else ""


def task_status(subtasks: Sequence[tuple[SubtaskStatus, Run | None]], relays: Iterable[RelayStatus]) -> str:
    """Return one word, or DM's sentence about an error. `subtasks`: each with its last run."""
    stages = {subtask_stage(subtask, run) for subtask, run in subtasks}
    if any(subtask_error(subtask, run) for subtask, run in subtasks):
        return "Error - Some error occurred in subtask. Please run `query-status [task-name]` to get more details."
    if any(subtask.unit is Unit.SYNC for subtask, _ in subtasks) and stages == {Stage.RUNNING}:
        for relay in relays:
            if (stage := relay_stage(relay)) is not Stage.RUNNING:
                return f"Error - Relay status is {stage.value}. Please run `query-status [task-name]` for details."
    for stage in (Stage.PAUSED, Stage.NEW, Stage.FINISHED, Stage.STOPPED):
        if stages == {stage} or (stage is Stage.PAUSED and stage in stages):
            return stage.value
    return Stage.RUNNING.value


def source_status(
    source: str,
    relay: RelayStatus | None,
    subtasks: Sequence[tuple[SubtaskStatus, Run | None]],
    locks: Mapping[str, str] | None = None,
) -> Json:
    """Return one element of `sources`. `locks`: by task the id of the DDL lock for which the source waits."""
    ids = locks or {}
    return {
        "result": True,
        "msg": "" if subtasks else "no sub task started",
        "sourceStatus": {
            "source": source,
            "worker": relay.host if relay else "",
            "result": None,
            "relayStatus": relay_json(relay) if relay else None,
        },
        "subTaskStatus": [subtask_json(subtask, run, relay, ids.get(subtask.task, "")) for subtask, run in subtasks],
    }


def relay_json(relay: RelayStatus) -> Json:
    return {
        **_place("masterBinlog", relay.master),
        "relaySubDir": relay.sub_dir,
        **_place("relayBinlog", relay.relay),
        "relayCatchUpMaster": relay.caught_up,
        "stage": relay_stage(relay).value,
        "result": _result(relay.error),
    }


def subtask_json(subtask: SubtaskStatus, run: Run | None, relay: RelayStatus | None, lock_id: str = "") -> Json:
    """Return DM's subTaskStatus, as far as known. `lock_id`: of the DDL lock for which it waits."""
    stage = subtask_stage(subtask, run)
    status: Json = {
        "name": subtask.task,
        "stage": stage.value,
        "unit": subtask.unit.value.capitalize(),
        "result": _result(subtask_error(subtask, run), canceled=stage is subtask.desired is Stage.PAUSED),
        "unresolvedDDLLockID": lock_id,
        # Not in DM: seconds since the pause after which the sync resumes automatically; None: it does not.
        "resumesInSeconds": _resumes_in(subtask) if stage is Stage.PAUSED else None,
    }
    match subtask.unit:
        case Unit.SYNC:
            status["sync"] = _sync_json(subtask, run, relay)
        case Unit.LOAD:
            status[subtask.unit.value] = dict(run.progress) if run is not None else {}
    return status


def _sync_json(subtask: SubtaskStatus, run: Run | None, relay: RelayStatus | None) -> Json:
    """Return DM's status of the sync unit. Counters are those of the run; 64-bit numbers are text, as in DM's JSON.

    Fields that the unit does not have yet are empty, as in DM.
    """
    master = relay.master if relay else None
    applied, shown = subtask.applied, progress_of(subtask, run)
    groups = list(shown.get("unresolved_groups") or ())
    lag, held_for = aged(subtask, run, "lag_seconds"), aged(subtask, run, "held_back_seconds")
    return {
        "totalEvents": _count(shown, "changes_applied"),
        "totalTps": _count(shown, "total_rps"),
        "recentTps": _count(shown, "recent_rps"),
        **_place("masterBinlog", master),
        **_place("syncerBinlog", applied),
        "blockingDDLs": [ddl for group in groups if not group.get("unsynced") for ddl in group.get("DDLs", ())],
        "unresolvedGroups": [_group_json(group) for group in groups],
        "synced": _is_synced(subtask, run, relay),
        # "local": from the source's relay log; "remote": pulled for this task.
        "binlogType": str(shown.get("binlog_type", "local")),
        # None: unknown.
        "secondsBehindMaster": None if lag is None else str(round(lag)),
        "blockDDLOwner": "",
        "conflictMsg": "",
        "totalRows": _count(shown, "changes_applied"),
        "totalRps": _count(shown, "total_rps"),
        "recentRps": _count(shown, "recent_rps"),
        "ioTotalBytes": _count(shown, "bytes"),
        "dumpIOTotalBytes": "0",
        # Not in DM: transactions of the log; waiting rows of merged tables; the time left at this rate.
        "totalTransactions": _count(shown, "transactions"),
        "contested_rows": int(shown.get("contested_rows", 0)),
        # Not in DM: how long rows have been held (None: none are, or unknown), and the size of the log kept for them.
        "heldBackSeconds": None if held_for is None else round(held_for),
        "heldBackBytes": shown.get("held_back_bytes", 0),
        # Not in DM: whether safe mode is on, why, until where; exit_point: up to where rows may be applied already;
        # the overwritten collisions since the start of the run, by table.
        "safeMode": shown.get("safe_mode") or {},
        "remainingSeconds": shown.get("seconds_left"),
        # Not in DM: whether the requested end is after the source's newest file, and may never be reached.
        "goalFar": str(shown.get("goal_far", "")),
    }


def _is_synced(subtask: SubtaskStatus, run: Run | None, relay: RelayStatus | None) -> bool:
    """Return True if the target has all that the source had written seconds ago: as the sync reports or, if none works,
    by the end of the source's log that the relay reports. False if the relay does not know the end either.
    """
    if run is not None and lives(run) and (caught_up := progress_of(subtask, run).get("caught_up")) is not None:
        return bool(caught_up)
    applied, end = subtask.applied, relay.master if relay is not None and sees_source(relay) else None
    if applied is None or end is None:
        return False
    return (applied.file, applied.position) == (end.file, end.position) and not holds_back(subtask, run)


def holds_back(subtask: SubtaskStatus, run: Run | None) -> bool:
    """Return True if rows before `applied` may be missing in the target. `run`: the task's last load or sync.

    A sync that has not checked for held-back rows yet may hold some, as contested rows do not need the log. Without a
    sync, rows are held back if the log is needed from before `applied`.
    """
    shown = progress_of(subtask, run)
    groups = shown.get("unresolved_groups")
    if groups is not None:
        return bool(groups or shown.get("contested_rows"))
    if run is not None and run.app == "incremental_sync":
        return True
    return subtask.needed is not None and subtask.needed != subtask.applied


def _group_json(group: Json) -> Json:
    """Return one of DM's unresolvedGroups. Not in DM: `waits`, the reason, and `since`, the time of the first DDL."""
    since = group.get("since")
    shown = None if since is None else datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
    return {**group, "since": shown}


def aged(subtask: SubtaskStatus, run: Run | None, key: str) -> float | None:
    """Return an age in the run's progress, in seconds, plus the time since the run ended; None if unknown."""
    reported = progress_of(subtask, run).get(key)
    if reported is None or run is None:
        return None
    return float(reported) + (0.0 if lives(run) else run.heartbeat_age_seconds)


def _count(progress: Json, key: str) -> str:
    """Return a 64-bit number in DM's JSON format.

    >>> _count({"total_rps": 12.7}, "total_rps"), _count({}, "total_rps")
    ('12', '0')
    """
    return str(int(progress.get(key) or 0))


def progress_of(subtask: SubtaskStatus, run: Run | None) -> Json:
    """Return the run's progress of this source."""
    of_source = run.progress.get(subtask.source) if run is not None else None
    return of_source if isinstance(of_source, dict) else {}


def relay_stage(relay: RelayStatus) -> Stage:
    """Return the stage that the relay reports; Stopped without reports, unless an error had paused it, as in DM."""
    silent = age_of(relay) > GONE_SECONDS
    ended_by_error = relay.stage is Stage.PAUSED and relay.error is not None
    return Stage.STOPPED if silent and relay.stage is not Stage.FINISHED and not ended_by_error else relay.stage


def subtask_stage(subtask: SubtaskStatus, run: Run | None) -> Stage:
    """Return the stage that the subtask reports; Paused if its run ended with an error, as a load that fails does;
    Stopped if its run, working or waiting, no longer reports.
    """
    if run is not None and (subtask.stage, run.stage) == (Stage.RUNNING, Stage.PAUSED):
        if subtask.source in (run.progress or (subtask.source,)):  # otherwise it is a run of other sources
            return Stage.PAUSED
    silent = run is None or _is_gone(run)
    works = subtask.stage is Stage.RUNNING or _resumes_in(subtask) is not None
    return Stage.STOPPED if works and silent else subtask.stage


def _resumes_in(subtask: SubtaskStatus) -> float | None:
    seconds = (subtask.error or {}).get(RESUMES_IN_SECONDS)
    return None if seconds is None else float(seconds)


def subtask_error(subtask: SubtaskStatus, run: Run | None) -> Json | None:
    """Return the error that paused the subtask: its own error or, if the failure was not in the sync, the run's."""
    if subtask_stage(subtask, run) is not Stage.PAUSED:
        return None
    return subtask.error or (run.error if run is not None else None)


def binlog(location: Location | None) -> str:
    """Return a position in DM's format.

    >>> binlog(Location("mysql-bin.000005", 916))
    '(mysql-bin.000005, 916)'
    """
    return f"({location.file}, {location.position})" if location else ""


def _place(name: str, location: Location | None) -> dict[str, str]:
    return {name: binlog(location), f"{name}Gtid": location.gtid_set if location else ""}


def _result(error: Json | None, *, canceled: bool = False) -> Json | None:
    """Return DM's result after an error or a user's pause; None without either."""
    if not error and not canceled:
        return None
    return {"isCanceled": not error, "errors": [dm_error(error)] if error else [], "detail": None}


def dm_error(error: Json) -> Json:
    """Return an error (of `errors.describe`) with DM's keys.

    >>> list(dm_error({"ErrCode": "DM-4003"}))
    ['ErrCode', 'ErrClass', 'ErrScope', 'ErrLevel', 'Message', 'RawCause', 'Workaround']
    """
    level = "medium" if error.get("Reaction") == Reaction.RETRY.value else "high"
    named = {key: error.get(key, "") for key in ("ErrCode", "ErrClass", "ErrScope")}
    rest = {"Message": error.get("Message", ""), "RawCause": "", "Workaround": error.get("Workaround", "")}
    return {**named, "ErrLevel": level, **rest}
