"""Sets and reverts binlog operators on sources of a task, for `dmctl binlog`, DAGs and the page "DM"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.errors import DmError, raise_first
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorPlace, SqlPattern, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.ddl.operator_selection import (
    binlog_pos_invalid,
    named_place,
    operator_statements,
    paused_place,
    sql_pattern,
)
from airflow_provider_dm.engine.sync.errors import NotPausedByDdl, SourceHasNoError
from airflow_provider_dm.launch.errors import OtherSourceRefused
from airflow_provider_dm.launch.task_control import chosen_subtasks


@dataclass(frozen=True)
class RequestedPlace:
    """A location in the log: a position, a pattern or, without both, the DDL at which a source is paused."""

    binlog_pos: str | None = None
    sql_pattern: str | None = None


@dataclass(frozen=True)
class OperatorOutcome:
    """The outcome on one source: the operator that was set or reverted, or the reason for doing nothing."""

    source: str
    result: Operator | DmError


def set_operators(
    store: MetaStore, task: str, sources: Sequence[str], at: RequestedPlace, kind: OperatorKind, sqls: Sequence[str]
) -> list[OperatorOutcome]:
    """Store one operator for each chosen source; if one cannot be stored, store none.

    Raises InvalidInput, TaskUnknown.
    """
    statements = operator_statements(kind, sqls)

    def act(places: Sequence[tuple[SubtaskStatus, OperatorPlace]]) -> list[Operator]:
        wanted = [Operator(subtask.task, subtask.source, kind, place, statements) for subtask, place in places]
        store.put_operators(wanted)
        return wanted

    return _at_places(store, task, sources, at, act)


def revert_operators(store: MetaStore, task: str, sources: Sequence[str], at: RequestedPlace) -> list[OperatorOutcome]:
    """Remove the pending operator at a location of each chosen source.

    Raises InvalidInput, TaskUnknown.
    """

    def act(places: Sequence[tuple[SubtaskStatus, OperatorPlace]]) -> list[Operator]:
        return [store.revert_operator(subtask.task, subtask.source, place) for subtask, place in places]

    return _at_places(store, task, sources, at, act)


def accepted(answers: Sequence[OperatorOutcome]) -> dict[str, Operator]:
    """Return the operator of each source. Raises the first error of a source."""
    refused = [answer.result for answer in answers if isinstance(answer.result, DmError)]
    raise_first(error for error in refused if not isinstance(error, OtherSourceRefused))
    return {answer.source: answer.result for answer in answers if isinstance(answer.result, Operator)}


def _at_places(
    store: MetaStore,
    task: str,
    sources: Sequence[str],
    at: RequestedPlace,
    act: Callable[[Sequence[tuple[SubtaskStatus, OperatorPlace]]], list[Operator]],
) -> list[OperatorOutcome]:
    """Find the location on each source, then call `act` on all. Without `sources`: the sources that have an error."""
    pattern = None if at.sql_pattern is None else sql_pattern(at.sql_pattern)
    subtasks = chosen_subtasks(store, task, sources)
    if at.binlog_pos is not None and len(subtasks) > 1:
        raise binlog_pos_invalid(at.binlog_pos, "it is a position in one source's log, but no source is named")
    found = [(subtask, _place(at, subtask, pattern)) for subtask in subtasks]
    if not sources and not all(isinstance(place, SourceHasNoError) for _, place in found):
        found = [(subtask, place) for subtask, place in found if not isinstance(place, SourceHasNoError)]
    places = [(subtask, place) for subtask, place in found if not isinstance(place, DmError)]
    if len(places) < len(found):
        return [
            OperatorOutcome(one.source, place if isinstance(place, DmError) else OtherSourceRefused(task, one.source))
            for one, place in found
        ]
    return [OperatorOutcome(one.source, operator) for (one, _), operator in zip(places, act(places), strict=True)]


def _place(at: RequestedPlace, subtask: SubtaskStatus, pattern: SqlPattern | None) -> OperatorPlace | DmError:
    """Return the location on one source, or the reason why it does not exist. Raises InvalidInput."""
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
