"""Does the target still have what was committed in it? Asked before it is claimed, by what the metadata DB remembers,
and before a run goes on after a failure, by what it has seen itself.

The metadata DB hears of a place only when all before it is in the target. A target that stands before that was restored
to an older state, or lost its last commits; whether rows and frontier were restored together, nobody here can tell. A
target that knows nothing of the subtask is another matter: a task that begins anew.
"""

from __future__ import annotations

from airflow_provider_dm.engine.meta.model import SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.target.frontier import extent, read_all_stands
from airflow_provider_dm.engine.target.identity import SubtaskRef, TargetWentBack
from airflow_provider_dm.engine.target.subtask import UNIT_SYNC, Subtask


def check_not_restored(connection: Connection, ref: SubtaskRef, subtask: Subtask | None, said: SubtaskStatus) -> None:
    """Compare what the target has of a subtask with what the metadata DB was told (`said`). Raises TargetWentBack."""
    if said.unit is Unit.SYNC and said.applied is not None and subtask is not None and subtask.start is not None:
        check_still_has(connection, ref, subtask, said.applied)


def check_still_has(connection: Connection, ref: SubtaskRef, subtask: Subtask, applied: Location) -> None:
    """Check that all before `applied`, which was committed in the target once, is there. Raises TargetWentBack."""
    known = f"all up to {applied}"
    if subtask.unit != UNIT_SYNC:
        raise TargetWentBack(*ref.key, "a full load under way", known)
    stands = read_all_stands(connection, ref)
    if not stands:
        raise TargetWentBack(*ref.key, "no frontier", known)
    lo, _ = extent(stands)
    if lo < applied.sort_key:
        raise TargetWentBack(*ref.key, f"what lies before {lo} (sub-directory, file, position)", known)
