"""DDL locks of merged tables for people: the documents of DM's shard-ddl-lock, and what a person decides about one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_dm.engine.meta.model import Json as Stored
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.lock import Action, Lock, LockRefuses, Phase, with_decision, withdrawn

Json = dict[str, Any]


def locks_of(store: MetaStore, task: str | None = None, sources: Sequence[str] = ()) -> list[tuple[Lock, float]]:
    """Return a task's locks (None: of all) in which one of the sources (none: any) takes part; ages in seconds."""
    found = [(Lock.from_json(body), age) for body, age in store.ddl_locks(task)]
    return [(lock, age) for lock, age in found if not sources or set(sources) & set(lock.expected)]


def locks_document(store: MetaStore, task: str | None = None, sources: Sequence[str] = ()) -> Json:
    """Return DM's answer to show-ddl-locks."""
    found = [lock_json(lock, age) for lock, age in locks_of(store, task, sources)]
    return {"result": True, "msg": "" if found else "no DDL lock exists", "locks": found}


def lock_json(lock: Lock, age: float) -> Json:
    """Return one lock with DM's keys; those behind `unsynced` are ours."""
    sides = {one.source: list(one.ddls) for one in lock.infos} if lock.phase in (Phase.CONFLICT, Phase.DIFFERS) else {}
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


def unlock(
    store: MetaStore, lock_id: str, *, owner: str | None, action: Action, force: bool, number: int | None = None
) -> Lock:
    """Decide what is done about the oldest DDL of the lock with this id. Return the lock as it is then.

    `number`: the DDL that was shown to whoever decides (None: nobody says). All DDL of a table have one id, and the one
    that was shown may have been resolved since; the decision is not about the next one then.
    The owner's next look at it does it: a run that is under way, or the next one. Raises LockRefuses.
    """
    there = [lock for lock, _ in locks_of(store) if lock.id == lock_id]
    if not there:
        raise LockRefuses(lock_id, "there is no lock with this id")
    open_ones = [lock for lock in there if lock.phase is not Phase.SKIP]
    if not open_ones:
        raise LockRefuses(lock_id, "its DDL has been run")
    meant = min(open_ones, key=lambda lock: lock.number)
    if number is not None and number != meant.number:
        raise LockRefuses(
            lock_id, f"the decision is about its DDL number {number}, and number {meant.number} waits now"
        )

    def how(found: Stored | None) -> Stored:
        if found is None:
            raise LockRefuses(lock_id, "it was resolved meanwhile")
        return with_decision(Lock.from_json(found), action, owner, force=force).to_json()

    changed = store.change_ddl_lock(meant.task, lock_id, meant.number, how)
    assert changed is not None
    return Lock.from_json(changed)


def forget_locks(store: MetaStore, task: str) -> None:
    """Remove all locks of a task of which no source is left, also those of sources that had left it before."""
    for lock, _ in locks_of(store, task):
        store.change_ddl_lock(task, lock.id, lock.number, lambda _found: None)


def withdraw(store: MetaStore, task: str, source: str) -> None:
    """Take back what a source has reported, as its subtask is forgotten: it reports again if it is run again."""

    def how(found: Stored | None) -> Stored | None:
        left = None if found is None else withdrawn(Lock.from_json(found), source)
        return None if left is None else left.to_json()

    for lock, _ in locks_of(store, task):
        if lock.info(source) is not None:
            store.change_ddl_lock(task, lock.id, lock.number, how)
