"""`dmctl`: the arguments, the dispatch, and the one place where an error becomes an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import cast

from airflow_provider_dm import __version__
from airflow_provider_dm.cli import check_task, later, meta, purge_relay, query_status, relay, run, stop_task
from airflow_provider_dm.cli.interrupts import Interrupted
from airflow_provider_dm.cli.output import Exit, Output, exit_code_of, log_to_stderr
from airflow_provider_dm.cli.parsing import Command, Verbs
from airflow_provider_dm.engine.errors import DmError

DESCRIPTION = "Data migration for MySQL-compatible databases, with DM's task and source files."
EPILOG = (
    "exit codes: 0 done, 1 failed, 2 wrong command line, 3 another run has taken over, "
    "4 source and target differ, 5 precheck failed, 130 interrupted (the same command continues)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script. Returns the exit code; see output.py for what each one means."""
    top = parser()
    arguments, unknown = top.parse_known_args(argv)
    if unknown and arguments.command is not later.refuse:
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    output = Output(as_json=arguments.json)
    log_to_stderr(verbose=arguments.verbose)
    try:
        # argparse keeps what set_defaults was given, without its type.
        return cast(Command, arguments.command)(arguments, output)
    except DmError as error:
        output.failure(error)
        return exit_code_of(error)
    except KeyboardInterrupt:
        output.failure(Interrupted(f"dmctl {arguments.verb}"))
        return Exit.INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """All verbs; --json and --verbose belong to each of them."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print the answer as one JSON object on stdout")
    shared.add_argument("--verbose", "-v", action="store_true", help="log on stderr what is done")
    top = argparse.ArgumentParser("dmctl", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("--version", action="version", version=f"dmctl {__version__}")
    verbs = Verbs(top.add_subparsers(dest="verb", required=True, metavar="VERB"), shared)
    for room in (run, check_task, query_status, stop_task, relay, purge_relay, meta, later):
        room.add_verbs(verbs)
    return top


if __name__ == "__main__":
    sys.exit(main())
