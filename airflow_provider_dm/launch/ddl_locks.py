"""DDL locks of merged tables: the JSON of DM's shard-ddl-lock, and the decisions of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_provider_dm.engine.meta.records import Json as Stored
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.errors import LockRefuses
from airflow_provider_dm.engine.shard.lock import Action, Lock, Phase, with_decision
from airflow_provider_dm.engine.sync.progress import duration

Json = dict[str, Any]
DIFFERING: Final = (Phase.CONFLICT, Phase.DIFFERS)
"""The phases in which the DDL of the sources differs: a user has to decide."""


def stored_locks(store: MetaStore, task: str | None = None, sources: Sequence[str] = ()) -> list[tuple[Lock, float]]:
    """Return the locks of a task (None: all tasks) and its sources (none given: all), each with its age in seconds."""
    locks = [(Lock.from_json(body), age) for body, age in store.ddl_locks(task)]
    return [(lock, age) for lock, age in locks if not sources or set(sources) & set(lock.expected)]


def locks_document(store: MetaStore, task: str | None = None, sources: Sequence[str] = ()) -> Json:
    """Return DM's response to show-ddl-locks."""
    locks = [lock_json(lock, age) for lock, age in stored_locks(store, task, sources)]
    return {"result": True, "msg": "" if locks else "no DDL lock exists", "locks": locks}


def lock_json(lock: Lock, age: float) -> Json:
    """Return one lock with DM's keys; the keys after `unsynced` are additions."""
    sides = {one.source: list(one.ddls) for one in lock.infos} if lock.phase in DIFFERING else {}
    return {
        "ID": lock.id,
        "task": lock.task,
        "mode": "pessimistic",
        "owner": lock.owner,
        "DDLs": list(lock.ddls),
        "synced": lock.synced,
        "unsynced": lock.unsynced,
        "number": lock.number,
        "phase": lock.phase.value,
        "decision": lock.decision.value if lock.decision else "",
        "conflict": sides,
        "ageSeconds": round(age, 1),
    }


def overdue_locks(store: MetaStore, task: str | None, seconds: float) -> list[tuple[Lock, float]]:
    """Return the locks that need attention: those in conflict, and those from this age on."""
    return [(lock, age) for lock, age in stored_locks(store, task) if lock.phase in DIFFERING or age >= seconds]


def lock_text(lock: Lock, age: float) -> str:
    """Return one line about a lock, for a message."""
    return f"DDL number {lock.number} of {lock.target} ({lock.id}), {duration(age)} old, {_phase_text(lock)}"


def _phase_text(lock: Lock) -> str:
    match lock.phase:
        case Phase.CONFLICT | Phase.DIFFERS:
            sides = (f"{info.source} has executed {', '.join(info.ddls)}" for info in lock.infos)
            return f"is different: {'; '.join(sides)}"
        case Phase.WAITING:
            return f"waits for {', '.join(lock.unsynced)}"
        case Phase.EXEC:
            return f"waits for {lock.owner} to execute it"
        case Phase.SKIP:
            left = [*(info.source for info in lock.infos if not info.done), *lock.unsynced]
            return f"has been executed, and waits for {', '.join(left)} to continue"


def unlock(
    store: MetaStore, lock_id: str, *, owner: str | None, action: Action, force: bool, number: int | None = None
) -> Lock:
    """Decide about the oldest DDL of the lock with this id. Return the lock with the decision.

    `number`: the DDL that the user saw (None: any). All DDL of a table have the same lock id, and the DDL that was
    shown may have been resolved since; the decision is then not applied to the next DDL. The owner carries out
    the decision when it reads the lock: in the current run, or in the next one. Raises LockRefuses.
    """
    locks = [lock for lock, _ in stored_locks(store) if lock.id == lock_id]
    if not locks:
        raise LockRefuses(lock_id, "no lock has this id")
    pending = [lock for lock in locks if lock.phase is not Phase.SKIP]
    if not pending:
        raise LockRefuses(lock_id, "its DDL has been executed")
    oldest = min(pending, key=lambda lock: lock.number)
    if number is not None and number != oldest.number:
        raise LockRefuses(
            lock_id, f"the decision is about its DDL number {number}, but number {oldest.number} is pending now"
        )

    def decided(stored: Stored | None) -> Stored:
        if stored is None:
            raise LockRefuses(lock_id, "it was resolved in the meantime")
        return with_decision(Lock.from_json(stored), action, owner, force=force).to_json()

    changed = store.change_ddl_lock(oldest.task, lock_id, oldest.number, decided)
    assert changed is not None
    return Lock.from_json(changed)


def forget_locks(store: MetaStore, task: str) -> None:
    """Remove all locks of a task without sources, including locks of sources that were removed before."""
    for lock, _ in stored_locks(store, task):
        store.change_ddl_lock(task, lock.id, lock.number, lambda _found: None)
