"""dm_shard_group and dm_shard_member: merged tables whose shards are to agree on DDL, and the shards that are held.

Both are written by the transaction that moves the frontier over a shard's DDL, or by one behind the fence, so what is
held and where the log was passed over is always told together. What the JSON in them means is `shard/group.py`'s.

That the DDL of a merged table has been run in the target is known to dm_ddl, in a lane that all sources share: the
note COMMITTED at its number. It is written behind the statements, by the one that has run them. Whoever comes to run
the same number again finds it there; who died in between left the statements' own notes (ddl_journal.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.ddl_journal import COMMITTED, note_intent
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef, resync_lane

_GROUP: Final = "dm_shard_group"
_MEMBER: Final = "dm_shard_member"
_OF_SUBTASK: Final = "task = %s AND source = %s"


@dataclass(frozen=True)
class StoredMember:
    """A shard that is held, of any source. `items`: JSON."""

    source: str
    table: TableName
    target: TableName
    base: Table
    items: list[dict[str, Any]]


@dataclass(frozen=True)
class StoredGroup:
    """A group. `resync`: JSON; None: there is none."""

    target: TableName
    resolved: int
    resync: dict[str, Any] | list[dict[str, Any]] | None


def load_groups(connection: Connection, ref: SubtaskRef) -> list[StoredGroup]:
    """Return the groups of a subtask. Raises AnswerCut."""
    rows = query_whole(
        connection,
        "target_schema, target_name, resolved, resync",
        f"FROM {ref.table(_GROUP)} WHERE {_OF_SUBTASK}",
        ref.key,
        tail="ORDER BY 1, 2",
    )
    return [
        StoredGroup(_name(schema, name), int(resolved), json.loads(text(resync)) if text(resync) else None)
        for schema, name, resolved, resync in rows
    ]


def merged_targets(connection: Connection, ref: SubtaskRef) -> frozenset[TableName]:
    """Return the tables that have taken the rows of several source tables of the task once, as far as its syncs have
    seen it. Raises AnswerCut.
    """
    rows = query_whole(
        connection, "target_schema, target_name", f"FROM {ref.table(_GROUP)} WHERE task = %s", (ref.task,)
    )
    return frozenset(_name(schema, name) for schema, name in rows)


def load_members(connection: Connection, ref: SubtaskRef, target: TableName | None = None) -> list[StoredMember]:
    """Return the shards of this source that are held, in the order in which that began; or, of one merged table, those
    of all sources of the task. Raises AnswerCut.
    """
    where, values = _OF_SUBTASK, ref.key
    if target is not None:
        where, values = "task = %s AND target_schema = %s AND target_name = %s", (ref.task, *target)  # type: ignore[assignment]
    rows = query_whole(
        connection,
        "source, table_schema, table_name, target_schema, target_name, base, items",
        f"FROM {ref.table(_MEMBER)} WHERE {where}",
        values,
    )
    found = [
        StoredMember(
            text(source),
            _name(schema, name),
            _name(to_schema, to_name),
            Table.from_json(json.loads(text(base))),
            json.loads(text(items)),
        )
        for source, schema, name, to_schema, to_name, base, items in rows
    ]
    return sorted(found, key=lambda one: (one.source, one.table))


def held_tables(connection: Connection, ref: SubtaskRef) -> frozenset[TableName]:
    """Return the names of the shards of this source that are held. Raises AnswerCut."""
    return frozenset(one.table for one in load_members(connection, ref))


def applied_form(connection: Connection, ref: SubtaskRef, table: TableName) -> Table | None:
    """Return a shard as those of its rows are that are applied, if it is held."""
    rows = query(
        connection,
        f"SELECT base FROM {ref.table(_MEMBER)} WHERE {_OF_SUBTASK} AND table_schema = %s AND table_name = %s",
        (*ref.key, *table),
    )
    return Table.from_json(json.loads(text(rows[0][0]))) if rows else None


def save_group(connection: Connection, ref: SubtaskRef, group: StoredGroup, members: Iterable[StoredMember]) -> None:
    """Write a group and its held shards, in a transaction that has checked the generation."""
    query(
        connection,
        f"REPLACE INTO {ref.table(_GROUP)} (task, source, target_schema, target_name, resolved, resync, updated_at) "
        "VALUES (%s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
        (*ref.key, *group.target, group.resolved, "" if group.resync is None else _json(group.resync)),
    )
    query(
        connection,
        f"DELETE FROM {ref.table(_MEMBER)} WHERE {_OF_SUBTASK} AND target_schema = %s AND target_name = %s",
        (*ref.key, *group.target),
    )
    for one in members:
        query(
            connection,
            f"INSERT INTO {ref.table(_MEMBER)} (task, source, table_schema, table_name, target_schema, target_name, "
            "base, items, updated_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
            (*ref.key, *one.table, *group.target, _json(one.base.to_json()), _json(one.items)),
        )


def forget_groups(connection: Connection, ref: SubtaskRef) -> None:
    """Remove all of a subtask that begins anew, inside the transaction that says so."""
    for table in (_GROUP, _MEMBER):
        query(connection, f"DELETE FROM {ref.table(table)} WHERE {_OF_SUBTASK}", ref.key)
    end_resync(connection, ref)


def begin_resync(connection: Connection, fence: Fence, position: str, buckets: int) -> None:
    """Create the frontier of the re-sync lane, in a transaction that has checked the generation."""
    ref = fence.ref
    end_resync(connection, ref)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {ref.table('dm_frontier')} (task, source, bucket, position, generation) "
            "VALUES (%s, %s, %s, %s, %s)",
            [(ref.task, resync_lane(ref.source), bucket, position, fence.generation) for bucket in range(buckets)],
        )


def note_resync(connection: Connection, fence: Fence, target: TableName, resync: dict[str, Any]) -> None:
    """Note, inside a transaction, how a group's re-sync goes on. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    query(
        connection,
        f"UPDATE {fence.ref.table(_GROUP)} SET resync = %s "
        f"WHERE {_OF_SUBTASK} AND target_schema = %s AND target_name = %s",
        (_json(resync), *fence.ref.key, *target),
    )


def end_resync(connection: Connection, ref: SubtaskRef) -> None:
    """Remove the frontier of the re-sync lane, in a transaction that has checked the generation."""
    query(
        connection,
        f"DELETE FROM {ref.table('dm_frontier')} WHERE {_OF_SUBTASK}",
        (ref.task, resync_lane(ref.source)),
    )


# DDL that has been run


def ddl_lane(target: TableName) -> str:
    """Return the lane of dm_ddl in which the DDL of a merged table is noted."""
    return "shards " + hashlib.sha256(target.quoted().encode()).hexdigest()[:40]


def ddl_place(number: int) -> str:
    """Return the place of a DDL in that lane."""
    return f"{number:020d}"


def executed_ddls(connection: Connection, ref: SubtaskRef, target: TableName) -> int:
    """Return how many DDL statements of a merged table have been run, or taken for run, in the life of the task."""
    rows = query(
        connection,
        f"SELECT COALESCE(MAX(position), '') FROM {ref.table('dm_ddl')} "
        "WHERE task = %s AND source = %s AND number = %s",
        (ref.task, ddl_lane(target), COMMITTED),
    )
    place = text(rows[0][0])
    return int(place) + 1 if place else 0


def note_executed(connection: Connection, fence: Fence, target: TableName, number: int) -> None:
    """Note, as a transaction of its own, that a DDL has been run. Raises Fenced or TargetWentBack."""
    note_intent(connection, fence.in_lane(ddl_lane(target)), ddl_place(number), COMMITTED, "", {})


def _name(schema: object, table: object) -> TableName:
    return TableName(text(schema), text(table))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
