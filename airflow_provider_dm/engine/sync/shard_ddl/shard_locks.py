"""The DDL locks of one source: its reports to them (steps 2, 4 and 8 of `source_shards`), and the reasons to wait.

Locks are in the metadata DB and coordinate the sources. Before a DDL is executed, the target's tables decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    ChangeColumn,
    SetDefault,
)
from airflow_provider_dm.engine.downstream.contested_row import waiting
from airflow_provider_dm.engine.downstream.ddl_execution import sql_mode_of
from airflow_provider_dm.engine.downstream.left_behind import column_names
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.shard_groups import decided_ddls, held_shards, read_groups
from airflow_provider_dm.engine.downstream.subtask import begun_subtasks
from airflow_provider_dm.engine.downstream.table_schema import Feeder, load_feeders, load_table_schemas
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.shard import lock as locks
from airflow_provider_dm.engine.shard.errors import ShardDdlRunWithoutSource
from airflow_provider_dm.engine.shard.group import Group, Member, ShardDdl, due_item, missing_shards
from airflow_provider_dm.engine.shard.turn import Turn
from airflow_provider_dm.engine.sync.ddl.statement_parts import changed_columns
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

Json = dict[str, Any]
Becomes: TypeAlias = Callable[[locks.Lock | None], locks.Lock | None]


@dataclass
class ShardLocks:
    """The locks of one source's groups."""

    source: SyncSource
    store: MetaStore
    _unreported: set[tuple[TableName, int]] = field(default_factory=set, init=False)
    """DDL that this source has passed and could not report, by merged table and number."""

    def decided(self, group: Group) -> frozenset[locks.Ddls] | None:
        """Return the texts that the target recorded for the next DDL of the group; None: it was not executed."""
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        return decided_ddls(connection, ref, group.target, group.resolved)

    def report(self, group: Group, names: Collection[TableName]) -> locks.Lock:
        """Report that all shards of the source have executed the next DDL; return the lock after the report."""
        ref, item = self.source.fence.ref, item_due(group, names)
        feeders = load_feeders(target_connection(self.source.target), ref)
        expected = {feeder.source for feeder in feeders if feeder.target == group.target}
        expected |= {router.source_id for router in unbegun_routers(self.source) if router.routes_to(group.target)}
        info = locks.DdlInfo(ref.source, item.ddls, tuple(sorted(map(str, names))), item.at.sort_key)

        def change(lock: locks.Lock | None) -> locks.Lock:
            decided = self.decided(group)
            if lock is not None and lock.executed and decided is None:
                lock = None  # it is left from a deleted task with the same name
            return locks.reported(lock, ref.task, group.target, group.resolved, info, expected, decided)

        became = self._change(group.target, group.resolved, change)
        assert became is not None
        return became

    def reason_to_wait(self, group: Group, turn: Turn, names: Collection[TableName], lock: locks.Lock | None) -> str:
        """Return what the group waits for, "for …"; "": nothing. Raises ShardDdlConflict, ShardDdlRunWithoutSource."""
        match turn:
            case Turn.SHARDS:
                return f"for {', '.join(map(str, missing_shards(group, names)))} of this source"
            case Turn.RESOLVE:  # executed without this source, by a user's decision: its rows may still be contested
                return self._waiting(group.target, of_source=self.source.fence.ref.source)
        assert lock is not None
        match turn:
            case Turn.CONFLICT:
                conflict = lock.conflict_of(self.source.fence.ref.source)
                if conflict is not None:
                    raise conflict
                return "for a user's decision about which DDL is executed"
            case Turn.DIFFERS:
                mine, decided = item_due(group, names).ddls, sorted(self.decided(group) or ())
                texts = tuple("; ".join(one) for one in decided)
                raise ShardDdlRunWithoutSource(lock.id, lock.number, self.source.fence.ref.source, mine, texts)
            case Turn.SOURCES:
                return f"for {', '.join(lock.unsynced)}"
            case Turn.OWNER:
                return f"for {lock.owner}, which executes it"
            case _:
                return self._not_ready(group, item_due(group, names), lock)

    def _group_of(self, source: str, target: TableName) -> Group | None:
        ref = self.source.fence.ref.of_source(source)
        groups = read_groups(target_connection(self.source.target), ref)
        return next((lock for lock in groups if lock.target == target), None)

    def _not_ready(self, group: Group, item: ShardDdl, lock: locks.Lock) -> str:
        """Return why the DDL cannot be executed according to the target, as "for …"; "": it can."""
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        held = held_shards(connection, ref, group.target)
        members = {(shard.source, shard.member.table): shard.member for shard in held}
        groups: dict[str, Group | None] = {}
        altered, new = _altered_columns(item), frozenset[str]()
        if lock.decision is not None and lock.unsynced:
            new = _new_columns(item, column_names(connection, group.target))
        for feeder in load_feeders(connection, ref):
            if feeder.target != group.target:
                continue
            if feeder.source not in groups:
                groups[feeder.source] = self._group_of(feeder.source, group.target)
            there, member = groups[feeder.source], members.get((feeder.source, feeder.table))
            if lock.decision is not None and feeder.source in lock.unsynced:
                if lock.decision is locks.Action.SKIP:
                    continue
                if lacks := altered.difference(self._columns_of(feeder)):
                    rows = f"{feeder.table} of {feeder.source}, whose rows lack the column {min(lacks)}"
                    return f"for {rows} that it alters"
                if has := new.intersection(self._columns_before(feeder, there, member, group.resolved)):
                    rows = f"{feeder.table} of {feeder.source}, whose rows have another column {min(has)}"
                    return f"for {rows} than the one that it adds"
                continue
            outdated = there is None or there.resolved != group.resolved or there.resync is not None
            if outdated or member is None or not member.items:
                return f"for {feeder.table} of {feeder.source}"
            if lock.decision is None and member.items[0].ddls != item.ddls:
                return f"for {feeder.source}, which has executed other DDL on {feeder.table}"
        return self._waiting(group.target)

    def _columns_of(self, feeder: Feeder) -> Collection[str]:
        """Return the columns of a source table at the current position of its source."""
        ref = self.source.fence.ref.of_source(feeder.source)
        known = load_table_schemas(target_connection(self.source.target), ref)
        return {name for schema in known if schema.table.name == feeder.table for name in schema.table.by_name}

    def _columns_before(
        self, feeder: Feeder, group: Group | None, member: Member | None, number: int
    ) -> Collection[str]:
        """Return the columns of the rows of a source table, before its DDL of that number, that are not applied yet.

        `group`, `member`: those of its source, if it has them.
        """
        if group is None or member is None:
            return self._columns_of(feeder)
        forms = [item.table for item in member.items[: number - group.resolved]]
        if group.resync is not None:
            forms += [piece.table for piece in group.resync.pieces if piece.shard == feeder.table]
        return {name for form in forms for name in form.by_name}

    def _waiting(self, target: TableName, *, of_source: str = "") -> str:
        """Return the number of contested rows, as a reason to wait; "": none. They have the form before the DDL."""
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        rows = [one for one in waiting(connection, ref) if one.target == target and of_source in ("", one.source)]
        return f"for {sum(one.rows for one in rows)} rows of {target} that wait for their places" if rows else ""

    # Reports to the lock

    def report_executed(self, group: Group) -> None:
        """Report to the lock that the DDL has been executed."""
        me = self.source.fence.ref.source
        self._try(group.target, group.resolved, lambda lock: locks.executed(lock, me))

    def report_passed(self, target: TableName, number: int) -> None:
        """Report to the lock that this source has passed the DDL."""
        me = self.source.fence.ref.source
        self._unreported.discard((target, number))
        if not self._try(target, number, lambda lock: locks.continued(lock, me)):
            self._unreported.add((target, number))

    def report_again(self, groups: Mapping[TableName, Group]) -> None:
        """Report all DDL that this source has passed to the locks: an earlier run may have died before its report."""
        task = self.source.fence.ref.task
        for body, _ in self.store.ddl_locks(task):
            lock = locks.Lock.from_json(body)
            group = groups.get(lock.target)
            if group is not None and lock.number < group.resolved - (group.resync is not None):
                self.report_passed(lock.target, lock.number)

    def report_pending(self) -> None:
        """Repeat the failed reports: a lock without them would never be removed."""
        for target, number in sorted(self._unreported, key=str):
            self.report_passed(target, number)

    def _try(self, target: TableName, number: int, change: Callable[[locks.Lock], locks.Lock | None]) -> bool:
        """Change the lock, if it exists. Return False after an error, which is logged: the target has the record."""
        try:
            self._change(target, number, lambda lock: None if lock is None else change(lock))
        except DmError as error:
            log.warning("the DDL lock of %s could not be updated: %s", target, error)
            return False
        return True

    def _change(self, target: TableName, number: int, change: Becomes) -> locks.Lock | None:
        """Change the lock atomically, with retries after concurrent changes. Return None if it does not exist or was
        removed."""
        task = self.source.fence.ref.task

        def body(value: Json | None) -> Json | None:
            after = change(None if value is None else locks.Lock.from_json(value))
            return None if after is None else after.to_json()

        lock = self.store.change_ddl_lock(task, locks.lock_id(task, target), number, body)
        return None if lock is None else locks.Lock.from_json(lock)


def unbegun_routers(source: SyncSource) -> list[Router]:
    """Return the routers of the task's sources that have not begun. DDL on their target tables waits for them."""
    ref, job = source.fence.ref, source.job
    begun = begun_subtasks(target_connection(source.target), ref.meta_schema, ref.task, job.task.source_ids)
    return [SubtaskRules.of(job.subtask(name)).router for name in job.task.source_ids if name not in begun]


def _altered_columns(item: ShardDdl) -> frozenset[str]:
    """Return the columns whose definitions the target's statements alter.

    This may change their default. Rows of a source that lacks such a column would get the new default, instead of the
    value from the DDL that adds the column.
    """
    return frozenset(one.name.lower() for one in _specs(item) if isinstance(one, ChangeColumn | SetDefault))


def _new_columns(item: ShardDdl, there: Collection[str]) -> frozenset[str]:
    """Return the names that columns get by the target's statements, except those that the target has already (`there`).

    Rows of a source that has another column of such a name would be written to the new one.
    """
    released, given = changed_columns(_specs(item))
    return frozenset(given.difference(set(there) - released))


def _specs(item: ShardDdl) -> Iterator[object]:
    """Yield the parts of the target's ALTER TABLE statements."""
    mode = sql_mode_of([Setting(name, value) for name, value in item.how["session"]])
    for statement in item.how["statements"]:
        parsed = parse(statement["sql"], mode, "")
        if isinstance(parsed, AlterTable):
            yield from parsed.specs


def item_due(group: Group, names: Collection[TableName]) -> ShardDdl:
    """Return the next DDL of a group, which all shards of the source have executed."""
    item = due_item(group, names)
    assert item is not None
    return item
