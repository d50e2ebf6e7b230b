"""Reads the checkpoints of a task from the target, for `CheckpointHook` and `DmCheckpointOperator`."""

from __future__ import annotations

from typing import Any

from airflow_provider_dm.engine.downstream.dm_checkpoint import read_checkpoint
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import known_subtasks
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location


def checkpoint_json(session: Connection, ref: SubtaskRef) -> dict[str, Any] | None:
    """Return a subtask's checkpoint as JSON; None if neither this provider nor DM has written one.

    ``{"task", "source", "unit", "start", "location", "overwrite_until", "applied", "begun_up_to", "dm"}``: all changes
    before ``applied`` are in the target, and changes before ``begun_up_to`` may be (sort keys of locations); ``dm``:
    the points of DM's own table. Raises CheckpointUnusable.
    """
    subtask = known_subtasks(session, ref.meta_schema, ref.task, [ref.source]).get(ref.source)
    frontier = read_whole_frontier(session, ref) if subtask is not None else []
    dm = read_checkpoint(session, ref)
    if subtask is None and dm is None:
        return None
    applied, begun = extent(frontier) if frontier else (None, None)
    return {
        "task": ref.task,
        "source": ref.source,
        "unit": subtask.unit if subtask is not None else "new",
        "start": _json(subtask.start if subtask is not None else None),
        "location": _json(subtask.location if subtask is not None else None),
        "overwrite_until": _json(subtask.overwrite_until if subtask is not None else None),
        "applied": applied,
        "begun_up_to": begun,
        "dm": None if dm is None else dm.to_json(),
    }


def _json(location: Location | None) -> dict[str, Any] | None:
    return None if location is None else location.to_json()
