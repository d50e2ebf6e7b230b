"""`binlog`: what shall happen at a DDL statement of the log that the task cannot go past by itself.

    binlog skip TASK                   the statement counts as done, and is not executed
    binlog replace TASK SQL…           other DDL is executed in its place
    binlog inject TASK SQL…            other DDL is executed in front of it
    binlog revert TASK                 what was asked for and the task has not come to is forgotten
    binlog list TASK [--all]           what is asked for; with --all also what the task has passed
    binlog events --source-file FILE   a page of a log for people (binlog_events)
    handle-error TASK [-s …] skip …    the same, as older releases of DM have it

Meant is the statement that a source is paused at; `-b FILE:POSITION` or `--sql-pattern REGEX` name one that is still to
come. All of it is in the metadata DB: the next run of the task does it, or the one that is under way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.binlog_events import add_events
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.errors import DmError
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
from airflow_provider_dm.launch.status import host_of, last_run

Json = dict[str, Any]
Act = Callable[[Sequence[tuple[SubtaskStatus, Place]]], list[Operator]]

_SAID: Final = {
    OperatorKind.SKIP: "let the task go on behind the statement, without executing it",
    OperatorKind.REPLACE: "execute these statements in place of the one in the log",
    OperatorKind.INJECT: "execute these statements in front of what is in the log there",
}
REVERT: Final = "revert"


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("binlog", "skip|replace|inject|revert|list|events")
    for kind, said in _SAID.items():
        parser = actions.add(kind.value, partial(_set, kind=kind), said)
        _add_task(parser)
        _add_place(parser)
        if kind is not OperatorKind.SKIP:
            parser.add_argument("sql", metavar="SQL", nargs="+", help="DDL with the source's names, SCHEMA.TABLE")
    revert = actions.add(REVERT, _revert, "forget what was asked for at a place that the task has not passed")
    _add_task(revert)
    _add_place(revert)
    listing = actions.add("list", _list, "show what is asked for, and what has been used")
    _add_task(listing)
    listing.add_argument("--all", action="store_true", dest="passed", help="also what the task has passed")
    add_events(actions)
    _add_handle_error(verbs)


def _add_handle_error(verbs: Verbs) -> None:
    parser = verbs.add("handle-error", handle_error)
    _add_task(parser)
    _add_place(parser)
    parser.add_argument("action", choices=[*(kind.value for kind in _SAID), REVERT])
    parser.add_argument("sql", metavar="SQL", nargs="*")


def _add_task(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    add_sources(parser)
    meta.add_arguments(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--binlog-pos", "-b", metavar="FILE:POSITION", help="default: where the source is paused")
    place.add_argument("--sql-pattern", metavar="REGEX", help="the next DDL whose text it matches")


def handle_error(arguments: argparse.Namespace, output: Output) -> Exit:
    """Do what DM's old verb says, whose action stands behind the task."""
    if arguments.action == REVERT:
        return _revert(arguments, output)
    return _set(arguments, output, kind=OperatorKind(arguments.action))


def _set(arguments: argparse.Namespace, output: Output, *, kind: OperatorKind) -> Exit:
    """Store one operator for each source that is meant, or, where one cannot be, none at all.

    Raises OperatorSqlRefused, SqlPatternInvalid, BinlogPosInvalid.
    """
    statements = operator_statements(kind, _texts(getattr(arguments, "sql", [])))
    with meta.open_store(arguments) as store:

        def act(places: Sequence[tuple[SubtaskStatus, Place]]) -> list[Operator]:
            wanted = [Operator(one.task, one.source, kind, place, statements) for one, place in places]
            store.put_operators(wanted)
            return wanted

        return _at_places(arguments, output, store, kind.value, act)


def _texts(words: Sequence[str]) -> Sequence[str]:
    """Return the texts of statements. As in DM, one statement may be given without quotes: no statement is one word."""
    return [" ".join(words)] if words and len(words[0].split()) == 1 else words


def _revert(arguments: argparse.Namespace, output: Output) -> Exit:
    """Take back what waits at a place. Raises OperatorMissing, SqlPatternInvalid, BinlogPosInvalid."""
    with meta.open_store(arguments) as store:

        def act(places: Sequence[tuple[SubtaskStatus, Place]]) -> list[Operator]:
            return [store.revert_operator(one.task, one.source, place) for one, place in places]

        return _at_places(arguments, output, store, REVERT, act)


def _list(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print what is asked for of each source, oldest first."""
    with meta.open_store(arguments) as store:
        subtasks = _subtasks(store, arguments)
        found = {one.source: store.operators(one.task, one.source, passed=arguments.passed) for one in subtasks}
        host = host_of(last_run(store, arguments.task))
    answers = [
        {**source_answer(source, host), "operators": [operator_json(one) for one in operators]}
        for source, operators in found.items()
    ]
    return output.sources("List", answers, _unknown(arguments, subtasks))


def _at_places(arguments: argparse.Namespace, output: Output, store: MetaStore, op: str, act: Act) -> Exit:
    """Find the place of each source, then act on all of them; print what was done."""
    pattern = None if arguments.sql_pattern is None else sql_pattern(arguments.sql_pattern)
    subtasks = _subtasks(store, arguments)
    if unknown := _unknown(arguments, subtasks):
        return output.sources(op.capitalize(), [], unknown)
    if arguments.binlog_pos is not None and len(subtasks) > 1:
        raise BinlogPosInvalid(arguments.binlog_pos, "it is a place of one source's log, and -s SOURCE-ID is missing")
    host = host_of(last_run(store, arguments.task))
    found = [(one, _place(arguments, one, pattern)) for one in subtasks]
    if not arguments.sources and not all(isinstance(place, SourceHasNoError) for _, place in found):
        found = [(one, place) for one, place in found if not isinstance(place, SourceHasNoError)]
    places = [(one, place) for one, place in found if not isinstance(place, DmError)]
    if len(places) < len(found):
        other = "nothing was done, as another source has no such place"
        why = {one.source: str(place) if isinstance(place, DmError) else other for one, place in found}
        return output.sources(op.capitalize(), [source_answer(source, host, said) for source, said in why.items()])
    done = [{**source_answer(one.source, host), "operator": operator_json(one)} for one in act(places)]
    return output.sources(op.capitalize(), done)


def _place(arguments: argparse.Namespace, subtask: SubtaskStatus, pattern: SqlPattern | None) -> Place | DmError:
    """Return the place that is meant on one source, or why there is none. Raises BinlogPosInvalid."""
    if pattern is not None:
        return pattern
    if arguments.binlog_pos is not None:
        return named_place(arguments.binlog_pos, subtask)
    try:
        return paused_place(subtask)
    except (SourceHasNoError, NotPausedByDdl) as error:
        return error


def operator_json(operator: Operator) -> Json:
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


def _subtasks(store: MetaStore, arguments: argparse.Namespace) -> list[SubtaskStatus]:
    known = store.list_subtasks(task=arguments.task)
    return [one for one in known if not arguments.sources or one.source in arguments.sources]


def _unknown(arguments: argparse.Namespace, subtasks: Sequence[SubtaskStatus]) -> str:
    """Return what of the task or its sources nobody knows; empty where all is known."""
    unknown = sorted(set(arguments.sources) - {one.source for one in subtasks})
    if subtasks and not unknown:
        return ""
    return f"no task {arguments.task} is known on {', '.join(unknown) or 'any source'}"
