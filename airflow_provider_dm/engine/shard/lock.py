"""The DDL lock of a merged table: what the sources of a task agree on, in the metadata DB, before one of them acts.

A lock is about one DDL of one merged table, by its number in that table's life. Each source reports it when all its own
shards have made it (shard/group.py); the first to report is the owner.

    phase       when                                      the owner         the others
    waiting     a source has not reported                 wait              wait
    conflict    two have reported different DDL           stop, both sides are shown, a person decides (`wish`)
    exec        all have reported the same, or a          runs the DDL      wait
                person wants it so
    skip        the DDL has been run                      goes on           go on without running it
    differs     it has been run, and a source that was    goes on           that source stops, until a person takes
                not waited for reports another DDL                          its DDL for the one that was run (`wish`)
    (removed)   every source has gone on

    event                   waiting      conflict     exec         skip
    reported by a source    waiting/     conflict     exec (told   skip (it comes late
                            exec/confl.               again)       and goes on), or differs
    a person's wish         exec         exec         exec, of     refused: it has been run; in `differs`: skip
                                                      that owner
    executed by the owner   refused      refused      skip         skip (told again)
    gone on, a source       refused      refused      refused      skip, or removed by the last one
    withdrawn, a source     waiting, or removed with the last one  skip, or removed with the last one

A decision covers the DDL texts that were reported when the person decided (`settled`), and no text that is reported
later. So a source that was not waited for passes the number with a settled text only.

Values only; each change is one compare-and-set of the row (meta/ddl_locks.py). The lock is for coming to an agreement
and for people. That a DDL has been run, and which texts it settles, is recorded in the target: a metadata DB that is
lost, or restored, can delay a DDL and never have it run twice (target/shard_groups.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName

Json = dict[str, Any]
Ddls: TypeAlias = tuple[str, ...]
"""What the target has to run for one DDL of a shard: the same texts for all shards that have made the same DDL."""

WAITING_FOR_LOCK: Final = "waiting for lock"
"""The status of a run with an end that has nothing else left to do. Rows are held back, and the next run goes on."""


class Phase(StrEnum):
    WAITING = "waiting"
    CONFLICT = "conflict"
    EXEC = "exec"
    SKIP = "skip"
    DIFFERS = "differs"


class Action(StrEnum):
    """Order of a person to the owner, in DM's words."""

    EXEC = "exec"
    SKIP = "skip"


class ShardDdlConflict(DmError):
    lock: str
    number: int
    source: str
    mine: tuple[str, ...]
    other: str
    others: tuple[str, ...]

    code = "DM-6052"
    scope = Scope.UPSTREAM
    what = (
        "sharding ddls in ddl lock {lock} (number {number}) is different: {source} has made {mine}; {other} has made "
        "{others}."
    )
    hint = (
        "Nothing of it was run in the target. See `dmctl shard-ddl-lock TASK`, then choose whose DDL is run: `dmctl "
        "shard-ddl-lock unlock ID --owner SOURCE`, or make it in the target yourself and add `--action skip`."
    )


class ShardDdlRunWithoutSource(DmError):
    """A source that a person did not wait for has made other DDL than the target has run under that number."""

    lock: str
    number: int
    source: str
    mine: tuple[str, ...]
    decided: tuple[str, ...]

    code = "DM-6060"
    scope = Scope.UPSTREAM
    what = (
        "DDL number {number} of ddl lock {lock} has been decided without {source}: {decided}. {source} has made {mine} "
        "in its place."
    )
    hint = (
        "1. Make the change of the source in the target yourself, as far as it is wanted there. 2. Run `dmctl "
        "shard-ddl-lock unlock ID --action skip`: the DDL of the source counts as the decided one, and its rows are "
        "applied. 3. Run the task again. DDL that other sources then wait for in vain: `dmctl shard-ddl-lock unlock ID "
        "--force-remove`."
    )


class LockRefuses(DmError):
    lock: str
    why: str

    code = "DM-8020"
    what = "the DDL lock {lock} stays as it is: {why}."
    hint = "See `dmctl shard-ddl-lock`."


@dataclass(frozen=True)
class Info:
    """Report of one source. `tables`: its shards. `at`: where its log has the DDL: the same in one life of the
    task, so another place is what a task of this name has left behind that is no more."""

    source: str
    ddls: tuple[str, ...]
    tables: tuple[str, ...] = ()
    at: str = ""
    done: bool = False


@dataclass(frozen=True)
class Lock:
    """One lock. `infos` in the order in which they came. `expected`: the sources that feed the merged table.

    `settled`: the DDL texts that the decision, or the run in the target, covers.
    """

    task: str
    target: TableName
    number: int
    owner: str
    infos: tuple[Info, ...]
    expected: tuple[str, ...]
    wish: Action | None = None
    executed: bool = False
    settled: tuple[Ddls, ...] = ()

    @property
    def id(self) -> str:
        return lock_id(self.task, self.target)

    @property
    def synced(self) -> list[str]:
        return [one.source for one in self.infos]

    @property
    def unsynced(self) -> list[str]:
        return sorted(set(self.expected) - set(self.synced))

    def info(self, source: str) -> Info | None:
        return next((one for one in self.infos if one.source == source), None)

    @property
    def ddls(self) -> tuple[str, ...]:
        """The owner's."""
        mine = self.info(self.owner)
        return mine.ddls if mine is not None else ()

    @property
    def phase(self) -> Phase:
        if self.executed:
            differs = any(not one.done and one.ddls not in self.settled for one in self.infos)
            return Phase.DIFFERS if differs else Phase.SKIP
        if self.wish is not None:
            return Phase.EXEC
        if len({one.ddls for one in self.infos}) > 1:
            return Phase.CONFLICT
        return Phase.WAITING if self.unsynced else Phase.EXEC

    def conflict_of(self, source: str) -> ShardDdlConflict | None:
        """Return what a source is told that has made other DDL than the owner, or than whom the owner differs from."""
        mine = self.info(source)
        others = [one for one in self.infos if mine is not None and one.ddls != mine.ddls]
        if mine is None or not others:
            return None
        return ShardDdlConflict(self.id, self.number, source, mine.ddls, others[0].source, others[0].ddls)

    def to_json(self) -> Json:
        return dict(_AS_JSON.dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, said: Json) -> Lock:
        return _AS_JSON.validate_python(said)


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
    info: Info,
    expected: Collection[str],
    decided: Collection[Ddls] | None = None,
) -> Lock:
    """Return the lock after a source has reported. To report again is to be heard again. A lock in which the source
    stands with another place is of another life of the task, and begins anew: whoever else is in it reports again.

    `decided`: the texts that the target has settled; None: it has not run the DDL.
    """
    names = tuple(sorted({*expected, info.source}))
    before = lock.info(info.source) if lock is not None else None
    if lock is None or (before is not None and before.at != info.at):
        became = Lock(task, target, number, info.source, (info,), names)
    elif before is not None and before.ddls == info.ddls:
        became = replace(lock, expected=names)
    else:
        kept = tuple(one for one in lock.infos if one.source != info.source)
        became = replace(lock, infos=(*kept, info), expected=names)
    if decided is None:
        return became
    return replace(became, executed=True, settled=tuple(sorted({*became.settled, *decided})))


def wished(lock: Lock, action: Action, owner: str | None, *, force: bool) -> Lock:
    """Return the lock after a person has decided. `force`: also while a source has not reported, or is to do it by an
    earlier decision: it may be altering the table, and is killed at that if another one is chosen. Its own action may
    be changed, as it does one behind the other. Where the DDL has been run, the decision can only be to take the DDL of
    a source that differs for it (`skip`). Raises LockRefuses.
    """
    settled = tuple(sorted({*lock.settled, *(one.ddls for one in lock.infos)}))
    if lock.phase is Phase.DIFFERS:
        if action is not Action.SKIP:
            raise LockRefuses(lock.id, "its DDL has been run; `--action skip` takes the other source's DDL for it")
        return replace(lock, settled=settled)
    if lock.executed:
        raise LockRefuses(lock.id, "its DDL has been run")
    chosen = owner or lock.owner
    if chosen not in lock.synced:
        raise LockRefuses(lock.id, f"{chosen} has not reported, and cannot be its owner")
    if lock.wish is not None and chosen != lock.owner and not force:
        by = f"it is decided that {lock.owner} does it ({lock.wish.value}), which may be doing so now"
        raise LockRefuses(lock.id, f"{by}; --force-remove decides anew")
    if lock.unsynced and not force:
        raise LockRefuses(lock.id, f"{', '.join(lock.unsynced)} have not reported; --force-remove goes on without them")
    return replace(lock, owner=chosen, wish=action, settled=settled)


def executed(lock: Lock, source: str) -> Lock:
    """Return the lock after its DDL has been run. Raises LockRefuses for whom it does not expect that of."""
    if lock.executed:
        return lock
    if lock.phase is not Phase.EXEC or lock.owner != source:
        raise LockRefuses(lock.id, f"{source} has run its DDL, and {lock.owner} is its owner ({lock.phase.value})")
    return replace(lock, executed=True, settled=tuple(sorted({*lock.settled, lock.ddls})))


def gone_on(lock: Lock, source: str) -> Lock | None:
    """Return the lock after a source has gone on behind the DDL, which the target has; None: it was the last one."""
    known = lock.infos if lock.info(source) is not None else (*lock.infos, Info(source, lock.ddls))
    infos = tuple(replace(one, done=one.done or one.source == source) for one in known)
    kept = replace(lock, infos=infos, executed=True)
    return None if all(one.done for one in infos) and not kept.unsynced else kept


def withdrawn(lock: Lock, source: str) -> Lock | None:
    """Return the lock without what a source has reported; None: nobody is left in it.

    A decision that is not carried out goes with it: it was about a report that is no more.
    """
    infos = tuple(one for one in lock.infos if one.source != source)
    if not infos or len(infos) == len(lock.infos):
        return lock if infos else None
    owner = infos[0].source if lock.owner == source else lock.owner
    if lock.executed:
        return replace(lock, infos=infos, owner=owner)
    return replace(lock, infos=infos, owner=owner, wish=None, settled=())
