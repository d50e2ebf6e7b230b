"""Binlog operators: a user's decisions about locations of a source's log, each kept until the target has passed it.

A run binds an operator to a transaction *before* it carries out the decision there (`mark_operator_used`). If the run
dies, the next one finds the same operator at the same location only: a pattern that was used does not match a second
statement. When the frontier has passed that location, the operator becomes `passed` and has no further effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import db_now, moment
from airflow_provider_dm.engine.meta.errors import LostRace
from airflow_provider_dm.engine.meta.locked_rows import (
    StorePart,
    location_from,
    location_text,
    matching,
    put,
    put_over,
    read_for_update,
    read_rows,
)
from airflow_provider_dm.engine.meta.records import (
    Operator,
    OperatorKind,
    OperatorPlace,
    OperatorState,
    SqlPattern,
    place_key,
)
from airflow_provider_dm.engine.mysql.location import Location, Order, compare


class BinlogOperators(StorePart):
    def put_operators(self, operators: Iterable[Operator]) -> None:
        """Write all operators, or none; each replaces the operator of the same place."""
        wanted = list(operators)

        def body(tx: Connection) -> None:
            for one in wanted:
                values = {
                    "kind": one.kind.value,
                    "location": location_text(one.place) if isinstance(one.place, Location) else None,
                    "pattern": one.place.text if isinstance(one.place, SqlPattern) else None,
                    "statements": json.dumps(one.statements, ensure_ascii=False),
                    "state": OperatorState.WAITING.value,
                    "used_at": None,
                    "created_at": db_now(),
                }
                put(tx, tables.binlog_operator, _key(one.task, one.source, one.place), values)

        self._database.write(body)

    def operators(self, task: str, source: str, *, passed: bool = False) -> list[Operator]:
        """Return the operators of a subtask, the oldest first. `passed`: include those that have been passed."""
        rows = self._rows(tables.binlog_operator, *_of(task, source))
        found = [_operator(row) for row in sorted(rows, key=lambda row: (row.created_at, row.place_key))]
        return [operator for operator in found if passed or operator.state is not OperatorState.PASSED]

    def mark_operator_used(self, operator: Operator, at: Location) -> None:
        """Bind the operator to the transaction that begins at `at`. Must be called before it has any effect there.

        No effect if it is bound to the same location already. Raises LostRace if it was reverted, replaced or bound to
        another location since it was read.
        """

        def body(tx: Connection) -> None:
            row = read_for_update(tx, tables.binlog_operator, _key(operator.task, operator.source, operator.place))
            if row is None or _wanted(_operator(row)) != _wanted(operator):
                raise LostRace(f"the operator for {operator.place}", "to find it as it was read")
            bound = location_from(row.used_at)
            if bound is not None and compare(bound, at) is not Order.SAME:
                raise LostRace(f"the operator for {operator.place}", f"to use it at {at}, it is used at {bound}")
            _update(tx, row, state=OperatorState.USED.value, used_at=location_text(at))

        self._database.write(body)

    def mark_operators_passed(self, task: str, source: str, applied: Location) -> list[Operator]:
        """Mark the operators before `applied`, up to which everything is in the target. Return the marked ones; those
        without `used_at` were never used, because nothing was found at their place.
        """

        def body(tx: Connection) -> list[Operator]:
            marked = []
            for row in read_rows(tx, tables.binlog_operator, *_of(task, source), lock=True):
                if is_passed(_operator(row), applied):
                    _update(tx, row, state=OperatorState.PASSED.value)
                    marked.append(_operator(row))
            return marked

        return self._database.write(body)

    def revert_operator(self, task: str, source: str, place: OperatorPlace) -> Operator:
        """Remove the operator of a place and return it. Raises InvalidInput, also if it has been passed."""

        def body(tx: Connection) -> Operator:
            key = _key(task, source, place)
            row = read_for_update(tx, tables.binlog_operator, key)
            if row is None or row.state == OperatorState.PASSED:
                raise InvalidInput(
                    f"operator not exist: task {task!r} on source {source!r} has none for {place}.",
                    "`dmctl binlog list TASK --all` shows the waiting operators and those that the task has passed.",
                )
            tx.execute(delete(tables.binlog_operator).where(matching(tables.binlog_operator, key)))
            return _operator(row)

        return self._database.write(body)


def is_passed(operator: Operator, applied: Location) -> bool:
    """Return True if a sync that has reached `applied` does not need the operator any more."""
    match operator.state, operator.used_at or operator.place:
        case OperatorState.PASSED, _:
            return False
        case _, Location() as place:
            return compare(applied, place) is Order.AFTER
        case _:
            return False


def _key(task: str, source: str, place: OperatorPlace) -> dict[str, str]:
    return {"task": task, "source": source, "place_key": place_key(place)}


def _of(task: str, source: str) -> tuple[ColumnElement[bool], ...]:
    return tables.binlog_operator.c.task == task, tables.binlog_operator.c.source == source


def _wanted(operator: Operator) -> tuple[OperatorKind, tuple[str, ...]]:
    return operator.kind, operator.statements


def _update(tx: Connection, row: Row[Any], **values: Any) -> None:
    key = {"task": row.task, "source": row.source, "place_key": row.place_key}
    put_over(tx, tables.binlog_operator, key, row, values)


def _operator(row: Row[Any]) -> Operator:
    location = location_from(row.location)
    return Operator(
        task=row.task,
        source=row.source,
        kind=OperatorKind(row.kind),
        place=location if location is not None else SqlPattern(row.pattern),
        statements=tuple(json.loads(row.statements)),
        state=OperatorState(row.state),
        used_at=location_from(row.used_at),
        created_at=moment(row.created_at),
    )
