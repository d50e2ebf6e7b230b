"""Shards of a merged table without a key: each was copied from one place of its log, and its rows are exact behind it.

Those of tables with keys are so only when all loads and their catch-up are over; until then a shard's DDL cannot be
followed, as rows from behind it may be in the target already.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import existing, read_tables
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables


def is_behind_its_copy(change: SchemaChange, before: SubtaskTables, target: Connection) -> bool:
    """Tell whether a statement of a shard lies behind all that was copied of it, in a merged table without a key.

    Statements in front of that place are passed over, as they are in the copy. A key that it gives the merged table
    waits until all are behind their loads (sync/shard_ddl/shard_locks.py).
    """
    if change.agreed is None:
        return False
    old, new = before.schema(change.agreed), change.tables.schema(change.agreed)
    return old is not None and new is not None and bool(old.skip_until) and are_keyless(target, (new.target,))


def are_keyless(target: Connection, names: Collection[TableName]) -> bool:
    """Tell whether tables of the target are there and have no key."""
    there = existing(target, names)
    return there.issuperset(names) and all(one.identity is None for one in read_tables(target, names).values())
