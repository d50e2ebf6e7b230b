"""From an operator's arguments to values of the engine: the task, its sources, its target, and how to log in to them.

The rules of precedence, once for all operators:
- A source's login is the Airflow connection that `source_conn_ids` names for it; else `from` of its source.yaml; else
  the Airflow connection whose id is the source-id.
- The target's login is `target_conn_id`; else `target-database` of the task.
- The options of a source without source.yaml are those of its connection. Unless they have `enable-relay: false`, it
  keeps a relay log, which `DmRelayOperator` writes for it.
- `[dm] relay_dir` overrides the `relay-dir` of every source.

A password is never an argument: Airflow shows DAG files and rendered arguments to every viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from jinja2 import TemplateError

from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig, source_files_differ, unknown_source
from airflow_provider_dm.engine.config.yaml_file import parse_source, parse_task, source_of, task_of, yaml_text
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import TARGET, Endpoint
from airflow_provider_dm.hooks import database
from airflow_provider_dm.hooks.database import endpoint_of
from airflow_provider_dm.hooks.errors import connection_missing
from airflow_provider_dm.hooks.settings import with_relay_dir
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.operators.arguments import conn_ids_by_source, listed, text_argument

_YAML: Final = (".yaml", ".yml")
_TEMPLATE_ERRORS: Final = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of Jinja, and of the Python expressions in a template."""
_PASSWORD_KEYS: Final = frozenset({"password", "ssl-key-base64", "ssl_key_base64"})

Document = str | Mapping[str, Any]
"""The path of a YAML file, or its content."""


@dataclass(frozen=True)
class Files:
    """The way in which YAML files are read. `folder`: of relative paths; `render`: from a template to text."""

    folder: Path
    render: Callable[[str], str] = str

    def text(self, name: str) -> str:
        """Return a file's text. Raises ConfigError.

        The name may be a run's parameter: no other file of the worker is read, as an error shows its lines.
        """
        path = self.folder / name
        if not name.endswith(_YAML):
            raise ConfigError(str(path), (f"{path}: the name does not end with .yaml or .yml",))
        template = yaml_text(path)
        try:
            return self.render(template)
        except _TEMPLATE_ERRORS as error:
            raise ConfigError(str(path), (f"{path}: as a Jinja template: {error}",)) from None


def read_inputs(
    *,
    task: Document,
    sources: Sequence[Document] | None,
    source_conn_ids: Mapping[str, str] | None,
    target_conn_id: str | None,
    files: Files,
) -> Inputs:
    """Read the task, its sources and its target from an operator's arguments.

    Raises ConfigError, NotSupportedYet, InvalidInput, ConnectionUnusable, ArgumentUnusable.
    """
    config = read_task(task, files)
    conn_ids = conn_ids_by_source(source_conn_ids, config.source_ids)
    given = [read_source(source, files, conn_ids) for source in listed(sources, "sources")]
    configs = chosen_sources(config, given, conn_ids)
    config.require_supported()
    for one in configs:
        one.require_supported()
    endpoints = tuple(source_endpoint(one, conn_ids.get(one.source_id)) for one in configs)
    return Inputs(config, configs, endpoints, target_endpoint(config, target_conn_id))


def read_task(document: Document, files: Files) -> TaskConfig:
    """Read the task from the path or the content of a task.yaml. Raises ConfigError, InvalidInput."""
    if isinstance(document, str):
        return parse_task(files.text(document), str(files.folder / document))
    refuse_passwords(document)
    return task_of(document, "the operator's argument `task`")


def task_name(document: Document, files: Files) -> str:
    """Return the task's name, which may be given by its file or its dictionary. Raises the errors of `read_task`."""
    if isinstance(document, str) and not document.endswith(_YAML):
        return text_argument(document, "task")
    return read_task(document, files).name


def sources_of(task: TaskConfig, given: Sequence[str]) -> tuple[str, ...]:
    """Return these source-ids of the task; none given: all. Raises InvalidInput."""
    for source in given:
        task.instance(source)
    return tuple(given) or tuple(task.source_ids)


def read_source(document: Document, files: Files, conn_ids: Mapping[str, str] = MappingProxyType({})) -> SourceConfig:
    """Read a source: its id, the path of a source.yaml, or the content of one. `conn_ids`: the connections of sources
    whose connection has another id. Raises ConfigError, InvalidInput, ConnectionUnusable.
    """
    if not isinstance(document, str):
        refuse_passwords(document)
        return with_relay_dir(source_of(document, "the operator's argument `source`"))
    text_argument(document, "source")
    if document.endswith(_YAML) or "/" in document:
        return with_relay_dir(parse_source(files.text(document), str(files.folder / document)))
    return connection_source(conn_ids.get(document, document), document)


def connection_source(conn_id: str, source_id: str) -> SourceConfig:
    """Return the source that a connection describes; without one, a source with a relay log and no other option.

    Raises ConfigError, ConnectionUnusable.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return with_relay_dir(SourceConfig(source_id=source_id, enable_relay=True))
    return database.source_in(connection, source_id)


def chosen_sources(
    task: TaskConfig, given: Sequence[SourceConfig], conn_ids: Mapping[str, str] = MappingProxyType({})
) -> tuple[SourceConfig, ...]:
    """Return the given sources in the order of the task; if none is given, all of the task, by their connections.

    Raises InvalidInput, ConfigError, ConnectionUnusable.
    """
    by_id: dict[str, SourceConfig] = {}
    for source in given:
        if source.source_id not in task.source_ids:
            raise unknown_source(source.source_id, task.name, tuple(task.source_ids))
        if source.source_id in by_id:
            raise source_files_differ(task.name, f"`sources` has source {source.source_id} twice")
        by_id[source.source_id] = source
    if not by_id:
        return tuple(connection_source(conn_ids.get(source, source), source) for source in task.source_ids)
    return tuple(by_id[source_id] for source_id in task.source_ids if source_id in by_id)


def source_endpoint(source: SourceConfig, conn_id: str | None) -> Endpoint:
    """Return the endpoint of a source. Raises InvalidInput, ConnectionUnusable."""
    if conn_id is None and source.from_ is not None:
        return source.from_.endpoint(source.source_id)
    wanted = conn_id or source.source_id
    return connection_endpoint(
        wanted, source.source_id, f"source {source.source_id}", "no source.yaml with `from` was given"
    )


def target_endpoint(task: TaskConfig, conn_id: str | None) -> Endpoint:
    """Return the endpoint of the target. Raises InvalidInput, ConnectionUnusable."""
    if conn_id is None and task.target_database is not None:
        return task.target_database.endpoint(TARGET)
    if conn_id is None:
        raise connection_missing("target_conn_id", f"the target of task {task.name}", "the task has no target-database")
    return connection_endpoint(conn_id, TARGET, f"the target of task {task.name}", "the operator names this one")


def connection_endpoint(conn_id: str, name: str, wanted_by: str, instead: str) -> Endpoint:
    """Return the endpoint of an Airflow connection. Raises InvalidInput, ConnectionUnusable."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise connection_missing(conn_id, wanted_by, instead) from None
    return endpoint_of(connection, name)


def refuse_passwords(document: Mapping[str, Any]) -> None:
    """Raise InvalidInput when a password is written anywhere in the document."""
    for path in _passwords(document, ()):
        raise InvalidInput(
            f"the operator's argument holds a password ({path}).",
            "Use an Airflow connection, password-env or password-file, or give the path of a YAML file.",
        )


def _passwords(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if str(key) in _PASSWORD_KEYS and inner:
                yield ".".join((*path, str(key)))
            else:
                yield from _passwords(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _passwords(inner, (*path, str(index)))
