"""How DDL of merged tables stands, as the metadata DB knows it: the rule by which sensor and trigger decide.

Two levels: the locks, by which sources wait for each other, and the groups in which shards of one source do. Of a group
there is no lock until all of them have made the DDL; what the last sync of a source has said of it counts.

    standing    when
    Differs     two sources have reported different DDL and nobody has decided, a source has reported other DDL than was
                run without it, or a source has stopped as its shards' DDL is different or out of order
    Waits       a lock is not resolved, a source holds rows back, or nobody has said that it does not: no run yet,
                one that was killed (it may have met a DDL since), or a load
    Resolved    otherwise

`standing_among` is pure. What is known may be two seconds old, the time between two beats of a sync.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.model import Run, Stage, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.group import ShardDdlOutOfSequence
from airflow_provider_dm.engine.shard.lock import Lock, Phase
from airflow_provider_dm.engine.sync.progress import duration
from airflow_provider_dm.launch.ddl_locks import lock_json, locks_of
from airflow_provider_dm.launch.status import lives

Json = dict[str, Any]


@dataclass(frozen=True)
class Resolved:
    """The standing that nothing waits."""


@dataclass(frozen=True)
class Waits:
    """The standing that shards or sources are missing. `why` is for a log, `locks` what `dmctl` shows of them."""

    why: str
    locks: tuple[Json, ...] = ()


@dataclass(frozen=True)
class Differs:
    """The standing that a person has to decide: `why` shows both sides."""

    why: str
    locks: tuple[Json, ...] = ()


Standing = Resolved | Waits | Differs


@dataclass(frozen=True)
class Known:
    """Knowledge of the metadata DB about one task. `runs`: the newest first."""

    task: str
    locks: Sequence[tuple[Lock, float]]
    subtasks: Sequence[SubtaskStatus]
    runs: Sequence[Run]


def standing_in(store: MetaStore, task: str | None, lock_id: str | None) -> Standing:
    """Return how the DDL of a task's merged tables stands, or of that with this lock id. Raises what reading raises."""
    name = task or _task_of(store, lock_id or "")
    if name is None:
        return Waits(f"the metadata DB knows no task that {lock_id} may be of")
    # The locks first: whoever has reported shows what it holds back as well, until the lock is gone.
    return standing_among(
        Known(name, locks_of(store, name), store.list_subtasks(task=name), store.list_runs(task=name)),
        lock_id,
        now=time.time(),
    )


def standing_among(known: Known, lock_id: str | None, *, now: float) -> Standing:
    """Return how it stands. `lock_id` None: all merged tables. `now`: in seconds since 1970."""
    open_locks = [(lock, age) for lock, age in known.locks if lock_id in (None, lock.id) and _is_waited_for(lock)]
    shown = tuple(lock_json(lock, age) for lock, age in open_locks)
    differing = (Phase.CONFLICT, Phase.DIFFERS)
    conflicts = [_said_of(lock, age) for lock, age in open_locks if lock.phase in differing]
    conflicts += _out_of_order(known.subtasks, lock_id)
    if conflicts:
        return Differs("; ".join(conflicts), shown)
    if not known.subtasks:
        return Waits(f"the metadata DB knows no sync of task {known.task} yet", shown)
    groups, silent = _groups(known)
    whys = [_said_of(lock, age) for lock, age in open_locks]
    for source, group in groups:
        if lock_id in (None, f"{known.task}-{group['target']}"):
            whys.append(_said_of_group(source, group, now))
    if silent:
        whys.append(f"{', '.join(silent)}: no sync has said yet whether rows are held back, or the last was killed")
    if not whys:
        return Resolved()
    return Waits("; ".join((*whys, *_nobody_works(known))), shown)


def _task_of(store: MetaStore, lock_id: str) -> str | None:
    """Return the task that a lock id begins with."""
    names = {one.task for one in store.list_subtasks()}
    return max((name for name in names if lock_id.startswith(f"{name}-`")), key=len, default=None)


def _is_waited_for(lock: Lock) -> bool:
    """Tell whether somebody waits: where a DDL was run before all had come to it, who comes late goes on by itself."""
    return not lock.executed or any(not one.done for one in lock.infos)


def _said_of(lock: Lock, age: float) -> str:
    return f"DDL number {lock.number} of {lock.target} ({lock.id}), {duration(age)} old, {_how(lock)}"


def _how(lock: Lock) -> str:
    match lock.phase:
        case Phase.CONFLICT | Phase.DIFFERS:
            sides = (f"{one.source} has made {', '.join(one.ddls)}" for one in lock.infos)
            return f"is different: {'; '.join(sides)}"
        case Phase.WAITING:
            return f"waits for {', '.join(lock.unsynced)}"
        case Phase.EXEC:
            return f"waits for {lock.owner} to run it"
        case Phase.SKIP:
            left = (one.source for one in lock.infos if not one.done)
            return f"has been run, and waits for {', '.join(left)} to go on"


def _said_of_group(source: str, group: Mapping[str, Any], now: float) -> str:
    since = group.get("since")
    age = "" if since is None else f", {duration(max(0.0, now - since))} old,"
    missing = ", ".join(group.get("unsynced", ()))
    why = f"for its shards {missing}" if missing else group.get("waits") or "to be agreed on"
    return f"DDL of {group['target']} in {source}{age} waits {why}"


def _groups(known: Known) -> tuple[list[tuple[str, Json]], list[str]]:
    """Return what each source holds back, and the sources of which no sync has said anything."""
    found: list[tuple[str, Json]] = []
    silent = []
    for source in (one.source for one in known.subtasks):
        said = next(_of_source(known.runs, source), None)
        if said is None:
            silent.append(source)
        else:
            found += [(source, group) for group in said]
    return found, silent


def _of_source(runs: Iterable[Run], source: str) -> Iterator[list[Json]]:
    """Yield what runs said of a source's groups, the newest first: one that begins has not looked yet.

    What a run has said that was killed may be from before the DDL that it met last; what was said before a load is of
    another life of the task. So nothing that is older counts then either.
    """
    for run in runs:
        said = run.progress.get(source)
        # However a comparison ends, it holds nothing back.
        may_hold = run.app != "verify" and (not run.progress or source in run.progress)
        killed = run.stage is Stage.RUNNING and not lives(run)
        if (may_hold and killed) or (isinstance(said, dict) and said.get("unit") == "load"):
            return
        groups = said.get("unresolved_groups") if isinstance(said, dict) else None
        if groups is not None:
            yield groups


def _out_of_order(subtasks: Iterable[SubtaskStatus], lock_id: str | None) -> list[str]:
    """Return what has stopped sources whose own shards have made different DDL."""
    found = []
    for one in subtasks:
        if one.stage is Stage.PAUSED and one.error is not None:
            error = ReportedError.read(one.error)
            of_lock = lock_id is None or f" in the shards of {_table_of(lock_id)}. " in error.message
            if error.code == ShardDdlOutOfSequence.code and of_lock:
                found.append(str(error))
    return found


def _table_of(lock_id: str) -> str:
    """Return the merged table as messages name it.

    >>> _table_of("a-task-`shop`.`orders`")
    'shop.orders'
    """
    schema, _, table = lock_id[lock_id.index("-`") + 2 :].rstrip("`").partition("`.`")
    return f"{schema}.{table}".replace("``", "`")


def _nobody_works(known: Known) -> list[str]:
    return (
        [] if any(map(lives, known.runs)) else ["no sync of the task is running now, and its next run goes on with it"]
    )
