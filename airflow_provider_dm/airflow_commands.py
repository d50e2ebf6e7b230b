"""`airflow dm …`: the verbs of `dmctl` as commands of Airflow's own program, with the operators' metadata DB and work
directory.

Airflow's parser imports this module with every `airflow` command. The module has only the names of the verbs and their
help texts; `dmctl` parses all other words and prints its own help. The metadata DB is that of `[dm] metadata_conn_id`,
unless `--meta-url` or DM_META_URL names another one; the work directory is `[dm] work_dir`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

from airflow_provider_dm.cli.verbs import VERBS

PROGRAM: Final = "airflow dm"
META_URL: Final = "DM_META_URL"
WORK_DIR: Final = "DM_WORK_DIR"
RELAY_DIR: Final = "DM_RELAY_DIR"


class _AllWords(Arg):
    """All words after a command, including options and `--help`, which `argparse.REMAINDER` does not support."""

    def __init__(self) -> None:
        super().__init__(("words",))

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        def take(words: Sequence[str], _namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
            return argparse.Namespace(**parser._defaults, words=list(words)), []

        parser.parse_known_args = take  # type: ignore[assignment,method-assign]


def get_dm_cli_commands() -> list[CLICommand]:
    """Return the group `dm`, to which Airflow's provider info refers."""
    run = lazy_load_command(f"{__name__}.run_verb")
    verbs = [ActionCommand(name=name, help=verb.help, func=run, args=(_AllWords(),)) for name, verb in VERBS.items()]
    return [
        GroupCommand(name="dm", help="Migrate MySQL-compatible databases: the commands of dmctl", subcommands=verbs)
    ]


def run_verb(arguments: argparse.Namespace) -> NoReturn:
    """Run a verb of `dmctl` and exit with its code."""
    from airflow_provider_dm.cli.main import main
    from airflow_provider_dm.cli.output import log_to_stderr

    words = [arguments.subcommand, *arguments.words]
    # Airflow's program logs to stdout, which is reserved for the answer; imports may install handlers as well.
    log_to_stderr(verbose=False)
    with contextlib.redirect_stdout(sys.stderr):
        os.environ.update(defaults(words, os.environ))
    sys.exit(main(words, program=PROGRAM))


def defaults(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which `dmctl` uses the operators' metadata DB and directories. SQLite is migrated.

    Variables that are set already, or that an option overrides, are left out. Empty if only a help text is printed.
    """
    from airflow_provider_dm.engine.meta.migrate import open_migrated
    from airflow_provider_dm.engine.meta.url import sqlite_file
    from airflow_provider_dm.hooks import settings
    from airflow_provider_dm.hooks.metadata import DmMetadataHook

    if "-h" in words or "--help" in words:
        return {}
    found = {} if environ.get(WORK_DIR) else {WORK_DIR: str(settings.configured_work_root())}
    if not environ.get(RELAY_DIR) and (relay_dir := settings.relay_root()) is not None:
        found[RELAY_DIR] = str(relay_dir)
    if not environ.get(META_URL) and not any(word.split("=")[0] == "--meta-url" for word in words):
        url = DmMetadataHook().url()
        if sqlite_file(url) is not None:
            open_migrated(url).close()
        found[META_URL] = url.reveal()
    return found
