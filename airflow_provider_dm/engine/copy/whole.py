"""Source tables of a merged table without a key: nobody can tell their rows from others', yet something is known.

Each is copied whole, at one place (keyless.py). So before that it has no row in the target, and may leave the merged
table and come back (visiting.py). Behind it the log has all that comes, also what alters it, as the copy was of the
definition that it was planned with: the sync follows that, or stops there as it would later; task-mode full has it.

    P0 ──── ALTER o_1 ──── copy of o_1      not copied: o_1 leaves, and comes back when the target's table shows it
    P0 ──── copy of o_1 ──── ALTER o_1      of the log
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider_dm.engine.copy.keyless import AS_PLANNED
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, lock_chunks
from airflow_provider_dm.engine.target.identity import SubtaskRef


def without_rows(mappings: Iterable[TableMapping], chunks: Collection[ChunkProgress]) -> frozenset[TableName]:
    """Return the tables whose target has no key, and of which no row is there yet."""
    keyless = {one.source.name for one in mappings if one.target.identity is None}
    begun = {one.table for one in chunks if one.done or one.rows_copied}
    return frozenset(keyless & {one.table for one in chunks} - begun)


def was_copied_whole(name: TableName, chunks: Collection[ChunkProgress]) -> bool:
    """Tell whether what altered a table lies behind its copy in the log."""
    copied = [one for one in chunks if one.table == name]
    return bool(copied) and all(one.done and one.last_key == AS_PLANNED for one in copied)


def got_rows(connection: Connection, ref: SubtaskRef, tables: Iterable[TableName]) -> bool:
    """Tell whether a copy of these has ended since somebody looked, in a transaction that has checked the generation.

    From here on none of them ends until the transaction does."""
    return any(one.done or one.rows_copied for name in tables for one in lock_chunks(connection, ref, name))
