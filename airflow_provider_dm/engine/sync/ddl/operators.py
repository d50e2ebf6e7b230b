"""Which binlog operator is meant for a place of the log, and what a person may ask for. Pure.

    dmctl binlog skip …       the DDL counts as done and is not executed; the model of the source's tables follows it
    dmctl binlog replace …    other DDL is executed in its place
    dmctl binlog inject …     other DDL is executed in front of it, or in front of a transaction of rows

A place is the transaction that a task is paused at, any other one by `FILE:POSITION` (its beginning, or an event inside
of it: people read positions in SHOW BINLOG EVENTS), or the next DDL whose text a pattern matches. Positions are those
of the relay sub-directory that the task reads now. Where operators are kept, and until when: `meta/operators.py`.

What a loop does with them:

    1. in front of a DDL statement, `operator_for`; `store.mark_operator_used` with its place, before anything is done
    2. do it, and let the frontier pass it
    3. `store.mark_operators_passed`, now and then; those without `used_at` deserve a warning
    4. `next_injection` is where an epoch must end, `injection_at` what is executed where it has ended
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_dm.engine.config.pattern import InvalidPattern
from airflow_provider_dm.engine.ddl.lexer import Unreadable, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import CreateTableSelect, PassedOver, Views
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.meta.model import Operator, OperatorKind, OperatorState, SqlPattern, SubtaskStatus
from airflow_provider_dm.engine.mysql.location import InvalidLocation, Location, Order, compare


class SourceHasNoError(DmError):
    """No error has paused the source, so a command without a location is about no statement."""

    task: str
    source: str

    code = "DM-6070"
    what = "source {source} has no error in task {task}."
    hint = "Name a later location, by --binlog-pos FILE:POSITION or --sql-pattern REGEX."


class NotPausedByDdl(DmError):
    """The source is paused, but not by a DDL statement."""

    task: str
    source: str
    error: str

    code = "DM-6071"
    what = "source {source} of task {task} is paused by {error}, which is not about a DDL statement."
    hint = (
        "Only DDL can be skipped or replaced. Do what `dmctl query-status TASK` shows for that error; correct rows in "
        "the target by hand."
    )


def binlog_pos_invalid(text: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"invalid --binlog-pos {text}: {why}.",
        "Write FILE:POSITION as `dmctl query-status` and SHOW BINLOG EVENTS on the source show it.",
    )


def _operator_sql_refused(sql: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the statement {sql!r} is refused: {why}. Nothing was stored.",
        "Give DDL alone, with the source's names as SCHEMA.TABLE, in the syntax of its server.",
    )


# What a loop asks


def operator_for(
    operators: Iterable[Operator], ddl_location: Location, sql: str, *, end: Location | None = None
) -> Operator | None:
    """Return what is wanted at a DDL statement. `ddl_location`, `end`: where its transaction begins and ends.

    An operator for this place goes before one that was bound to it by its pattern, and that before one whose pattern
    matches and that is not bound yet; of these the oldest.
    """
    open_ones = [one for one in operators if one.state is not OperatorState.PASSED]
    of_place = (one for one in open_ones if isinstance(one.place, Location) and _is_at(one.place, ddl_location, end))
    bound = (one for one in open_ones if one.used_at and compare(one.used_at, ddl_location) is Order.SAME)
    matching = (
        one for one in open_ones if one.used_at is None and isinstance(one.place, SqlPattern) and one.place.matches(sql)
    )
    return next((one for found in (of_place, bound, matching) for one in found), None)


def next_injection(operators: Iterable[Operator], lo: Location) -> Location | None:
    """Return the first place behind `lo` at which statements are to be injected by place: an epoch must end there.

    If it turns out to be inside a transaction, or at a DDL, only `operator_for` can find it.
    """
    places = (one.place for one in _injections(operators) if isinstance(one.place, Location))
    behind = (place for place in places if compare(place, lo) is Order.AFTER)
    return min(behind, key=lambda place: place.sort_key, default=None)


def injection_at(operators: Iterable[Operator], here: Location) -> Operator | None:
    """Return what is to be injected exactly here, in front of a transaction of rows."""
    for one in _injections(operators):
        if isinstance(one.place, Location) and compare(one.place, here) is Order.SAME:
            return one
    return None


def _injections(operators: Iterable[Operator]) -> list[Operator]:
    return [one for one in operators if one.kind is OperatorKind.INJECT and one.state is not OperatorState.PASSED]


def _is_at(place: Location, at: Location, end: Location | None) -> bool:
    """Tell whether the place is the transaction's beginning, or an event of it."""
    order = compare(place, at)
    return order is Order.SAME or (end is not None and order is Order.AFTER and compare(place, end) is Order.BEFORE)


# What a person asks for


def paused_place(subtask: SubtaskStatus) -> Location:
    """Return the place of the DDL that the subtask is paused at. Raises SourceHasNoError, NotPausedByDdl."""
    if subtask.error is None:
        raise SourceHasNoError(subtask.task, subtask.source)
    if subtask.error_at is None:
        raise NotPausedByDdl(subtask.task, subtask.source, str(subtask.error.get("ErrCode", "an error")))
    return subtask.error_at


def named_place(text: str, subtask: SubtaskStatus) -> Location:
    """Return the place that FILE:POSITION means, in the sub-directory that the task reads. Raises InvalidInput."""
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
    """Return the pattern that is given, with or without DM's `~` in front. Raises InvalidInput."""
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
    """Return the statements one by one, each understood to its end; a text may hold several, with `;` in between.

    They are read as in a session without ANSI_QUOTES. Raises InvalidInput.
    """
    statements = tuple(one for text in texts for one in _cut(text))
    if kind is OperatorKind.SKIP and statements:
        raise _operator_sql_refused(statements[0], "who skips a statement executes none; say `replace`")
    if kind is not OperatorKind.SKIP and not statements:
        raise _operator_sql_refused("", f"there is none to {kind}")
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
        case PassedOver(what):
            raise _operator_sql_refused(sql, f"{what} changes no table")
        case Views():
            raise _operator_sql_refused(sql, "views are not migrated")
        case CreateTableSelect():
            raise _operator_sql_refused(sql, "it writes rows, too")
        case _:
            pass
