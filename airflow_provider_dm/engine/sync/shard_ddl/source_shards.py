"""The shards of one source in merged tables: hold back rows, agree on DDL, execute it, and apply the rows.

The decisions are pure (shard/group.py, shard/lock.py); this file connects them to the log, the target and the metadata
DB. Each step, where it is written, and the state after a crash:

    step                                                    written to                after a crash
    1 record   a shard's DDL is added to its items; its     target: the transaction   the group is as written; the sync
               rows are held back from here on              that moves the frontier   resumes after the statement
    2 report   all shards of the source have executed it    metadata DB: the lock     the same report is made again
    3 execute  the owner executes it for all sources        target: DDL, journaled    the journal has what was executed
    4 report   it has been executed                         target: dm_ddl, then the  the next check finds it in dm_ddl
                                                            lock                      without the lock
    5 resolve  the held rows have a beginning and an end    target: group, and the    the same re-sync resumes at its
                                                            frontier of its lane      frontier
    6 re-sync  the held rows are applied, each once         target: its own frontier  as in any epoch
    7 finish   shards without items are ready               target: group and plan    the sync continues
    8 report   the source has passed the DDL                metadata DB: the lock     the next run reports it again

So the target alone decides. Before the owner executes a DDL, it checks in the target that all shards of all sources
have executed it, and that the target has not.

While a group waits, the sync continues with all other tables, and with shards that have not executed the DDL yet. It
does not continue during a re-sync, because the held-back rows precede the following log.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from pydantic import TypeAdapter

from airflow_provider_dm.engine.config.task import ShardMode
from airflow_provider_dm.engine.downstream.contested_row import withdraw_all
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl, end_earlier_ddl, execute_ddl
from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.downstream.frontier import begin_frontier
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.left_behind import left_behind
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import (
    ddl_lane,
    ddl_place,
    end_resync,
    executed_ddls,
    note_executed,
    read_groups,
    resync_fence,
    save_group,
)
from airflow_provider_dm.engine.downstream.subtask import note_plan
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_feeders
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.shard.group import (
    Group,
    ShardDdl,
    after_create,
    after_ddl,
    after_rename,
    after_resync,
    missing_shards,
    name_of_dropped,
    relevant_time_zone,
    resolve,
)
from airflow_provider_dm.engine.shard.lock import Action, Lock
from airflow_provider_dm.engine.shard.turn import Turn, turn_of
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.errors import CannotFollow, ShardDdlRefused
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.shard_ddl.shard_locks import ShardLocks, item_due
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

LOCK_POLL_SECONDS: Final = 0.5
"""Seconds between two reads of a lock that a source waits for."""
_STATEMENTS: Final = TypeAdapter(list[TargetDdl])
_COLUMN_EXISTS: Final = 1060
"""ER_DUP_FIELDNAME: the column already exists."""

Json = dict[str, Any]


@dataclass
class Shards:
    """The groups of one source, for the thread of its sync. `tables`: its tables, with their target tables."""

    source: SyncSource
    store: MetaStore
    tables: dict[TableName, TableName] = field(default_factory=dict)
    groups: dict[TableName, Group] = field(default_factory=dict)
    waits: dict[TableName, str] = field(default_factory=dict)
    """Why a group waits, by merged table, for users."""
    locks: ShardLocks = field(init=False)
    _checked_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.locks = ShardLocks(self.source, self.store)

    @classmethod
    def load(cls, source: SyncSource, store: MetaStore, plan: SyncPlan) -> Shards:
        """Read the groups from the target. Raises IncompleteResult."""
        connection, ref = target_connection(source.target), source.fence.ref
        shards = cls(source, store, groups={group.target: group for group in read_groups(connection, ref)})
        shards.adopt(plan)
        shards._begin()
        if shards.groups:
            shards.locks.report_again(shards.groups)
        return shards

    def _begin(self) -> None:
        """Save a group for each merged table before the first DDL, whose number is counted from here.

        Raises Fenced, TargetWentBack.
        """
        connection, ref, target = target_connection(self.source.target), self.source.fence.ref, self.source.target
        counted = Counter(feeder.target for feeder in load_feeders(connection, ref))
        fresh = [one for one in dict.fromkeys(self.tables.values()) if counted[one] > 1 and one not in self.groups]
        if not fresh:
            return

        def body(tx: Connection) -> None:
            self.source.fence.check(tx)
            self.save(tx, [self._group(target) for target in fresh])

        run_transaction(target, body)

    @property
    def agreeing(self) -> bool:
        return self.source.config.shard_mode is ShardMode.PESSIMISTIC

    @property
    def held(self) -> frozenset[TableName]:
        return self.held_after(())

    @property
    def unresolved(self) -> list[Group]:
        return [group for group in self.groups.values() if group.members]

    @property
    def needs(self) -> Location | None:
        """The location from which the log is needed for rows that are held back; None: no row is."""
        places = [place for group in self.groups.values() if (place := group.needs) is not None]
        return min(places, key=lambda place: place.sort_key, default=None)

    def adopt(self, plan: SyncPlan) -> None:
        """Use the tables of the current plan."""
        route = self.source.rules.router.route
        self.tables = {table.name: route(table.name) for table in plan.tables()}

    def check_no_resync(self) -> None:
        """Check that no re-sync is unfinished: its rows precede the following log. Raises InvariantBroken."""
        left = [str(group.target) for group in self.groups.values() if group.resync is not None]
        if left:
            raise InvariantBroken(
                "the sync continues after a re-sync", f"rows of {', '.join(left)} are still held back"
            )

    # 1. Record

    def groups_after(
        self,
        change: SchemaChange,
        before: SubtaskTables,
        at: tuple[Location, Location],
        needs: Location,
        session: Sequence[Setting],
        *,
        counts_as_made: bool,
        like: TableName | None = None,
    ) -> list[Group]:
        """Return the groups that a statement changes, in their state after it. Writes nothing.

        `at`: the begin and end of its transaction. `needs`: the location from which the log is needed for the rows
        after it. `counts_as_made`: an operator skips the statement, and it counts as the DDL of the other shards.
        `like`: the table that a CREATE TABLE … LIKE names.
        Raises CannotFollow, ShardDdlOutOfSequence.
        """
        groups = {one.target: one for one in self._renamed(change, at)}
        groups |= {one.target: one for one in self._joined(change, before, groups, at[0], needs, like)}
        if change.agreed is None:
            return list(groups.values())
        was = next((old for old, new in reversed(change.renamed) if new == change.agreed), change.agreed)
        schema, base = change.tables.schema(change.agreed), before.schema(was)
        assert schema is not None
        assert base is not None
        group = groups.get(schema.target) or self._group(schema.target)
        member, form = group.member(schema.table.name), replace(base.table, name=change.agreed)
        newest = member.items[-1].newest if member is not None and member.items else form
        ddls = tuple(statement.comparable or statement.sql for statement in change.statements)
        if not ddls and not counts_as_made:
            if member is not None and newest != schema.table:
                raise CannotFollow(f"the target executes nothing for it, but rows of {schema.table.name} are held back")
            return list(groups.values())
        zone = next((str(variable.value) for variable in session if variable.name == "time_zone"), None)
        ddls = (*relevant_time_zone(base.table, schema.table, zone), *ddls)
        how: Json = {
            "statements": _STATEMENTS.dump_python(list(change.statements), mode="json"),
            "session": [[variable.name, variable.value] for variable in session],
        }
        item = ShardDdl(at[0], at[1], ddls, schema.table, needs, how)
        longest, turn = group.longest(), len(member.items) if member is not None else 0
        if counts_as_made and longest is not None and turn < len(longest.items):
            item = replace(item, ddls=longest.items[turn].ddls, how=longest.items[turn].how)
        elif counts_as_made and (decided := self.locks.decided(replace(group, resolved=group.resolved + turn))):
            item = replace(item, ddls=min(decided))
        ref = self.source.fence.ref
        groups[schema.target] = after_ddl(group, ref.source, schema.table.name, form, item)
        log.info("%s has executed DDL number %d of %s", schema.table.name, group.resolved + turn, schema.target)
        return list(groups.values())

    def _renamed(self, change: SchemaChange, at: tuple[Location, Location]) -> Iterable[Group]:
        """Yield groups with renamed or dropped held shards. Raises CannotFollow if a new name has another target."""
        route, pairs = self.source.rules.router.route, [*change.renamed, *((name, None) for name in change.ended)]
        for before in self.groups.values():
            group = before
            for old, new in pairs:
                if group.member(old) is None:
                    continue
                if new is not None and route(new) != group.target:
                    raise CannotFollow(f"rows of {old} are held back, but {new} is routed to another table")
                group = after_rename(group, old, new, *at)
            if group is not before:
                yield group

    def _joined(
        self,
        change: SchemaChange,
        before: SubtaskTables,
        renamed: Mapping[TableName, Group],
        at: Location,
        needs: Location,
        like: TableName | None,
    ) -> Iterable[Group]:
        """Yield groups that new tables join. `renamed`: the groups after its renames. Raises CannotFollow."""
        known = {one.table.name for one in before.schemas}.difference(change.ended) | {new for _, new in change.renamed}
        for one in change.tables.schemas:
            group = renamed.get(one.target) or self.groups.get(one.target)
            if one.table.name in known or group is None or not group.members:
                continue
            ready = (old for old in before.schemas if old.target == one.target and old.table.name not in self.held)
            base = next(ready, None)
            alike = _alike(one, change.tables)
            if like in alike:
                alike = [like]
            joined = after_create(group, one.table, base.table if base is not None else None, at, needs, like=alike)
            if joined is None:
                raise CannotFollow(
                    f"{one.table.name} is created during a DDL of {one.target}, with a definition that none of its "
                    "shards has, so its definition after that DDL is unknown"
                )
            yield joined

    def newly_merged(self, change: SchemaChange, before: SubtaskTables) -> list[Group]:
        """Return groups of target tables that become merged because a new table is routed to them."""
        known = {schema.table.name for schema in before.schemas} | {new for _, new in change.renamed}
        fresh = {one.target for one in change.tables.schemas if one.table.name not in known} - self.groups.keys()
        if not fresh:
            return []
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        feeding = {(ref.source, schema.table.name): schema.target for schema in change.tables.schemas}
        feeding |= {
            (one.source, one.table): one.target for one in load_feeders(connection, ref) if one.source != ref.source
        }
        counted = Counter(feeding.values())
        return [self._group(target) for target in sorted(fresh) if counted[target] > 1]

    def _group(self, target: TableName) -> Group:
        if target not in self.groups:
            connection, ref = target_connection(self.source.target), self.source.fence.ref
            self.groups[target] = Group(target, executed_ddls(connection, ref, target))
        return self.groups[target]

    def dropped(self, change: SchemaChange, at: Location) -> list[tuple[TableName, TableName]]:
        """Return the held shards that a statement drops, with the names under which they are kept after it."""
        return [(name, name_of_dropped(name, at)) for name in change.ended if name in self.held]

    def held_after(self, groups: Iterable[Group]) -> frozenset[TableName]:
        """Return the tables that are held once `groups` replace the groups of the same target."""
        after = {**self.groups, **{group.target: group for group in groups}}
        return frozenset(member.table for group in after.values() for member in group.members)

    def save(self, connection: Connection, groups: Iterable[Group]) -> None:
        """Save groups, in a transaction that has checked the generation."""
        for group in groups:
            save_group(connection, self.source.fence.ref, group)

    def take(self, groups: Iterable[Group]) -> None:
        """Use the saved groups from here on."""
        self.groups.update((group.target, group) for group in groups)
        self._checked_at = 0.0

    # 2 to 5. Agree, and resolve

    def check(self, here: Location, buckets: int, *, now: bool = False) -> Group | None:
        """Check whether a DDL can be or was executed, and execute it. Return a group whose rows must be applied now.

        `here`: the location that all buckets have reached. `now`: even if the last check was less than
        LOCK_POLL_SECONDS ago. Raises ShardDdlConflict, ShardDdlRunWithoutSource, and what executing DDL raises.
        """
        for group in self.unresolved:
            if group.resync is not None:
                return group
        if not self.unresolved or (not now and time.monotonic() - self._checked_at < LOCK_POLL_SECONDS):
            return None
        self._checked_at = time.monotonic()
        for group in self.unresolved:
            blocked = self._check(group, here, buckets)
            if blocked is not None:
                return blocked
        return None

    def _check(self, group: Group, here: Location, buckets: int) -> Group | None:
        names, me = self._shards_of(group.target), self.source.fence.ref.source
        lock = None
        turn = turn_of(group, names, self.locks.decided(group), None, me)
        if turn is Turn.REPORT:
            lock = self.locks.report(group, names)
            # Read the target again after the report: another source may have executed the DDL before it.
            turn = turn_of(group, names, self.locks.decided(group), lock, me)
        why = self.locks.reason_to_wait(group, turn, names, lock)
        if why:
            if self.waits.get(group.target) != why:
                log.info("DDL number %d of %s waits %s", group.resolved, group.target, why)
            self.waits[group.target] = why
            return None
        if turn is Turn.EXECUTE:
            self._execute(group, item_due(group, names), lock)
        return self._resolve(group, here, buckets)

    # 3 and 4. Execute

    def _execute(self, group: Group, item: ShardDdl, lock: Lock | None) -> None:
        fence, target = self.source.fence, self.source.target
        assert lock is not None
        shared = fence.in_lane(ddl_lane(group.target))
        if lock.decision is Action.SKIP:
            end_earlier_ddl(target, shared)  # the former owner may still be altering the table
        else:
            statements = _STATEMENTS.validate_python(item.how["statements"])
            session = [Setting(name, value) for name, value in item.how["session"]]
            self._check_left_behind(shared, group, statements)
            try:
                execute_ddl(target, shared, ddl_place(group.resolved), statements, session)
            except DdlRefused as error:
                raise ShardDdlRefused(error.sql, error.number, error.reason) from None
        settled = {item.ddls, *lock.settled}
        note = partial(note_executed, fence=fence, target=group.target, number=group.resolved, settled=settled)
        run_transaction(target, note)
        log.info("DDL number %d of %s was executed", group.resolved, group.target)
        self.locks.report_executed(group)

    def _check_left_behind(self, shared: Fence, group: Group, statements: Sequence[TargetDdl]) -> None:
        """Raise ShardDdlRefused if the target already has an object that a statement creates, because a filter may have
        skipped the statement that dropped the old one."""
        if not self.source.rules.events.may_keep_names():
            return
        connection = target_connection(self.source.target)
        left = left_behind(connection, shared.ref, ddl_place(group.resolved), statements)
        if left:
            reason = f"already exists: {left}; a filter rule may have skipped the statement that dropped it"
            raise ShardDdlRefused(statements[0].sql, _COLUMN_EXISTS, reason)

    # 5. Resolve

    def _resolve(self, group: Group, here: Location, buckets: int) -> Group:
        resolved = resolve(group, here)
        assert resolved.resync is not None
        lo = resolved.resync.lo.sort_key if resolved.resync.pieces else ""
        fence = self.source.fence

        def body(connection: Connection) -> None:
            fence.check(connection)
            save_group(connection, fence.ref, resolved)
            if lo:
                begin_frontier(connection, resync_fence(fence, resolved), lo, buckets)

        run_transaction(self.source.target, body)
        self.groups[group.target] = resolved
        self.waits.pop(group.target, None)
        return resolved

    # 7 and 8. Finish

    def finish(self, group: Group, plan: SyncPlan) -> None:
        """End the re-sync: shards without further DDL are no longer held. `plan`: the plan from here on."""
        after, fence = after_resync(group), self.source.fence
        ended = {one.table for one in group.members} - {one.table for one in after.members} - self.tables.keys()

        def body(connection: Connection) -> None:
            note_plan(connection, fence, plan.fingerprint())
            save_group(connection, fence.ref, after)
            withdraw_all(connection, fence.ref, ended)
            end_resync(connection, fence, group)

        run_transaction(self.source.target, body)
        self.groups[group.target] = after
        self._checked_at = 0.0
        self.locks.report_passed(group.target, group.resolved - 1)

    # For users

    def to_json(self) -> list[Json]:
        """Return DM's unresolvedGroups. Added keys: `waits`, the reason to wait, and `since` (`Group.since`)."""
        return [
            {
                "target": group.target.quoted(),
                "DDLs": _sql_of(first) if (first := _first(group)) is not None else [],
                "firstLocation": _dm_location(first.at) if first is not None else "",
                "synced": [member.table.quoted() for member in group.members if member.items],
                "unsynced": [name.quoted() for name in missing_shards(group, self._shards_of(group.target))],
                "waits": self.waits.get(group.target, ""),
                "since": group.since,
            }
            for group in self.unresolved
        ]

    def _shards_of(self, target: TableName) -> list[TableName]:
        return [name for name, to in self.tables.items() if to == target]


def _alike(new: TableSchema, tables: SubtaskTables) -> list[TableName]:
    """Return the shards of the same merged table that have exactly the definition of a new shard."""
    tracker, others = tables.tracker, [schema.table.name for schema in tables.schemas if schema.target == new.target]
    known = tracker.names()
    if new.table.name not in known:
        return []
    mine = tracker.definition(new.table.name)
    return [one for one in others if one != new.table.name and one in known and tracker.definition(one) == mine]


def _first(group: Group) -> ShardDdl | None:
    return next((member.items[0] for member in group.members if member.items), None)


def _sql_of(item: ShardDdl) -> list[str]:
    """Return the statements that the target executes for a DDL or, if there are none, the texts that are compared."""
    return [str(one["sql"]) for one in item.how["statements"]] or list(item.ddls)


def _dm_location(place: Location) -> str:
    """Return a location as DM prints it.

    >>> _dm_location(Location("mysql-bin.000005", 916))
    'position: (mysql-bin.000005, 916), gtid-set: '
    """
    return f"position: ({place.file}, {place.position}), gtid-set: {place.gtid_set}"
