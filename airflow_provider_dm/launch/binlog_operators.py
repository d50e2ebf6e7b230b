"""Setting and reverting binlog operators on sources of a task, for `dmctl binlog`, DAGs and the page "DM"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.errors import DmError, raise_first
from airflow_provider_dm.engine.meta.model import Operator, OperatorKind, Place, SqlPattern, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.ddl.operators import (
    BinlogPosInvalid,
    NotPausedByDdl,
    SourceHasNoError,
    named_place,
    operator_statements,
    paused_place,
    sql_pattern,
)
from airflow_provider_dm.launch.task_control import chosen_subtasks


class OtherSourceRefused(DmError):
    task: str
    source: str

    code = "DM-9047"
    what = "nothing was done on source {source} of task {task}, as another source has no such place."
    hint = "Name the sources that have it."


@dataclass(frozen=True)
class At:
    """The place that a person means: a position, a pattern, or, without both, the DDL that a source is paused at."""

    binlog_pos: str | None = None
    sql_pattern: str | None = None


@dataclass(frozen=True)
class OperatorOutcome:
    """The outcome on one source: the operator that was set or reverted, or the reason why nothing was done."""

    source: str
    result: Operator | DmError


def set_operators(
    store: MetaStore, task: str, sources: Sequence[str], at: At, kind: OperatorKind, sqls: Sequence[str]
) -> list[OperatorOutcome]:
    """Store one operator for each source that is meant, or, where one cannot be stored, none at all.

    Raises OperatorSqlRefused, SqlPatternInvalid, BinlogPosInvalid, TaskUnknown.
    """
    statements = operator_statements(kind, sqls)

    def act(places: Sequence[tuple[SubtaskStatus, Place]]) -> list[Operator]:
        wanted = [Operator(one.task, one.source, kind, place, statements) for one, place in places]
        store.put_operators(wanted)
        return wanted

    return _at_places(store, task, sources, at, act)


def revert_operators(store: MetaStore, task: str, sources: Sequence[str], at: At) -> list[OperatorOutcome]:
    """Remove the operator that waits at a place of each source that is meant.

    Raises OperatorMissing, SqlPatternInvalid, BinlogPosInvalid, TaskUnknown.
    """

    def act(places: Sequence[tuple[SubtaskStatus, Place]]) -> list[Operator]:
        return [store.revert_operator(one.task, one.source, place) for one, place in places]

    return _at_places(store, task, sources, at, act)


def accepted(answers: Sequence[OperatorOutcome]) -> dict[str, Operator]:
    """Return the operator of each source. Raises the error of the first source that has refused."""
    refused = [one.result for one in answers if isinstance(one.result, DmError)]
    raise_first(one for one in refused if not isinstance(one, OtherSourceRefused))
    return {one.source: one.result for one in answers if isinstance(one.result, Operator)}


def _at_places(
    store: MetaStore,
    task: str,
    sources: Sequence[str],
    at: At,
    act: Callable[[Sequence[tuple[SubtaskStatus, Place]]], list[Operator]],
) -> list[OperatorOutcome]:
    """Find the place of each source, then act on all of them. Without `sources`: the sources that have an error."""
    pattern = None if at.sql_pattern is None else sql_pattern(at.sql_pattern)
    subtasks = chosen_subtasks(store, task, sources)
    if at.binlog_pos is not None and len(subtasks) > 1:
        raise BinlogPosInvalid(at.binlog_pos, "it is a place of one source's log, and the source is not named")
    found = [(one, _place(at, one, pattern)) for one in subtasks]
    if not sources and not all(isinstance(place, SourceHasNoError) for _, place in found):
        found = [(one, place) for one, place in found if not isinstance(place, SourceHasNoError)]
    places = [(one, place) for one, place in found if not isinstance(place, DmError)]
    if len(places) < len(found):
        return [
            OperatorOutcome(one.source, place if isinstance(place, DmError) else OtherSourceRefused(task, one.source))
            for one, place in found
        ]
    return [OperatorOutcome(one.source, operator) for (one, _), operator in zip(places, act(places), strict=True)]


def _place(at: At, subtask: SubtaskStatus, pattern: SqlPattern | None) -> Place | DmError:
    """Return the place that is meant on one source, or why there is none. Raises BinlogPosInvalid."""
    if pattern is not None:
        return pattern
    if at.binlog_pos is not None:
        return named_place(at.binlog_pos, subtask)
    try:
        return paused_place(subtask)
    except (SourceHasNoError, NotPausedByDdl) as error:
        return error


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
