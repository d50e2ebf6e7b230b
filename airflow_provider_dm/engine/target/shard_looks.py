"""dm_shard_look: how often a source has looked whether rows that it holds back give places of a merged table free.

Whoever waits for such a place learns from it that its holder's source has looked since, and has not made room.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef

_TABLE: Final = "dm_shard_look"


def note_look(connection: Connection, fence: Fence, target: TableName) -> None:
    """Note, as a transaction of its own, one more look at all rows that waited. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    query(
        connection,
        f"INSERT INTO {fence.ref.table(_TABLE)} (task, source, target_schema, target_name, looks) "
        "VALUES (%s, %s, %s, %s, 1) ON DUPLICATE KEY UPDATE looks = looks + 1",
        (*fence.ref.key, *target),
    )


def load_looks(connection: Connection, ref: SubtaskRef, target: TableName) -> dict[str, int]:
    """Return by source of the task how often it has looked."""
    rows = query(
        connection,
        f"SELECT source, looks FROM {ref.table(_TABLE)} WHERE task = %s AND target_schema = %s AND target_name = %s",
        (ref.task, *target),
    )
    return {text(source): int(looks) for source, looks in rows}
