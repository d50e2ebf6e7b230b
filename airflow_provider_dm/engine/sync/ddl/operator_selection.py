"""Selecting the binlog operator for a location of the log, and validating a user's request. Pure.

    dmctl binlog skip …       the DDL is not executed; the model of the source's tables follows it
    dmctl binlog replace …    other DDL is executed instead of it
    dmctl binlog inject …     other DDL is executed before it, or before a transaction with rows

The location is the transaction at which the task is paused, any other transaction by `FILE:POSITION` (its beginning or
an event inside it, as shown by SHOW BINLOG EVENTS), or the next DDL whose text matches a pattern. Positions are in the
relay sub-directory that the task reads. `meta/binlog_operators.py` describes how long an operator is kept.

The loop uses them as follows:

    1. before a DDL statement: `operator_for`; then `mark_operator_used` with its location, before any action
    2. carry out the operator; the frontier passes the statement
    3. periodically `mark_operators_passed`; log a warning for those without `used_at`
    4. an epoch ends at `next_injection`; there, `injection_at` returns the statements to execute
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_dm.engine.config.errors import InvalidPattern
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTableSelect, IrrelevantStatement, ViewStatement
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorState, SqlPattern, SubtaskStatus
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import Location, Order, compare
from airflow_provider_dm.engine.sync.errors import NotPausedByDdl, SourceHasNoError


def binlog_pos_invalid(text: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"invalid --binlog-pos {text}: {why}.",
        "Write FILE:POSITION as `dmctl query-status` and SHOW BINLOG EVENTS on the source show it.",
    )


def _operator_sql_refused(sql: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the statement {sql!r} is rejected: {why}. Nothing was stored.",
        "Give DDL alone, with the source's names as SCHEMA.TABLE, in the syntax of its server.",
    )


# For the loop


def operator_for(
    operators: Iterable[Operator], ddl_location: Location, sql: str, *, end: Location | None = None
) -> Operator | None:
    """Return the operator for a DDL statement. `ddl_location`, `end`: the begin and end of its transaction.

    Precedence: an operator for this location, then one that its pattern has bound to this location, then the oldest
    unbound one whose pattern matches.
    """
    open_ones = [operator for operator in operators if operator.state is not OperatorState.PASSED]
    of_place = (one for one in open_ones if isinstance(one.place, Location) and _is_at(one.place, ddl_location, end))
    bound = (one for one in open_ones if one.used_at and compare(one.used_at, ddl_location) is Order.SAME)
    matching = (
        one for one in open_ones if one.used_at is None and isinstance(one.place, SqlPattern) and one.place.matches(sql)
    )
    return next((operator for found in (of_place, bound, matching) for operator in found), None)


def next_injection(operators: Iterable[Operator], lo: Location) -> Location | None:
    """Return the first location after `lo` with an injection by location: an epoch must end there.

    A location inside a transaction or at a DDL is found by `operator_for` instead.
    """
    places = (operator.place for operator in _injections(operators) if isinstance(operator.place, Location))
    later = (place for place in places if compare(place, lo) is Order.AFTER)
    return min(later, key=lambda place: place.sort_key, default=None)


def injection_at(operators: Iterable[Operator], here: Location) -> Operator | None:
    """Return the operator that injects statements exactly at `here`, before a transaction with rows."""
    for operator in _injections(operators):
        if isinstance(operator.place, Location) and compare(operator.place, here) is Order.SAME:
            return operator
    return None


def _injections(operators: Iterable[Operator]) -> list[Operator]:
    return [one for one in operators if one.kind is OperatorKind.INJECT and one.state is not OperatorState.PASSED]


def _is_at(place: Location, at: Location, end: Location | None) -> bool:
    """Return True if the location is the beginning of the transaction or inside it."""
    order = compare(place, at)
    return order is Order.SAME or (end is not None and order is Order.AFTER and compare(place, end) is Order.BEFORE)


# For the commands


def paused_place(subtask: SubtaskStatus) -> Location:
    """Return the location of the DDL at which the subtask is paused. Raises SourceHasNoError, NotPausedByDdl."""
    if subtask.error is None:
        raise SourceHasNoError(subtask.task, subtask.source)
    if subtask.error_at is None:
        raise NotPausedByDdl(subtask.task, subtask.source, str(subtask.error.get("ErrCode", "an error")))
    return subtask.error_at


def named_place(text: str, subtask: SubtaskStatus) -> Location:
    """Parse FILE:POSITION as a location in the sub-directory that the task reads. Raises InvalidInput."""
    try:
        place = Location.parse(text)
    except InvalidLocation:
        raise binlog_pos_invalid(text, "it is not FILE:POSITION") from None
    applied = subtask.applied
    if applied is None:
        raise binlog_pos_invalid(text, f"task {subtask.task} has not begun to read the log of {subtask.source}")
    place = replace(place, suffix=applied.suffix, server_uuid=applied.server_uuid)
    match compare(place, applied):
        case Order.UNRELATED:
            raise binlog_pos_invalid(text, f"the task reads {applied}, which is in another log")
        case Order.BEFORE:
            raise binlog_pos_invalid(text, f"the task has passed it, and is at {applied}")
        case Order.SAME | Order.AFTER:
            return place


def sql_pattern(text: str) -> SqlPattern:
    """Parse a pattern, with or without DM's leading `~`. Raises InvalidInput."""
    pattern = SqlPattern(text.removeprefix("~"))
    try:
        pattern.matches("")
    except InvalidPattern as error:
        raise InvalidInput(
            f"invalid --sql-pattern {text!r}: {error.why}.",
            "Write a Python regular expression; (?i) at its beginning ignores case.",
        ) from None
    return pattern


def operator_statements(kind: OperatorKind, texts: Sequence[str]) -> tuple[str, ...]:
    """Split the texts at `;` into statements, and check that each can be parsed, in a session without ANSI_QUOTES.

    Raises InvalidInput.
    """
    statements = tuple(statement for text in texts for statement in _cut(text))
    if kind is OperatorKind.SKIP and statements:
        raise _operator_sql_refused(statements[0], "`skip` executes no statement; use `replace`")
    if kind is not OperatorKind.SKIP and not statements:
        raise _operator_sql_refused("", f"`{kind}` needs a statement")
    for sql in statements:
        _check(sql)
    return statements


def _cut(text: str) -> list[str]:
    try:
        ends = [token.start for token in tokens(text, 0) if token.text == ";"]
    except Unreadable as error:
        raise _operator_sql_refused(text.strip(), str(error)) from None
    pieces = (text[begin:end] for begin, end in zip([0, *(at + 1 for at in ends)], [*ends, len(text)], strict=True))
    return [piece.strip() for piece in pieces if next(tokens(piece, 0), None) is not None]


def _check(sql: str) -> None:
    try:
        statement = parse(sql, 0, "")
    except Unreadable as error:
        raise _operator_sql_refused(sql, str(error)) from None
    match statement:
        case IrrelevantStatement(what):
            raise _operator_sql_refused(sql, f"{what} changes no table")
        case ViewStatement():
            raise _operator_sql_refused(sql, "views are not migrated")
        case CreateTableSelect():
            raise _operator_sql_refused(sql, "it writes rows, too")
        case _:
            pass
