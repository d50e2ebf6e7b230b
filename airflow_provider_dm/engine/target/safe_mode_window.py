"""dm_safe_mode: the log time of subtasks whose past is not ours, and where it ends (sync/safe_mode.py).

A row is written with the subtask's start, and moved before the piece of the log is applied that moves it: whoever takes
over finds what an epoch that may be half applied was written by. No row: no log time is to go by.
"""

from __future__ import annotations

import json

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef

Noted = tuple[int, int | None, Location | None]
"""Seconds of log time; the commit time with which it ends; the place where it ends."""


def read_window(connection: Connection, ref: SubtaskRef) -> Noted | None:
    """Return what is noted; None: nothing."""
    rows = query(
        connection,
        f"SELECT seconds, ends_at, exit_location FROM {_table(ref)} WHERE task = %s AND source = %s",
        ref.key,
    )
    if not rows:
        return None
    ((seconds, ends_at, found),) = rows
    place = None if found is None else Location.from_json(json.loads(text(found)))
    return int(seconds), None if ends_at is None else int(ends_at), place


def begin_window(connection: Connection, ref: SubtaskRef, seconds: int) -> None:
    """Note, inside the transaction that begins a subtask, how much log time is to go by."""
    query(connection, f"DELETE FROM {_table(ref)} WHERE task = %s AND source = %s", ref.key)
    if seconds:
        query(
            connection,
            f"INSERT INTO {_table(ref)} (task, source, seconds, updated_at) VALUES (%s, %s, %s, UTC_TIMESTAMP(6))",
            (*ref.key, seconds),
        )


def note_window(connection: Connection, fence: Fence, ends_at: int | None, place: Location | None) -> None:
    """Note, inside a transaction, what is known of its end now. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    query(
        connection,
        f"UPDATE {_table(fence.ref)} SET ends_at = %s, exit_location = %s, updated_at = UTC_TIMESTAMP(6) "
        "WHERE task = %s AND source = %s",
        (ends_at, None if place is None else json.dumps(place.to_json()), *fence.ref.key),
    )


def _table(ref: SubtaskRef) -> str:
    return ref.table("dm_safe_mode")
