"""The dm_subtask row and the birth of its frontier: where a subtask stands, in the target, beside its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, query_whole, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.schema.catalogue import has_table
from airflow_provider_dm.engine.target.frontier import begin_frontier
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.meta_rows import MetaRows
from airflow_provider_dm.engine.target.meta_tables import meta_table
from airflow_provider_dm.engine.target.prepared_xa import forget_prepared
from airflow_provider_dm.engine.target.safe_mode_window import begin_window
from airflow_provider_dm.engine.target.shard_groups import forget_groups

SUBTASKS: Final = MetaRows("dm_subtask")
_TIMED: Final = "updated_at = UTC_TIMESTAMP(6)"
BUCKETS: Final = 64
"""Hash classes of a subtask's rows. Kept in dm_subtask: it may change only while all buckets stand at one place."""
HASH_VERSION: Final = 1

UNIT_NEW: Final = "new"
UNIT_LOAD: Final = "load"
UNIT_SYNC: Final = "sync"


class SubtaskMissing(DmError):
    """The target knows nothing of this subtask."""

    task: str
    source: str

    code = "DM-6011"
    scope = Scope.DOWNSTREAM
    what = "the target has no full load of source {source} in task {task}, so there is nowhere to sync from."
    hint = "Run the full migration first, or set task-mode to incremental with a start location (`meta`)."


@dataclass(frozen=True)
class Subtask:
    """One row of dm_subtask. `overwrite_until` None: every row that is covered is as the log has it."""

    task: str
    source: str
    generation: int
    unit: str
    buckets: int
    hash_version: int
    plan: str
    """Fingerprint of the sync plan that the frontier was last moved by; "" for none."""
    start: Location | None
    overwrite_until: Location | None
    location: Location | None
    """Where the last finished epoch ended, with its GTID set; dm_frontier is what counts."""

    @property
    def exact(self) -> bool:
        """The load is complete and the sync is behind it: every row in the target is as the log says."""
        if self.unit != UNIT_SYNC or self.location is None:
            return False
        return self.overwrite_until is None or has_passed(self.location, self.overwrite_until)


def read_subtask(connection: Connection, ref: SubtaskRef) -> Subtask | None:
    """Return the subtask's row; None where no claim was ever made."""
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
    """Return what the target knows of a task, by source; nothing where the account sees no table of ours."""
    there = has_table(connection, TableName(meta_schema, SUBTASKS.table))
    found = [read_subtask(connection, SubtaskRef(meta_schema, task, source)) for source in sources] if there else []
    return {subtask.source: subtask for subtask in found if subtask is not None}


def list_subtasks(connection: Connection, meta_schema: str, task: str = "") -> list[Subtask]:
    """Return all that the target knows, or all of one task, by task and source. Raises AnswerCut."""
    if not has_table(connection, TableName(meta_schema, SUBTASKS.table)):
        return []
    rows = query_whole(
        connection,
        "task, source",
        f"FROM {meta_table(meta_schema, 'dm_subtask')} WHERE %s IN ('', task)",
        (task,),
        tail="ORDER BY 1, 2",
    )
    found = (read_subtask(connection, SubtaskRef(meta_schema, text(one), text(source))) for one, source in rows)
    return [one for one in found if one is not None]


def begun_subtasks(connection: Connection, meta_schema: str, task: str, sources: Iterable[str]) -> dict[str, Subtask]:
    """Return those of a task's sources that have begun."""
    known = known_subtasks(connection, meta_schema, task, sources)
    return {source: one for source, one in known.items() if one.start is not None}


def noted_place(known: Subtask | None, configured: Location | None) -> Location | None:
    """Return from where on a task reads the log, as far as is noted: its checkpoint, maybe seconds old, or else what
    its configuration says. So it is, too, as long as nothing is applied and that names another place now."""
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
    """Set, inside a transaction, where the log is read from, and create the frontier there.

    `overwrite_until`: up to there, and then for `safe_mode_seconds` of log time, rows may collide, as the past is not
    exact (sync/safe_mode/states.py).
    For a subtask of which nothing is applied yet; changing it under a frontier that stands elsewhere would lose rows.
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
    """Note, inside a transaction, that all keys are covered: from here on it syncs. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    SUBTASKS.update(connection, fence.ref, f"unit = %s, {_TIMED}", (UNIT_SYNC,))


def note_plan(connection: Connection, fence: Fence, plan: str) -> None:
    """Note, inside a transaction, the plan that the frontier is moved by from here on.

    Raises Fenced or TargetWentBack.
    """
    fence.check(connection)
    SUBTASKS.update(connection, fence.ref, "plan = %s", (plan,))


def note_location(connection: Connection, fence: Fence, location: Location, *, exact: bool = False) -> None:
    """Keep, inside a transaction, the GTID set that belongs to a place where all buckets stand.

    `exact`: rows are written over no longer. Raises Fenced or TargetWentBack.
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
