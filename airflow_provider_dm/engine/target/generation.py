"""The fence: a number that only grows, held by every row which a transaction of the engine writes.

Whoever starts work claims a generation above all before it. The claim updates every frontier and chunk row, so it waits
for the transactions of the writer before (they hold those rows) and makes all later ones fail: an executor or a driver
that was frozen, cut off or forgotten can only be refused. Leases tell people and schedulers who should be working;
this row decides who can.
"""

from __future__ import annotations

import uuid

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.target.identity import Fence, Fenced, SubtaskRef
from airflow_provider_dm.engine.target.session import run_transaction


def current_generation(connection: Connection, ref: SubtaskRef) -> int:
    """Return the generation that the target accepts; 0 for a subtask that it has never seen."""
    rows = query(
        connection, f"SELECT generation FROM {ref.table('dm_subtask')} WHERE task = %s AND source = %s", ref.key
    )
    return int(rows[0][0]) if rows else 0


def claim_generation(endpoint: Endpoint, fence: Fence) -> None:
    """Make this generation the only one that may write, once every transaction of the one before has ended.

    Creates the dm_subtask row (unit `new`) where there is none. Raises Fenced when the target has seen this generation
    or a later one.
    """
    claim = str(uuid.uuid4())  # tells our own retry after a lost COMMIT from another's claim of the same number

    def body(connection: Connection) -> None:
        _claim_subtask(connection, fence, claim)
        for name, key in (
            ("dm_frontier", fence.ref.key),
            ("dm_frontier", fence.ref.resync().lane_key),
            ("dm_copy_chunk", fence.ref.key),
        ):
            query(
                connection,
                f"UPDATE {fence.ref.table(name)} SET generation = %s WHERE task = %s AND source = %s",
                (fence.generation, *key),
            )

    run_transaction(endpoint, body)


def _claim_subtask(connection: Connection, fence: Fence, claim: str) -> None:
    key, generation, subtask = fence.ref.key, fence.generation, fence.ref.table("dm_subtask")
    where = "WHERE task = %s AND source = %s"
    rows = query(connection, f"SELECT generation, claim FROM {subtask} {where} FOR UPDATE", key)
    if not rows:
        query(
            connection,
            f"INSERT INTO {subtask} (task, source, generation, claim, unit, buckets, hash_version, updated_at) "
            "VALUES (%s, %s, %s, %s, 'new', 0, 0, UTC_TIMESTAMP(6))",
            (*key, generation, claim),
        )
        return
    ((found, holder),) = rows
    if int(found) >= generation and (int(found), text(holder)) != (generation, claim):
        raise Fenced(*key, generation, int(found))
    query(
        connection,
        f"UPDATE {subtask} SET generation = %s, claim = %s, updated_at = UTC_TIMESTAMP(6) {where}",
        (generation, claim, *key),
    )
