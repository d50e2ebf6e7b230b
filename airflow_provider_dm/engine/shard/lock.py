"""The DDL lock of a merged table: the agreement of a task's sources, in the metadata DB, before one of them acts.

A lock is for one DDL of one merged table. The DDL statements of a table are numbered. Each source reports the DDL when
all its own shards have executed it (shard/group.py); the first source to report is the owner.

    phase       condition                                 the owner         the others
    waiting     a source has not reported                 waits             wait
    conflict    two have reported different DDL           stops; both are shown and a user decides (`decision`)
    exec        all have reported the same, or a          executes the DDL  wait
                user has decided
    skip        the DDL has been executed                 continues         continue without executing it
    differs     it has been executed without a source,    continues         that source stops, until a user accepts
                which now reports another DDL                               the executed DDL instead (`decision`)
    (removed)   every source has continued

    event                   waiting      conflict     exec         skip
    reported by a source    waiting/     conflict     exec         skip (a late source
                            exec/confl.               (repeated)   continues), or differs
    decided by a user       exec         exec         exec, by     refused: already executed; in `differs`: skip
                                                      that owner
    executed by the owner   refused      refused      skip         skip (repeated)
    a source has continued  refused      refused      refused      skip, or removed by the last source
    a source withdraws      waiting, or removed with the last      skip, or removed with the last

A decision covers the DDL texts that are reported at that time (`settled`). A source that reports later continues only
if its text is one of them.

This module has values only; each change is a write to the locked row (meta/ddl_locks.py). The lock coordinates the
sources and informs users. The target records that a DDL has been executed, and the texts that count as executed by it.
So a lost or restored metadata DB can delay a DDL, but never cause a second execution (downstream/shard_groups.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.errors import LockRefuses, ShardDdlConflict

Json = dict[str, Any]
Ddls: TypeAlias = tuple[str, ...]
"""The target's statements for one DDL of a shard: the same texts for all shards with the same DDL."""

WAITING_FOR_LOCK: Final = "waiting for lock"
"""The status of a bounded run that ends because it only waits for DDL locks. The next run continues."""


class Phase(StrEnum):
    WAITING = "waiting"
    CONFLICT = "conflict"
    EXEC = "exec"
    SKIP = "skip"
    DIFFERS = "differs"


class Action(StrEnum):
    """A user's decision about the owner: execute the DDL, or continue without executing it. In DM's words."""

    EXEC = "exec"
    SKIP = "skip"


@dataclass(frozen=True)
class DdlInfo:
    """The report of one source. `tables`: its shards. `at`: the location of the DDL in its log. It never changes within
    one life of a task; another location belongs to an earlier task of this name."""

    source: str
    ddls: tuple[str, ...]
    tables: tuple[str, ...] = ()
    at: str = ""
    done: bool = False


@dataclass(frozen=True)
class Lock:
    """One lock. `infos` in the order of the reports. `expected`: the sources that feed the merged table.

    `settled`: the DDL texts that the decision, or the execution in the target, covers.
    """

    task: str
    target: TableName
    number: int
    owner: str
    infos: tuple[DdlInfo, ...]
    expected: tuple[str, ...]
    decision: Action | None = None
    executed: bool = False
    settled: tuple[Ddls, ...] = ()

    @property
    def id(self) -> str:
        return lock_id(self.task, self.target)

    @property
    def synced(self) -> list[str]:
        return [info.source for info in self.infos]

    @property
    def unsynced(self) -> list[str]:
        return sorted(set(self.expected) - set(self.synced))

    def info(self, source: str) -> DdlInfo | None:
        return next((info for info in self.infos if info.source == source), None)

    @property
    def ddls(self) -> tuple[str, ...]:
        """The DDL texts that the owner has reported."""
        report = self.info(self.owner)
        return report.ddls if report is not None else ()

    @property
    def phase(self) -> Phase:
        if self.executed:
            differs = any(not info.done and info.ddls not in self.settled for info in self.infos)
            return Phase.DIFFERS if differs else Phase.SKIP
        if self.decision is not None:
            return Phase.EXEC
        if len({info.ddls for info in self.infos}) > 1:
            return Phase.CONFLICT
        return Phase.WAITING if self.unsynced else Phase.EXEC

    def conflict_of(self, source: str) -> ShardDdlConflict | None:
        """Return the error with this source's DDL and the first different one; None if no source has different DDL."""
        mine = self.info(source)
        others = [info for info in self.infos if mine is not None and info.ddls != mine.ddls]
        if mine is None or not others:
            return None
        return ShardDdlConflict(self.id, self.number, source, mine.ddls, others[0].source, others[0].ddls)

    def to_json(self) -> Json:
        return dict(_AS_JSON.dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, value: Json) -> Lock:
        return _AS_JSON.validate_python(value)


_AS_JSON: Final = TypeAdapter(Lock)


def lock_id(task: str, target: TableName) -> str:
    """Return DM's id of the lock.

    >>> lock_id("test", TableName("shop", "orders"))
    'test-`shop`.`orders`'
    """
    return f"{task}-{target.quoted()}"


def reported(
    lock: Lock | None,
    task: str,
    target: TableName,
    number: int,
    info: DdlInfo,
    expected: Collection[str],
    decided: Collection[Ddls] | None = None,
) -> Lock:
    """Return the lock after a source has reported. Repeated reports change nothing. If the lock has another location of
    the source, it belongs to an earlier task of this name, and is created again: the other sources report again.

    `decided`: the DDL texts that the target counts as executed; None: it has not executed the DDL.
    """
    names = tuple(sorted({*expected, info.source}))
    before = lock.info(info.source) if lock is not None else None
    if lock is None or (before is not None and before.at != info.at):
        became = Lock(task, target, number, info.source, (info,), names)
    elif before is not None and before.ddls == info.ddls:
        became = replace(lock, expected=names)
    else:
        kept = tuple(known for known in lock.infos if known.source != info.source)
        became = replace(lock, infos=(*kept, info), expected=names)
    if decided is None:
        return became
    return replace(became, executed=True, settled=tuple(sorted({*became.settled, *decided})))


def with_decision(lock: Lock, action: Action, owner: str | None, *, force: bool) -> Lock:
    """Return the lock after a user has decided. Raises LockRefuses.

    `force`: decide even if a source has not reported, or another owner was chosen before. That owner may be executing
    the DDL: its statement is killed. A new action for the same owner needs no `force`. After the DDL has been executed,
    only `skip` is possible, in the phase `differs`: the executed DDL counts for the source that differs.
    """
    settled = tuple(sorted({*lock.settled, *(info.ddls for info in lock.infos)}))
    if lock.phase is Phase.DIFFERS:
        if action is not Action.SKIP:
            raise LockRefuses(lock.id, "its DDL has been executed; `--action skip` accepts it for the other source")
        return replace(lock, settled=settled)
    if lock.executed:
        raise LockRefuses(lock.id, "its DDL has been executed")
    chosen = owner or lock.owner
    if chosen not in lock.synced:
        raise LockRefuses(lock.id, f"{chosen} has not reported, and cannot be its owner")
    if lock.decision is not None and chosen != lock.owner and not force:
        by = f"{lock.owner} was chosen as its owner ({lock.decision.value}), and may be executing it now"
        raise LockRefuses(lock.id, f"{by}; --force-remove overrides the choice")
    if lock.unsynced and not force:
        raise LockRefuses(lock.id, f"{', '.join(lock.unsynced)} have not reported; --force-remove ignores them")
    return replace(lock, owner=chosen, decision=action, settled=settled)


def executed(lock: Lock, source: str) -> Lock:
    """Return the lock after `source` has executed its DDL. Raises LockRefuses for any source but the owner."""
    if lock.executed:
        return lock
    if lock.phase is not Phase.EXEC or lock.owner != source:
        raise LockRefuses(lock.id, f"{source} has executed its DDL, but {lock.owner} is its owner ({lock.phase.value})")
    return replace(lock, executed=True, settled=tuple(sorted({*lock.settled, lock.ddls})))


def continued(lock: Lock, source: str) -> Lock | None:
    """Return the lock after a source has continued past the executed DDL; None after the last source."""
    known = lock.infos if lock.info(source) is not None else (*lock.infos, DdlInfo(source, lock.ddls))
    infos = tuple(replace(info, done=info.done or info.source == source) for info in known)
    kept = replace(lock, infos=infos, executed=True)
    return None if all(info.done for info in infos) and not kept.unsynced else kept


def withdrawn(lock: Lock, source: str) -> Lock | None:
    """Return the lock without the report of a source; None if no report is left.

    A pending decision is removed with it, as it was about that report.
    """
    infos = tuple(info for info in lock.infos if info.source != source)
    if not infos or len(infos) == len(lock.infos):
        return lock if infos else None
    owner = infos[0].source if lock.owner == source else lock.owner
    if lock.executed:
        return replace(lock, infos=infos, owner=owner)
    return replace(lock, infos=infos, owner=owner, decision=None, settled=())
