"""`operate-source` and `config import`: DM's sources as Airflow connections, whose id is the source-id.

    operate-source create SOURCE.yaml …    create a connection for each; existing ones are not changed
    operate-source update SOURCE.yaml …    create or replace a connection for each
    operate-source stop SOURCE-ID|SOURCE.yaml …   delete the connections
    operate-source show                    the connections of sources and targets
    config import --dir DIR                the sources that `dmctl config export` of DM wrote, and a check of its tasks

Passwords are read as by every other verb, also DM's encrypted passwords, and Airflow stores them. `config import` sets
`enable-relay` for a source that has relay workers in DM.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli.inputs import add_password_argument, named_variables, source_endpoint
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.cli.unsupported_verbs import refuse
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import load_source, load_task
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.launch.connections import connection_of, delete_connection, list_connections, write_connections


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("operate-source", "create|update|stop|show")
    for name, overwrite, description in (
        ("create", False, "create an Airflow connection for each source; existing ones are not changed"),
        ("update", True, "create or replace an Airflow connection for each source"),
    ):
        parser = actions.add(name, partial(_write, overwrite=overwrite), description)
        parser.add_argument("files", metavar="SOURCE.yaml", type=Path, nargs="+")
        add_password_argument(parser)
    stop = actions.add("stop", _stop, "delete the Airflow connections of sources")
    stop.add_argument("names", metavar="SOURCE-ID|SOURCE.yaml", nargs="+")
    actions.add("show", _show, "list the Airflow connections of type dm_database")
    config = verbs.below("config", "import|export|task|source|master|worker")
    importing = config.add("import", _import, "create connections for the sources of an export of DM; check its tasks")
    importing.add_argument("--dir", "-d", "--path", "-p", metavar="DIR", type=Path, default=Path("configs"), dest="dir")
    add_password_argument(importing)
    for name in ("export", "task", "source", "master", "worker"):
        config.add(name, refuse, "not supported: configuration is in files and in Airflow's connections")


def _write(arguments: argparse.Namespace, output: Output, *, overwrite: bool) -> Exit:
    sources = [load_source(file) for file in arguments.files]
    return output.sources(None, _written(sources, arguments, overwrite=overwrite))


def _written(sources: list[SourceConfig], arguments: argparse.Namespace, *, overwrite: bool) -> list[dict[str, Any]]:
    """Write the connections of sources; return DM's answer for each. Errors are raised before anything is written."""
    passwords = named_variables(arguments.password_env)
    connections = {}
    for source in sources:
        source.require_supported()
        connections[source.source_id] = connection_of(source, source_endpoint(source, passwords))
    troubles = write_connections(connections, overwrite=overwrite)
    return [source_answer(name, "", trouble) for name, trouble in troubles.items()]


def _stop(arguments: argparse.Namespace, output: Output) -> Exit:
    names = [load_source(Path(one)).source_id if one.endswith((".yaml", ".yml")) else one for one in arguments.names]
    return output.sources(None, [source_answer(name, "", delete_connection(name)) for name in names])


def _show(_arguments: argparse.Namespace, output: Output) -> Exit:
    return output.sources(None, [source_answer(name, "") for name in list_connections()])


def _import(arguments: argparse.Namespace, output: Output) -> Exit:
    """Write all sources of an export, and check its tasks. Raises InvalidInput, and errors of reading a source."""
    folder: Path = arguments.dir
    files = sorted((folder / "sources").glob("*.yaml"))
    if not files:
        raise InvalidInput(
            f"{folder} has no sources/*.yaml, so it was not written by DM's `config export`.",
            "Run `tiup dmctl --master-addr … config export --dir DIR` against DM, and name that directory.",
        )
    relayed = _relayed(folder / "relay_workers.json")
    sources = [_with_relay(load_source(file), relayed) for file in files]
    answers = _written(sources, arguments, overwrite=False)
    tasks = [_checked(file) for file in sorted((folder / "tasks").glob("*.yaml"))]
    result = all(answer["result"] for answer in (*answers, *tasks))
    return output.document({"result": result, "msg": "", "sources": answers, "tasks": tasks})


def _relayed(file: Path) -> frozenset[str]:
    """Return the sources with relay workers: DM's `start-relay` is not recorded in the source files."""
    if not file.exists():
        return frozenset()
    workers = json.loads(file.read_text(encoding="utf-8")) or {}
    return frozenset(source for source, names in workers.items() if names)


def _with_relay(source: SourceConfig, relayed: frozenset[str]) -> SourceConfig:
    return source.model_copy(update={"enable_relay": True}) if source.source_id in relayed else source


def _checked(file: Path) -> dict[str, Any]:
    """Return the answer about an exported task, with the features that this release does not support."""
    try:
        task = load_task(file)
        task.require_supported()
    except DmError as error:
        return {"result": False, "msg": str(error), "name": file.stem, "file": str(file)}
    msg = f"start it by its file with the sources {', '.join(task.source_ids)}"
    return {"result": True, "msg": msg, "name": task.name, "file": str(file)}
