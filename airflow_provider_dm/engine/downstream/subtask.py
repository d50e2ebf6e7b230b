"""The dm_subtask row and the creation of its frontier: the state of a subtask, in the target, with its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.downstream.frontier import begin_frontier
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.downstream.prepared_xa import forget_prepared
from airflow_provider_dm.engine.downstream.safe_mode_window import begin_window
from airflow_provider_dm.engine.downstream.shard_groups import forget_groups
from airflow_provider_dm.engine.mysql.connection import Connection, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.schema.catalogue import has_table

SUBTASKS: Final = MetaRows("dm_subtask")
_TIMED: Final = "updated_at = UTC_TIMESTAMP(6)"
BUCKETS: Final = 64
"""Hash classes of a subtask's rows, stored in dm_subtask: a change requires that all buckets are at one position."""
HASH_VERSION: Final = 2

UNIT_NEW: Final = "new"
UNIT_LOAD: Final = "load"
UNIT_SYNC: Final = "sync"


@dataclass(frozen=True)
class Subtask:
    """One row of dm_subtask. `overwrite_until` None: every covered row is as in the log."""

    task: str
    source: str
    generation: int
    unit: str
    buckets: int
    hash_version: int
    plan: str
    """Fingerprint of the sync plan by which the frontier was last moved; "" if there is none."""
    start: Location | None
    overwrite_until: Location | None
    location: Location | None
    """The end of the last finished epoch, with its GTID set; dm_frontier is authoritative."""

    @property
    def exact(self) -> bool:
        """True if the load is complete and the past is exact: every row in the target is as in the log."""
        if self.unit != UNIT_SYNC or self.location is None:
            return False
        return self.overwrite_until is None or has_passed(self.location, self.overwrite_until)


def read_subtask(connection: Connection, ref: SubtaskRef) -> Subtask | None:
    """Return the subtask's row; None if it was never claimed."""
    columns = "generation, unit, buckets, hash_version, plan, start_location, overwrite_until, location"
    rows = SUBTASKS.select(connection, ref, columns)
    if not rows:
        return None
    ((generation, unit, buckets, hash_version, plan, start, overwrite_until, location),) = rows
    return Subtask(
        *ref.key,
        int(generation),
        text(unit),
        int(buckets),
        int(hash_version),
        text(plan),
        _location(start),
        _location(overwrite_until),
        _location(location),
    )


def known_subtasks(connection: Connection, meta_schema: str, task: str, sources: Iterable[str]) -> dict[str, Subtask]:
    """Return a task's subtasks by source; empty if the account sees no tables of the meta-schema."""
    there = has_table(connection, TableName(meta_schema, SUBTASKS.table))
    subtasks = [read_subtask(connection, SubtaskRef(meta_schema, task, source)) for source in sources] if there else []
    return {subtask.source: subtask for subtask in subtasks if subtask is not None}


def list_subtasks(connection: Connection, meta_schema: str, task: str = "") -> list[Subtask]:
    """Return all subtasks, or all of one task, by task and source. Raises IncompleteResult."""
    table = TableName(meta_schema, SUBTASKS.table)
    if not has_table(connection, table):
        return []
    rows = query_whole(
        connection, "task, source", f"FROM {table.quoted()} WHERE %s IN ('', task)", (task,), tail="ORDER BY 1, 2"
    )
    subtasks = (read_subtask(connection, SubtaskRef(meta_schema, text(one), text(source))) for one, source in rows)
    return [subtask for subtask in subtasks if subtask is not None]


def begun_subtasks(connection: Connection, meta_schema: str, task: str, sources: Iterable[str]) -> dict[str, Subtask]:
    """Return a task's subtasks that have started."""
    known = known_subtasks(connection, meta_schema, task, sources)
    return {source: subtask for source, subtask in known.items() if subtask.start is not None}


def noted_place(known: Subtask | None, configured: Location | None) -> Location | None:
    """Return the recorded location from which a task reads the log: its checkpoint, possibly seconds old, or else the
    configured location, which also counts while nothing is applied and the configuration has changed."""
    if known is None or known.start is None or known.location is None:
        return configured
    same = configured is None or (configured.file, configured.position) == (known.start.file, known.start.position)
    return known.location if same or known.location.sort_key != known.start.sort_key else configured


def begin_subtask(
    connection: Connection,
    fence: Fence,
    *,
    unit: str,
    start: Location,
    overwrite_until: Location | None = None,
    safe_mode_seconds: int = 0,
) -> None:
    """Set, inside a transaction, the location from which the log is read, and create the frontier there.

    `overwrite_until`: up to there, and then for `safe_mode_seconds` of log time, rows may collide, as the past is not
    exact (sync/safe_mode/states.py). Only for a subtask of which nothing is applied yet; otherwise rows would be lost.
    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    ref = fence.ref
    changes = "unit = %s, buckets = %s, hash_version = %s, start_location = %s, overwrite_until = %s, location = %s"
    new = (unit, BUCKETS, HASH_VERSION, _json(start), _json(overwrite_until), _json(start))
    SUBTASKS.update(connection, ref, f"{changes}, {_TIMED}", new)
    forget_prepared(connection, ref)
    forget_groups(connection, ref)
    begin_window(connection, ref, safe_mode_seconds)
    begin_frontier(connection, fence, start.sort_key, BUCKETS)


def complete_load(connection: Connection, fence: Fence) -> None:
    """Record, inside a transaction, that all keys are covered, which starts the sync.

    Raises the errors of `Fence.check`.
    """
    fence.check(connection)
    SUBTASKS.update(connection, fence.ref, f"unit = %s, {_TIMED}", (UNIT_SYNC,))


def note_plan(connection: Connection, fence: Fence, plan: str) -> None:
    """Record, inside a transaction, the plan by which the frontier is moved from here on.

    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    SUBTASKS.update(connection, fence.ref, "plan = %s", (plan,))


def note_location(connection: Connection, fence: Fence, location: Location, *, exact: bool = False) -> None:
    """Record, inside a transaction, the GTID set of the location at which all buckets are.

    `exact`: rows are no longer overwritten. Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    changes = f"location = %s, {'overwrite_until = NULL, ' if exact else ''}{_TIMED}"
    SUBTASKS.update(connection, fence.ref, changes, (_json(location),))


def _location(cell: object) -> Location | None:
    return None if cell is None else _location_of(text(cell))


@lru_cache(256)
def _location_of(cell: str) -> Location:
    return Location.from_json(json.loads(cell))


def _json(location: Location | None) -> str | None:
    return None if location is None else json.dumps(location.to_json())
