"""Merged tables that cannot be compared, because a DDL lock holds back rows of their shards.

A merged table contains the rows of all its shards. While rows are held back, a real difference cannot be distinguished
from a held-back row, so the comparison of such a table reports the lock and lists no differing rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard, held_shards, merged_targets
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import has_table
from airflow_provider_dm.engine.shard.lock import lock_id

Json = dict[str, Any]


@dataclass(frozen=True)
class HeldBack:
    """The DDL lock of a merged table, the shards whose rows it holds back, and the DDL that these shards wait for."""

    lock: str
    shards: tuple[str, ...]
    ddls: tuple[str, ...]

    @classmethod
    def of(cls, task: str, target: TableName, members: Iterable[HeldShard]) -> HeldBack:
        held = list(members)
        shards = tuple(f"{shard.source}:{shard.member.table}" for shard in held)
        ddls = dict.fromkeys(ddl for shard in held for item in shard.member.items[:1] for ddl in item.ddls)
        return cls(lock_id(task, target), shards, tuple(ddls))


def read_held_back(connection: Connection, meta_schema: str, task: str) -> dict[TableName, HeldBack]:
    """Return the locks that hold back rows of a task, by merged table. Raises IncompleteResult."""
    if not has_table(connection, TableName(meta_schema, "dm_shard_member")):
        return {}  # no sync has started
    ref = SubtaskRef(meta_schema, task, source="")  # all sources have the same merged tables
    held = {target: held_shards(connection, ref, target) for target in merged_targets(connection, ref)}
    return {target: HeldBack.of(task, target, members) for target, members in held.items() if members}


def with_lock(table: Json, held: Mapping[str, HeldBack]) -> Json:
    """Return the result of a table's comparison. If it differs while rows are held back, it has the lock, no rows."""
    lock = held.get(table["target"])
    if lock is None or table["equal"]:
        return table
    why = f"rows of {', '.join(lock.shards)} are held back by DDL lock {lock.lock}"
    why += f"; and {table['why']}" if table["why"] else ""  # a reason besides the lock
    held_back = {"lock": lock.lock, "shards": list(lock.shards), "DDLs": list(lock.ddls)}
    return {**table, "why": why, "differing": [], "held_back": held_back}
