"""dm_shard_group and dm_shard_member: merged tables whose shards have to agree on DDL, and the shards that are held.

Both are written by the transaction that moves the frontier past a shard's DDL, or by a fenced one, so the held-back
rows and the skipped part of the log are always consistent.

Each re-sync has a lane of its own in dm_frontier. The lane of the next one may begin before the end of this one, so
under one name a Spark task of this one, if it was replaced and wakes during the next, could find its beginning again.

The execution of a merged table's DDL in the target is recorded in dm_ddl, in a lane that all sources share: the entry
COMMITTED at its number, with the DDL texts that it settles. It is written after the statements, by the source that has
executed them. Another source that reaches the same number finds it there; after a crash in between, the statements' own
entries exist (ddl_journal.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from airflow_provider_dm.engine.downstream.ddl_journal import COMMITTED, JOURNAL, note_intent
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import FRONTIER, OF_TABLE, OF_TARGET, MetaRows, name_of
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Group, Member, Resync, ShardDdl
from airflow_provider_dm.engine.shard.lock import Ddls

_GROUPS: Final = MetaRows("dm_shard_group")
_MEMBERS: Final = MetaRows("dm_shard_member")
_RESYNC: Final = TypeAdapter(Resync)
_ITEMS: Final = TypeAdapter(tuple[ShardDdl, ...])
_MEMBER: Final = "source, table_schema, table_name, target_schema, target_name, base, items"


@dataclass(frozen=True)
class HeldShard:
    """A held shard of any source, and its merged table."""

    source: str
    target: TableName
    member: Member


def read_groups(connection: Connection, ref: SubtaskRef) -> list[Group]:
    """Return the groups of a subtask. Raises IncompleteResult."""
    rows = _GROUPS.read(connection, ref, "target_schema, target_name, resolved, resync", tail="ORDER BY 1, 2")
    held = _shards(_MEMBERS.read(connection, ref, _MEMBER)) if rows else []
    groups = []
    for schema, name, resolved, resync in rows:
        target = name_of(schema, name)
        members = tuple(shard.member for shard in held if shard.target == target)
        left = _RESYNC.validate_json(text(resync)) if text(resync) else None
        groups.append(Group(target, int(resolved), members, left))
    return groups


def merged_targets(connection: Connection, ref: SubtaskRef) -> frozenset[TableName]:
    """Return the target tables that have ever received rows of several source tables, as the syncs of the task
    recorded. Raises IncompleteResult.
    """
    rows = _GROUPS.read_of_task(connection, ref, "target_schema, target_name")
    return frozenset(name_of(schema, name) for schema, name in rows)


def held_shards(connection: Connection, ref: SubtaskRef, target: TableName) -> list[HeldShard]:
    """Return the held shards of a merged table, of all sources of the task. Raises IncompleteResult."""
    return _shards(_MEMBERS.read_of_task(connection, ref, _MEMBER, OF_TARGET, target))


def _shards(rows: list[tuple[Any, ...]]) -> list[HeldShard]:
    shards = []
    for source, schema, name, to_schema, to_name, base, items in rows:
        made = _ITEMS.validate_json(text(items))
        member = Member(name_of(schema, name), Table.from_json(json.loads(text(base))), made)
        shards.append(HeldShard(text(source), name_of(to_schema, to_name), member))
    return sorted(shards, key=lambda shard: (shard.source, shard.member.table))


def is_releasing(connection: Connection, ref: SubtaskRef, target: TableName) -> bool:
    """Return True if held-back rows of a merged table, of any source, can be applied without a further DDL.

    While this is False, and a row waits for its key in the table, only that row's own log ends the wait.
    """
    executed = executed_ddls(connection, ref, target)
    holding = {shard.source for shard in held_shards(connection, ref, target)}
    groups = _GROUPS.read_of_task(connection, ref, "source, resolved, resync", OF_TARGET, target)
    return any(
        text(resync) or (text(source) in holding and int(resolved) < executed) for source, resolved, resync in groups
    )


def unfinished_targets(connection: Connection, ref: SubtaskRef, shared: Collection[TableName]) -> frozenset[TableName]:
    """Return merged tables with pending agreements, although only one source table may feed them by now: rows for them
    are held, or other sources have executed DDL that this one has not reached. Raises IncompleteResult."""
    rows = _MEMBERS.read_of_task(connection, ref, "target_schema, target_name")
    held = frozenset(name_of(schema, name) for schema, name in rows)
    mine = (group for group in read_groups(connection, ref) if group.target not in held.union(shared))
    return held.union(group.target for group in mine if group.resolved < executed_ddls(connection, ref, group.target))


def held_tables(connection: Connection, ref: SubtaskRef) -> frozenset[TableName]:
    """Return the names of the held shards of this source. Raises IncompleteResult."""
    rows = _MEMBERS.read(connection, ref, "table_schema, table_name")
    return frozenset(name_of(schema, name) for schema, name in rows)


def applied_form(connection: Connection, ref: SubtaskRef, table: TableName) -> Table | None:
    """Return the definition of a held shard's applied rows."""
    rows = _MEMBERS.select(connection, ref, "base", OF_TABLE, table)
    return Table.from_json(json.loads(text(rows[0][0]))) if rows else None


def save_group(connection: Connection, ref: SubtaskRef, group: Group) -> None:
    """Write a group and its held shards, in a transaction that has checked the generation."""
    resync = "" if group.resync is None else _RESYNC.dump_json(group.resync).decode()
    columns = "target_schema, target_name, resolved, resync"
    _GROUPS.put(connection, ref, columns, [(*group.target, group.resolved, resync)], now="updated_at")
    _MEMBERS.delete(connection, ref, OF_TARGET, group.target)
    rows = [
        (*member.table, *group.target, _json(member.base.to_json()), _ITEMS.dump_json(member.items).decode())
        for member in group.members
    ]
    columns = "table_schema, table_name, target_schema, target_name, base, items"
    _MEMBERS.put(connection, ref, columns, rows, now="updated_at", verb="INSERT")


def forget_groups(connection: Connection, ref: SubtaskRef) -> None:
    """Remove all rows of a subtask that starts from the beginning, inside the transaction that records the start."""
    for lane in refs_of_resyncs(connection, ref):
        FRONTIER.delete(connection, lane)
    for rows in (_GROUPS, _MEMBERS):
        rows.delete(connection, ref)


def note_resync(connection: Connection, fence: Fence, target: TableName, resync: Resync) -> None:
    """Record the progress of a group's re-sync, inside a transaction. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    _GROUPS.update(connection, fence.ref, "resync = %s", (_RESYNC.dump_json(resync).decode(),), OF_TARGET, target)


def resync_fence(fence: Fence, group: Group) -> Fence:
    """Return the same fence for the lane of a group's re-sync."""
    return fence.in_lane(_resync_lane(fence.ref, group.target, group.resolved))


def end_resync(connection: Connection, fence: Fence, group: Group) -> None:
    """Remove the frontier of a group's re-sync, in a transaction that has checked the generation."""
    FRONTIER.delete(connection, resync_fence(fence, group).ref)


def refs_of_resyncs(connection: Connection, ref: SubtaskRef) -> list[SubtaskRef]:
    """Return the lanes of all re-syncs of a subtask that have not ended."""
    rows = _GROUPS.select(connection, ref, "target_schema, target_name, resolved", "resync <> ''")
    return [ref.in_lane(_resync_lane(ref, name_of(schema, name), int(resolved))) for schema, name, resolved in rows]


def _resync_lane(ref: SubtaskRef, target: TableName, resolved: int) -> str:
    return "re-sync " + hashlib.sha256(f"{ref.source}\n{resolved}\n{target.quoted()}".encode()).hexdigest()[:40]


# Executed DDL


def ddl_lane(target: TableName) -> str:
    """Return the lane of dm_ddl for the DDL of a merged table."""
    return "shards " + hashlib.sha256(target.quoted().encode()).hexdigest()[:40]


def ddl_place(number: int) -> str:
    """Return the position of a DDL in that lane."""
    return f"{number:020d}"


def executed_ddls(connection: Connection, ref: SubtaskRef, target: TableName) -> int:
    """Return the number of DDL statements of a merged table that were executed, or count as executed, in the task."""
    in_lane = ref.in_lane(ddl_lane(target))
    ((place,),) = JOURNAL.select(connection, in_lane, "COALESCE(MAX(position), '')", "number = %s", (COMMITTED,))
    return int(text(place)) + 1 if place else 0


def decided_ddls(connection: Connection, ref: SubtaskRef, target: TableName, number: int) -> frozenset[Ddls] | None:
    """Return the texts that the DDL of this number settles; None: it has not been executed."""
    where = "number = %s AND position = %s"
    rows = JOURNAL.select(connection, ref.in_lane(ddl_lane(target)), "statement", where, (COMMITTED, ddl_place(number)))
    return frozenset(map(tuple, json.loads(text(rows[0][0])))) if rows else None


def note_executed(
    connection: Connection, fence: Fence, target: TableName, number: int, settled: Collection[Ddls]
) -> None:
    """Record, in a transaction of its own, that a DDL was executed. `settled`: its texts, and those that a user has
    accepted for it. Raises Fenced or TargetWentBack."""
    note_intent(connection, fence.in_lane(ddl_lane(target)), ddl_place(number), COMMITTED, _json(sorted(settled)), {})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
