"""`query-status`: what the metadata DB knows, in the shape that DM's dmctl prints.

query-status              every task with its status and sources
query-status TASK         the task's subtasks, source by source
query-status -s SOURCE    the source's relay and all its subtasks
"""

from __future__ import annotations

import argparse

from airflow_provider_dm.cli import meta_url
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.launch.status import status_of


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("query-status", query_status)
    parser.add_argument("task", metavar="TASK", nargs="?")
    parser.add_argument("--source", "-s", metavar="SOURCE-ID", action="append", default=[], dest="sources")
    meta_url.add_arguments(parser)


def query_status(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print JSON with and without --json, as DM does."""
    store, _ = meta_url.open_store(arguments)
    with store:
        return output.document(status_of(store, arguments.task, arguments.sources))
