"""`query-status`: the state of tasks, sources and relays in the metadata DB, in the format of DM's dmctl.

query-status              every task with its status and sources
query-status TASK         the task's subtasks, source by source
query-status -s SOURCE    the source's relay and all its subtasks
"""

from __future__ import annotations

import argparse

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.launch.status import StatusRecords


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("query-status", query_status)
    parser.add_argument("task", metavar="TASK", nargs="?")
    add_sources(parser)
    meta.add_arguments(parser)


def query_status(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print DM's document: as tables on a terminal, otherwise and with --json as JSON."""
    with meta.open_store(arguments) as store:
        return output.document(StatusRecords(store).status(arguments.task, arguments.sources))
