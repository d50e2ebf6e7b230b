"""What the metadata DB knows of tasks, sources and relays, in the shape that DM's query-status gives it.

For `dmctl query-status` and for every page that shows the same. DM's "worker" is the host of the process that works; a
status whose heartbeat is old is shown as Stopped, since nobody is left to say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.model import RESUMES_IN_SECONDS, RelayStatus, Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import has_ended
from airflow_provider_dm.engine.relay.health import GONE_SECONDS, age_of
from airflow_provider_dm.engine.shard.lock import Lock
from airflow_provider_dm.launch.ddl_locks import locks_of

SILENT_SECONDS: Final = 30.0
"""A run's heartbeat comes every few seconds; one that is silent for longer is gone."""

Json = dict[str, Any]


def status_of(store: MetaStore, task: str | None = None, sources: Sequence[str] = ()) -> Json:
    """Return DM's document: of every task, of one task's sources, or of these sources."""
    return Known(store).status(task, sources)


class Known:
    """What the metadata DB knows, each part read once, when it is asked for: the value of one answer."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self._runs: dict[str, Run | None] = {}

    @cached_property
    def subtasks(self) -> list[SubtaskStatus]:
        return self._store.list_subtasks()

    @cached_property
    def relays(self) -> dict[str, RelayStatus]:
        """The relays by source."""
        return {one.source: one for one in self._store.list_relays()}

    @cached_property
    def locks(self) -> list[tuple[Lock, float]]:
        """The DDL locks of all tasks, with their ages in seconds."""
        return locks_of(self._store)

    def last_run(self, task: str) -> Run | None:
        """Return the newest run of a task that loads or syncs."""
        if task not in self._runs:
            self._runs[task] = last_run(self._store, task)
        return self._runs[task]

    def status(self, task: str | None = None, sources: Sequence[str] = ()) -> Json:
        """Return DM's document: of every task, of one task's sources, or of these sources."""
        if task or sources:
            return self._of_sources(task, sources)
        return {"result": True, "msg": "", "tasks": self._tasks()}

    def _tasks(self) -> list[Json]:
        answer = []
        for task, group in groupby(self.subtasks, key=lambda subtask: subtask.task):
            subtasks = list(group)
            sources = [one.source for one in subtasks]
            relays = [self.relays[one] for one in sources if one in self.relays]
            status = task_status(subtasks, relays, self.last_run(task))
            answer.append({"taskName": task, "taskStatus": status, "sources": sources})
        return answer

    def _of_sources(self, task: str | None, sources: Sequence[str]) -> Json:
        known = self.subtasks
        subtasks = [one for one in known if task in (None, one.task) and (not sources or one.source in sources)]
        if task is not None and not any(one.task == task for one in known):
            return {"result": False, "msg": f"task {task} has no source or not exist", "sources": []}
        found: list[Json] = []
        for name in sources or dict.fromkeys(one.source for one in subtasks):
            relay = self.relays.get(name)
            if relay is None and not any(one.source == name for one in known):
                found.append({"result": False, "msg": f"source {name} is not known: no run has named it"})
                continue
            of_source = [(one, self.last_run(one.task)) for one in subtasks if one.source == name]
            found.append(source_status(name, relay, of_source, self._unresolved(name)))
        unknown = [str(one["msg"]) for one in found if not one["result"]]
        return {"result": not unknown, "msg": "; ".join(unknown), "sources": found}

    def _unresolved(self, source: str) -> dict[str, str]:
        """Return by task the lock that a source waits for: the oldest, of several."""
        found: dict[str, str] = {}
        for lock, _ in self.locks:
            info = lock.info(source)
            if info is not None and not info.done:
                found.setdefault(lock.task, lock.id)
        return found


def last_run(store: MetaStore, task: str) -> Run | None:
    """Return the newest run of a task that loads or syncs. A comparison may run beside it, and says nothing of it."""
    return next(iter(store.list_runs(task=task, but="verify", limit=1)), None)


# Shaping


def lives(run: Run) -> bool:
    """Return True if the process of a run works: it reported lately and is not known to have ended."""
    return run.stage is Stage.RUNNING and not _is_gone(run)


def _is_gone(run: Run) -> bool:
    """Return True if a run has not reported for a while, or its process died on this machine without an outcome."""
    died = run.stage is Stage.RUNNING and has_ended(run.holder.process)
    return died or run.heartbeat_age_seconds > SILENT_SECONDS


def host_of(run: Run | None) -> str:
    """Return DM's worker: the host of the process that works, or has worked last."""
    return run.holder.host if run is not None else ""


def task_status(subtasks: Iterable[SubtaskStatus], relays: Iterable[RelayStatus], last_run: Run | None) -> str:
    """Return one word, or DM's sentence about what is wrong."""
    known = list(subtasks)
    stages = {subtask_stage(one, last_run) for one in known}
    if any(subtask_error(one, last_run) for one in known):
        return "Error - Some error occurred in subtask. Please run `query-status [task-name]` to get more details."
    if any(one.unit is Unit.SYNC for one in known) and stages == {Stage.RUNNING}:
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
    """Return one element of `sources`. `locks`: by task the id of the DDL lock that the source waits for."""
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
    """Return DM's subTaskStatus, as far as it is known. `lock_id`: of the DDL lock that it waits for."""
    stage = subtask_stage(subtask, run)
    status: Json = {
        "name": subtask.task,
        "stage": stage.value,
        "unit": subtask.unit.value.capitalize(),
        "result": _result(subtask_error(subtask, run), canceled=stage is subtask.desired is Stage.PAUSED),
        "unresolvedDDLLockID": lock_id,
        # Ours: how long the sync waits, from when it was paused, before it goes on by itself; None: it does not.
        "resumesInSeconds": _resumes_in(subtask) if stage is Stage.PAUSED else None,
    }
    match subtask.unit:
        case Unit.SYNC:
            status["sync"] = _sync_json(subtask, run, relay)
        case Unit.LOAD:
            status[subtask.unit.value] = dict(run.progress) if run is not None else {}
        case Unit.PRECHECK | Unit.RELAY | Unit.VERIFY:
            pass
    return status


def _sync_json(subtask: SubtaskStatus, run: Run | None, relay: RelayStatus | None) -> Json:
    """Return DM's status of the sync unit. Counts are the run's own; those of 64 bits are text, as in DM's JSON.

    What its unit does not have yet is empty, as DM has it where there is nothing to say.
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
        "synced": applied is not None
        and master is not None
        and (applied.file, applied.position) == (master.file, master.position)
        and not holds_back(subtask, run),
        # "local": from the source's relay log; "remote": pulled for this task.
        "binlogType": str(shown.get("binlog_type", "local")),
        # None: nobody knows.
        "secondsBehindMaster": None if lag is None else str(round(lag)),
        "blockDDLOwner": "",
        "conflictMsg": "",
        "totalRows": _count(shown, "changes_applied"),
        "totalRps": _count(shown, "total_rps"),
        "recentRps": _count(shown, "recent_rps"),
        "ioTotalBytes": _count(shown, "bytes"),
        "dumpIOTotalBytes": "0",
        # Ours: transactions of the log; rows that wait for their places in merged tables; for how long at this pace.
        "totalTransactions": _count(shown, "transactions"),
        "contested_rows": int(shown.get("contested_rows", 0)),
        # Ours: for how long rows are held back (None: no row is, or unknown), and how much of the log is kept for them.
        "heldBackSeconds": None if held_for is None else round(held_for),
        "heldBackBytes": shown.get("held_back_bytes", 0),
        # Ours: whether safe mode is on, why, until where; exit_point: up to where rows may be applied already; what
        # collided and was written over since the run began, by table.
        "safeMode": shown.get("safe_mode") or {},
        "remainingSeconds": shown.get("seconds_left"),
        # Ours: that the end asked for lies behind the source's newest file, and may never come.
        "goalFar": str(shown.get("goal_far", "")),
    }


def holds_back(subtask: SubtaskStatus, run: Run | None) -> bool:
    """Return True if rows before `applied` may be missing in the target. `run`: the task's last that loads or syncs.

    A sync that has not looked for held rows yet may hold some: rows that wait for their places need nothing of the log.
    Without a sync the log that the source still needs decides.
    """
    shown = progress_of(subtask, run)
    groups = shown.get("unresolved_groups")
    if groups is not None:
        return bool(groups or shown.get("contested_rows"))
    if run is not None and run.app == "incremental_sync":
        return True
    return subtask.needed is not None and subtask.needed != subtask.applied


def _group_json(group: Json) -> Json:
    """Return one of DM's unresolvedGroups. Ours are `waits`: the reason, and `since`: the time of the first DDL."""
    since = group.get("since")
    shown = None if since is None else datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
    return {**group, "since": shown}


def aged(subtask: SubtaskStatus, run: Run | None, key: str) -> float | None:
    """Return an age of the run's progress, in seconds, and the time since then if the run has ended; None: unknown."""
    said = progress_of(subtask, run).get(key)
    if said is None or run is None:
        return None
    return float(said) + (0.0 if lives(run) else run.heartbeat_age_seconds)


def _count(progress: Json, key: str) -> str:
    """Return a number as DM's JSON has those of 64 bits.

    >>> _count({"total_rps": 12.7}, "total_rps"), _count({}, "total_rps")
    ('12', '0')
    """
    return str(int(progress.get(key) or 0))


def progress_of(subtask: SubtaskStatus, run: Run | None) -> Json:
    """Return what the run shows of this source."""
    of_source = run.progress.get(subtask.source) if run is not None else None
    return of_source if isinstance(of_source, dict) else {}


def relay_stage(relay: RelayStatus) -> Stage:
    """Return the stage that the relay reports; Stopped once it is silent, unless an error had paused it, as in DM."""
    silent = age_of(relay) > GONE_SECONDS
    ended_by_error = relay.stage is Stage.PAUSED and relay.error is not None
    return Stage.STOPPED if silent and relay.stage is not Stage.FINISHED and not ended_by_error else relay.stage


def subtask_stage(subtask: SubtaskStatus, run: Run | None) -> Stage:
    """Return the stage that the subtask reports; Stopped where its run, which works or waits to go on, is silent."""
    silent = run is None or _is_gone(run)
    works = subtask.stage is Stage.RUNNING or _resumes_in(subtask) is not None
    return Stage.STOPPED if works and silent else subtask.stage


def _resumes_in(subtask: SubtaskStatus) -> float | None:
    found = (subtask.error or {}).get(RESUMES_IN_SECONDS)
    return None if found is None else float(found)


def subtask_error(subtask: SubtaskStatus, run: Run | None) -> Json | None:
    """Return what has paused the subtask: its own error, or, where it was not the sync that failed, that of the run."""
    if subtask_stage(subtask, run) is not Stage.PAUSED:
        return None
    return subtask.error or (run.error if run is not None else None)


def binlog(location: Location | None) -> str:
    """Return a position as DM writes it.

    >>> binlog(Location("mysql-bin.000005", 916))
    '(mysql-bin.000005, 916)'
    """
    return f"({location.file}, {location.position})" if location else ""


def _place(name: str, location: Location | None) -> dict[str, str]:
    return {name: binlog(location), f"{name}Gtid": location.gtid_set if location else ""}


def _result(error: Json | None, *, canceled: bool = False) -> Json | None:
    """Return DM's result of what an error has ended, or a person has paused; None: neither."""
    if not error and not canceled:
        return None
    return {"isCanceled": not error, "errors": [dm_error(error)] if error else [], "detail": None}


def dm_error(error: Json) -> Json:
    """Return an error (as `errors.describe` makes it) with DM's keys.

    >>> list(dm_error({"ErrCode": "DM-4003"}))
    ['ErrCode', 'ErrClass', 'ErrScope', 'ErrLevel', 'Message', 'RawCause', 'Workaround']
    """
    level = "medium" if error.get("Reaction") == Reaction.RETRY.value else "high"
    said = {key: error.get(key, "") for key in ("ErrCode", "ErrClass", "ErrScope")}
    rest = {"Message": error.get("Message", ""), "RawCause": "", "Workaround": error.get("Workaround", "")}
    return {**said, "ErrLevel": level, **rest}
