"""`binlog`: the treatment of DDL statements in the log that a task cannot execute automatically.

    binlog skip TASK                   the statement counts as executed, without being executed
    binlog replace TASK SQL…           other DDL is executed instead of it
    binlog inject TASK SQL…            other DDL is executed before it
    binlog revert TASK                 a decision that the task has not reached is removed
    binlog list TASK [--all]           the pending decisions; with --all also those that the task has passed
    binlog events --source-file FILE   a page of a log for users (binlog_events)

The default is the statement at which a source is paused; `-b FILE:POSITION` or `--sql-pattern REGEX` select a later
one. Decisions are stored in the metadata DB: the current or next run of the task carries them out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Final

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.binlog_events import add_events
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.launch.binlog_operators import (
    RequestedPlace,
    operator_json,
    revert_operators,
    set_operators,
)
from airflow_provider_dm.launch.status import host_of, last_run
from airflow_provider_dm.launch.task_control import chosen_subtasks

_DESCRIPTIONS: Final = {
    OperatorKind.SKIP: "continue after the statement without executing it",
    OperatorKind.REPLACE: "execute these statements instead of the one in the log",
    OperatorKind.INJECT: "execute these statements before the one in the log",
}
REVERT: Final = "revert"


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("binlog", "skip|replace|inject|revert|list|events")
    for kind, description in _DESCRIPTIONS.items():
        parser = actions.add(kind.value, partial(_set, kind=kind), description)
        _add_task(parser)
        _add_place(parser)
        if kind is not OperatorKind.SKIP:
            parser.add_argument("sql", metavar="SQL", nargs="+", help="DDL with the source's names, SCHEMA.TABLE")
    revert = actions.add(REVERT, _revert, "remove a decision at a location that the task has not passed")
    _add_task(revert)
    _add_place(revert)
    listing = actions.add("list", _list, "show the pending requests")
    _add_task(listing)
    listing.add_argument("--all", action="store_true", dest="passed", help="also decisions that the task has passed")
    add_events(actions)


def _add_task(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK")
    add_sources(parser)
    meta.add_arguments(parser)


def _add_place(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--binlog-pos", "-b", metavar="FILE:POSITION", help="default: where the source is paused")
    place.add_argument("--sql-pattern", metavar="REGEX", help="the next DDL whose text matches")


def _set(arguments: argparse.Namespace, output: Output, *, kind: OperatorKind) -> Exit:
    """Store one operator for each chosen source. Raises the errors of `set_operators`."""
    sqls, at = _texts(getattr(arguments, "sql", [])), _at(arguments)
    with meta.open_store(arguments) as store:
        operators = set_operators(store, arguments.task, arguments.sources, at, kind, sqls)
        return _answered(arguments, output, store, kind.value, operators)


def _texts(words: Sequence[str]) -> Sequence[str]:
    """Return the texts of statements. As in DM, a single statement may be unquoted: no statement is one word."""
    return [" ".join(words)] if words and len(words[0].split()) == 1 else words


def _revert(arguments: argparse.Namespace, output: Output) -> Exit:
    """Remove the pending decision at a location. Raises the errors of `revert_operators`."""
    with meta.open_store(arguments) as store:
        operators = revert_operators(store, arguments.task, arguments.sources, _at(arguments))
        return _answered(arguments, output, store, REVERT, operators)


def _list(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print the decisions of each source, oldest first. Raises TaskUnknown."""
    with meta.open_store(arguments) as store:
        subtasks = chosen_subtasks(store, arguments.task, arguments.sources)
        found = {one.source: store.operators(one.task, one.source, passed=arguments.passed) for one in subtasks}
        host = host_of(last_run(store, arguments.task))
    answers = [
        {**source_answer(source, host), "operators": [operator_json(operator) for operator in operators]}
        for source, operators in found.items()
    ]
    return output.sources("List", answers)


def _at(arguments: argparse.Namespace) -> RequestedPlace:
    return RequestedPlace(arguments.binlog_pos, arguments.sql_pattern)


def _answered(
    arguments: argparse.Namespace, output: Output, store: MetaStore, op: str, operators: Sequence[Operator]
) -> Exit:
    """Print the operator of each source."""
    host = host_of(last_run(store, arguments.task))
    answers = [{**source_answer(one.source, host), "operator": operator_json(one)} for one in operators]
    return output.sources(op.capitalize(), answers)
