"""The GTID set of the place where an epoch ends that may be half written: by it the place is found in another server's
log, where the same transactions lie elsewhere.

It is noted in dm_ddl, where the end of the epoch stands for that of a statement, before anything of the epoch is
written. There is at most one.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.target.ddl_journal import EDGE, note_intent
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef

_NOTED: Final = "task = %s AND source = %s AND number = %s"


def note_edge(connection: Connection, fence: Fence, edge: Location) -> None:
    """Note the GTID set of the end of an epoch, as a transaction of its own. Raises Fenced or TargetWentBack."""
    ref = fence.ref
    note_intent(connection, fence, edge.sort_key, EDGE, edge.gtid_set, {})
    query(
        connection,
        f"DELETE FROM {ref.table('dm_ddl')} WHERE {_NOTED} AND position <> %s",
        (*ref.lane_key, EDGE, edge.sort_key),
    )


def edge_set(connection: Connection, ref: SubtaskRef, position: str) -> str:
    """Return the GTID set of the place where an epoch ends that was begun; "": it is not noted."""
    sql = f"SELECT statement FROM {ref.table('dm_ddl')} WHERE {_NOTED} AND position = %s"
    rows = query(connection, sql, (*ref.lane_key, EDGE, position))
    return text(rows[0][0]) if rows else ""


def move_edge(connection: Connection, fence: Fence, edge: str, to: Location) -> None:
    """Move the end of an epoch that is half written to the place where another server's log has it, as a transaction of
    its own. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    ref, new = fence.ref, to.sort_key
    for column in ("position", "released"):
        query(
            connection,
            f"UPDATE {ref.table('dm_frontier')} SET {column} = %s WHERE task = %s AND source = %s AND {column} = %s",
            (new, *ref.lane_key, edge),
        )
    note_edge(connection, fence, to)
