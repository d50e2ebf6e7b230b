"""Reads the user's input: task.yaml, source.yaml files and passwords.

A password is read, in this order, from: `--password-env NAME=VARIABLE`, the file (`password`, `password-env`,
`password-file`), the variable `DM_PASSWORD_<NAME>`. NAME is a source-id, or `target`. Passwords are never printed, only
the names of variables.
"""

from __future__ import annotations

import argparse
import logging
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.config.database_config import DatabaseConfig
from airflow_provider_dm.engine.config.secrets import taken
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig, source_files_differ
from airflow_provider_dm.engine.config.yaml_file import load_source, load_task
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import TARGET, Endpoint, Secret
from airflow_provider_dm.launch.inputs import Inputs

log = logging.getLogger(__name__)

_NO_PASSWORD: Final = {"password": None, "password_env": None, "password_file": None}


def other_source(source: str, file: str, found: str) -> InvalidInput:
    return InvalidInput(
        f"{file} is the file of source {found}, not of {source}.", f"Give the file of source {source}, or correct -s."
    )


def _login_missing(name: str, key: str) -> InvalidInput:
    return InvalidInput(
        f"{name}: the file has no `{key}`, and dmctl does not read Airflow connections.",
        f"Add `{key}` to the file, or run the task with the Airflow operators.",
    )


def _password_variable_unset(argument: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"--password-env {argument}: {reason}.",
        "Write it as SOURCE-ID=VARIABLE (or target=VARIABLE) and export the variable.",
    )


def add_file_arguments(parser: argparse.ArgumentParser, **of_task: Any) -> None:
    """Add the arguments for the files of a task and its sources, and for passwords that are not in files."""
    parser.add_argument("task", metavar="TASK.yaml", type=Path, **of_task)
    files = "one for each source of the task"
    parser.add_argument(
        "--source", "-s", metavar="SOURCE.yaml", type=Path, action="append", default=[], dest="sources", help=files
    )
    add_password_argument(parser)


def add_password_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument for passwords that are not in files."""
    where = "the password of source NAME (or `target`) is in this environment variable; may be repeated"
    parser.add_argument("--password-env", metavar="NAME=VARIABLE", action="append", default=[], help=where)


def read_arguments(task_file: Path, source_files: Sequence[Path], password_variables: Sequence[str] = ()) -> Inputs:
    """Read everything that a task needs, in the order of its mysql-instances.

    Raises ConfigError, NotSupportedYet, InvalidInput.
    """
    task = load_task(task_file)
    configs = [load_source(file) for file in source_files]
    sources = _in_order(task, configs)
    task.require_supported()
    for source in sources:
        source.require_supported()
    for file, database in (
        (task_file, task.target_database),
        *zip(source_files, (s.from_ for s in configs), strict=True),
    ):
        _warn_of_open_password(file, database)
    named = named_variables(password_variables)
    endpoints = tuple(source_endpoint(source, named) for source in sources)
    return Inputs(task, sources, endpoints, target_endpoint(task, named))


def load_source_of(file: Path, source: str | None) -> SourceConfig:
    """Read the file of this source; None: of any source. Raises ConfigError, InvalidInput."""
    config = load_source(file)
    if source not in (None, "", config.source_id):
        raise other_source(source, str(file), config.source_id)
    return config


def source_endpoint(source: SourceConfig, named: Mapping[str, Secret]) -> Endpoint:
    """Return the endpoint of a source. Raises InvalidInput."""
    if source.from_ is None:
        raise _login_missing(f"source {source.source_id}", "from")
    return _endpoint(source.from_, source.source_id, named)


def target_endpoint(task: TaskConfig, named: Mapping[str, Secret]) -> Endpoint:
    """Return the endpoint of a task's target. Raises InvalidInput."""
    if task.target_database is None:
        raise _login_missing(f"task {task.name}", "target-database")
    return _endpoint(task.target_database, TARGET, named)


def named_variables(arguments: Sequence[str]) -> dict[str, Secret]:
    """Return `NAME=VARIABLE` arguments as NAME -> password. Raises InvalidInput."""
    named = {}
    for argument in arguments:
        name, equals, variable = argument.partition("=")
        if not (name and equals and variable):
            raise _password_variable_unset(argument, "it is not NAME=VARIABLE")
        if (password := taken(variable)) is None:
            raise _password_variable_unset(argument, f"the variable {variable} is not set")
        named[name] = Secret(password)
    return named


def default_variable(name: str) -> str:
    """Return the name of the environment variable for the password of this name.

    >>> default_variable("mysql-replica-01")
    'DM_PASSWORD_MYSQL_REPLICA_01'
    """
    return "DM_PASSWORD_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def _endpoint(database: DatabaseConfig, name: str, named: Mapping[str, Secret]) -> Endpoint:
    plain = database.password.get_secret_value() if database.password else ""
    if name not in named and (plain or database.password_env or database.password_file):
        return database.endpoint(name)
    password = named.get(name) or Secret(taken(default_variable(name)) or "")
    return replace(database.model_copy(update=_NO_PASSWORD).endpoint(name), password=password)


def _in_order(task: TaskConfig, configs: Sequence[SourceConfig]) -> tuple[SourceConfig, ...]:
    by_id = {source.source_id: source for source in configs}
    given = Counter(source.source_id for source in configs)
    wrong = {
        "no --source file for": [name for name in task.source_ids if name not in by_id],
        "files of sources that the task does not name:": [name for name in given if name not in task.source_ids],
        "more than one file for": [name for name, files in given.items() if files > 1],
    }
    if any(wrong.values()):
        problems = (f"{what} {', '.join(names)}" for what, names in wrong.items() if names)
        raise source_files_differ(task.name, "; ".join(problems))
    return tuple(by_id[name] for name in task.source_ids)


def _warn_of_open_password(file: Path, database: DatabaseConfig | None) -> None:
    """Log a warning about a password in a file that others can read."""
    if database is None or database.password is None or not database.password.get_secret_value():
        return
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        log.warning("%s holds a password and is readable by others; chmod 600 it, or use password-env", file)
