"""The state of DDL on merged tables, according to the metadata DB: the rule of the sensor and its trigger.

There are two levels: the locks, by which sources wait for each other, and the groups, by which shards of one source do.
A group has no lock until all of its shards have executed the DDL; until then the progress of the source's last sync
counts.

    state       condition
    Broken      two sources have reported different DDL without a decision, or a source has reported other DDL than was
                executed without it, or a source has stopped because its shards' DDL differs or is out of order
    NotYet      a lock is pending, a source holds rows, or it is unknown whether it does: there was no run yet, or it
                was killed (it may have read a DDL since), or it was a load
    Met         otherwise

`ddl_state_of` is pure. The data may be two seconds old, the interval between two heartbeats of a sync.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.records import Run, Stage, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.errors import ShardDdlOutOfSequence
from airflow_provider_dm.engine.shard.lock import Lock
from airflow_provider_dm.engine.sync.progress import duration
from airflow_provider_dm.launch.awaited import Awaited, Broken, Met, NotYet
from airflow_provider_dm.launch.ddl_locks import DIFFERING, lock_json, lock_text, stored_locks
from airflow_provider_dm.launch.status import lives

Json = dict[str, Any]


@dataclass(frozen=True)
class TaskRecords:
    """The metadata DB's data about one task. `runs`: the newest first."""

    task: str
    locks: Sequence[tuple[Lock, float]]
    subtasks: Sequence[SubtaskStatus]
    runs: Sequence[Run]


def ddl_state_in(store: MetaStore, task: str | None, lock_id: str | None) -> Awaited:
    """Return the state of DDL on a task's merged tables, or on the one with this lock id. Raises errors of reading."""
    name = task or _task_of(store, lock_id or "")
    if name is None:
        return NotYet(f"the metadata DB has no task to which {lock_id} could belong")
    # Locks are read first: the groups of a source that has reported remain visible until its lock is removed.
    return ddl_state_of(
        TaskRecords(name, stored_locks(store, name), store.list_subtasks(task=name), store.list_runs(task=name)),
        lock_id,
        now=time.time(),
    )


def ddl_state_of(known: TaskRecords, lock_id: str | None, *, now: float) -> Awaited:
    """Return the state. `lock_id` None: all merged tables. `now`: in seconds since 1970."""
    open_locks = [(lock, age) for lock, age in known.locks if lock_id in (None, lock.id) and _is_waited_for(lock)]
    shown = tuple(lock_json(lock, age) for lock, age in open_locks)
    conflicts = [lock_text(lock, age) for lock, age in open_locks if lock.phase in DIFFERING]
    conflicts += _out_of_order(known.subtasks, lock_id)
    if conflicts:
        return Broken("; ".join(conflicts), shown)
    if not known.subtasks:
        return NotYet(f"the metadata DB has no sync of task {known.task} yet", shown)
    groups, silent = _groups(known)
    whys = [lock_text(lock, age) for lock, age in open_locks]
    for source, group in groups:
        if lock_id in (None, f"{known.task}-{group['target']}"):
            whys.append(_group_text(source, group, now))
    if silent:
        whys.append(
            f"{', '.join(silent)}: no sync has reported yet whether rows are held back, or the last one was killed"
        )
    if not whys:
        return Met()
    if not any(map(lives, known.runs)):
        whys.append("no sync of the task is running; the next run continues with it")
    return NotYet("; ".join(whys), shown)


def _task_of(store: MetaStore, lock_id: str) -> str | None:
    """Return the task whose name the lock id begins with."""
    names = {subtask.task for subtask in store.list_subtasks()}
    return max((name for name in names if lock_id.startswith(f"{name}-`")), key=len, default=None)


def _is_waited_for(lock: Lock) -> bool:
    """Return True if a source waits. If a DDL was executed before all sources reported it, late sources do not wait."""
    return not lock.executed or any(not info.done for info in lock.infos)


def _group_text(source: str, group: Mapping[str, Any], now: float) -> str:
    since = group.get("since")
    age = "" if since is None else f", {duration(max(0.0, now - since))} old,"
    missing = ", ".join(group.get("unsynced", ()))
    why = f"for its shards {missing}" if missing else group.get("waits") or "for the agreement"
    return f"DDL of {group['target']} in {source}{age} waits {why}"


def _groups(known: TaskRecords) -> tuple[list[tuple[str, Json]], list[str]]:
    """Return the held groups of each source, and the sources of which no sync has reported them."""
    found: list[tuple[str, Json]] = []
    silent = []
    for source in (subtask.source for subtask in known.subtasks):
        groups = next(_of_source(known.runs, source), None)
        if groups is None:
            silent.append(source)
        else:
            found += [(source, group) for group in groups]
    return found, silent


def _of_source(runs: Iterable[Run], source: str) -> Iterator[list[Json]]:
    """Yield a source's groups as runs reported them, the newest first; a run that begins has not reported yet.

    The report of a killed run may be older than the last DDL that it read; a report before a load is of an
    earlier start of the task. So reports that are older than these are not used.
    """
    for run in runs:
        reported = run.progress.get(source)
        # A comparison never holds rows, however it ends.
        may_hold = run.app != "verify" and (not run.progress or source in run.progress)
        killed = run.stage is Stage.RUNNING and not lives(run)
        if (may_hold and killed) or (isinstance(reported, dict) and reported.get("unit") == "load"):
            return
        groups = reported.get("unresolved_groups") if isinstance(reported, dict) else None
        if groups is not None:
            yield groups


def _out_of_order(subtasks: Iterable[SubtaskStatus], lock_id: str | None) -> list[str]:
    """Return the errors that have stopped sources because their own shards have executed different DDL."""
    tables = []
    for subtask in subtasks:
        if subtask.stage is Stage.PAUSED and subtask.error is not None:
            error = ReportedError.read(subtask.error)
            of_lock = lock_id is None or f" in the shards of {_table_of(lock_id)}. " in error.message
            if error.code == ShardDdlOutOfSequence.code and of_lock:
                tables.append(str(error))
    return tables


def _table_of(lock_id: str) -> str:
    """Return the merged table in the notation of messages.

    >>> _table_of("a-task-`shop`.`orders`")
    'shop.orders'
    """
    schema, _, table = lock_id[lock_id.index("-`") + 2 :].rstrip("`").partition("`.`")
    return f"{schema}.{table}".replace("``", "`")
