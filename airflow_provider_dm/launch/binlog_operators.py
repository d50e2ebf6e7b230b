"""Sets and reverts binlog operators on sources of a task, for `dmctl binlog`, DAGs and the page "DM"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorPlace, SqlPattern, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.ddl.operator_selection import (
    binlog_pos_invalid,
    named_place,
    operator_statements,
    paused_place,
    sql_pattern,
)
from airflow_provider_dm.launch.task_control import chosen_subtasks


@dataclass(frozen=True)
class RequestedPlace:
    """A location in the log: a position, a pattern or, without both, the DDL at which a source is paused."""

    binlog_pos: str | None = None
    sql_pattern: str | None = None


def set_operators(
    store: MetaStore, task: str, sources: Sequence[str], at: RequestedPlace, kind: OperatorKind, sqls: Sequence[str]
) -> list[Operator]:
    """Store one operator for each chosen source; if the location does not exist on one of them, store none.

    Raises InvalidInput, TaskUnknown, SourceHasNoError, NotPausedByDdl.
    """
    statements = operator_statements(kind, sqls)
    wanted = [
        Operator(subtask.task, subtask.source, kind, place, statements)
        for subtask, place in _places(store, task, sources, at)
    ]
    store.put_operators(wanted)
    return wanted


def revert_operators(store: MetaStore, task: str, sources: Sequence[str], at: RequestedPlace) -> list[Operator]:
    """Remove the pending operator at a location of each chosen source. Raises as `set_operators`."""
    places = _places(store, task, sources, at)
    return [store.revert_operator(subtask.task, subtask.source, place) for subtask, place in places]


def _places(
    store: MetaStore, task: str, sources: Sequence[str], at: RequestedPlace
) -> list[tuple[SubtaskStatus, OperatorPlace]]:
    """Return the location on each chosen source. Without `sources`: on the sources that have an error."""
    subtasks = chosen_subtasks(store, task, sources)
    if at.sql_pattern is not None:
        pattern = sql_pattern(at.sql_pattern)
        return [(subtask, pattern) for subtask in subtasks]
    if at.binlog_pos is not None:
        if len(subtasks) > 1:
            raise binlog_pos_invalid(at.binlog_pos, "it is a position in one source's log, but no source is named")
        return [(subtask, named_place(at.binlog_pos, subtask)) for subtask in subtasks]
    if not sources:
        subtasks = [subtask for subtask in subtasks if subtask.error is not None] or subtasks
    return [(subtask, paused_place(subtask)) for subtask in subtasks]


def operator_json(operator: Operator) -> dict[str, Any]:
    """Return a binlog operator as `dmctl binlog list` shows it."""
    place = operator.place
    return {
        "op": operator.kind.value,
        "binlogPos": str(place) if not isinstance(place, SqlPattern) else "",
        "sqlPattern": place.text if isinstance(place, SqlPattern) else "",
        "sqls": list(operator.statements),
        "state": operator.state.value,
        "usedAt": str(operator.used_at) if operator.used_at else "",
        "createdAt": operator.created_at.isoformat(timespec="seconds") if operator.created_at else "",
    }
