"""dm_xa: the XA transactions of a subtask's source that are prepared and not ended at the subtask's location.

A row has its range of locations: from `prepared_at` on, and until `ended_at`. So it may be written before the frontier
reaches it, and removed after the frontier has passed it: a reader at any location up to there gets the right answer.

    prepared at L  =  prepared_at <= L  and  (ended_at is empty or L < ended_at)

    epoch (100, 200] prepares x                 epoch (300, 400] commits x
    1. insert x, prepared_at 150                1. x.ended_at = 400
    2. apply it: all buckets go to 200          2. apply it with x's rows: buckets go from 300 to 400
    a crash before 2 is complete: at 100        a crash before 2 is complete: at 300 x is still prepared, and the
    nothing is prepared, and x is found again   same epoch is planned again with the same rows
                                                3. remove x

Each write follows a check of the generation, and may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.mysql.connection import Connection, text

_ROWS: Final = MetaRows("dm_xa")
_HAS_ENDED: Final = "ended_at <> '' AND ended_at <= %s"


def restore_prepared(connection: Connection, fence: Fence, here: str) -> list[PreparedXa]:
    """Return the XA transactions that are prepared at the sort key `here`, and remove all other rows, in a transaction.

    Raises Fenced, TargetWentBack, IncompleteResult.
    """
    fence.check(connection)
    _ROWS.delete(connection, fence.ref, f"(prepared_at > %s OR ({_HAS_ENDED}))", (here, here))
    return read_prepared(connection, fence.ref)


def read_prepared(connection: Connection, ref: SubtaskRef) -> list[PreparedXa]:
    """Return all rows in the order of the log. Raises IncompleteResult."""
    rows = _ROWS.read(connection, ref, "log_place", tail="ORDER BY prepared_at")
    return [PreparedXa.from_json(json.loads(text(place))) for (place,) in rows]


def note_prepared(
    connection: Connection, fence: Fence, *, began: Sequence[PreparedXa], ended: Sequence[PreparedXa], hi: str
) -> None:
    """Record, inside a transaction, the XA transactions that the epoch up to the sort key `hi` prepares and ends.

    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    rows = [(transaction.prepared_at, str(transaction.xid), json.dumps(transaction.to_json())) for transaction in began]
    _ROWS.put(connection, fence.ref, "prepared_at, xid, log_place", rows)
    for xid in ended:
        _ROWS.update(connection, fence.ref, "ended_at = %s", (hi,), "prepared_at = %s", (xid.prepared_at,))


def forget_ended(connection: Connection, fence: Fence, here: str) -> None:
    """Remove, in a transaction, the XA transactions ended at the sort key `here`, which all buckets have reached.

    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    _ROWS.delete(connection, fence.ref, _HAS_ENDED, (here,))


def forget_prepared(connection: Connection, ref: SubtaskRef) -> None:
    """Remove all rows of a subtask that starts from the beginning, inside the transaction that records the start."""
    _ROWS.delete(connection, ref)
