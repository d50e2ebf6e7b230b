"""task.yaml and source.yaml: from a file, a text or a dictionary to a value, or to the list of all problems.

Three independent checks are made: `explain.unknown_keys` (the keys), the models (the values), `checks` (consistency).
All problems are reported together, ordered by line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final, TypeVar

from pydantic import ValidationError

from airflow_provider_dm.engine.config import checks, explain
from airflow_provider_dm.engine.config.base import Strict
from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.problems import Problem
from airflow_provider_dm.engine.config.shape import Model, mappings
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.config.yaml_lines import YamlDocument, read_document

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Strict)
Checks = Callable[[YamlDocument], Iterable[Problem]]

DEPRECATED: Final = frozenset(
    {
        *("ansi-quotes", "enable-heartbeat", "heartbeat-update-interval", "heartbeat-report-interval"),
        *("max-retry", "auto-fix-gtid", "disable-detect", "enable-ansi-quotes", "meta-file", "meta-dir"),
        *("max-allowed-packet", "mydumper-path", "tidb"),
    }
)
"""Accepted without effect, as in DM."""


def load_task(path: FilePath | str) -> TaskConfig:
    """Read a task.yaml. Raises ConfigError."""
    return parse_task(yaml_text(path), str(path))


def load_source(path: FilePath | str) -> SourceConfig:
    """Read a source.yaml. Raises ConfigError."""
    return parse_source(yaml_text(path), str(path))


def parse_task(text: str, file: str = "task.yaml") -> TaskConfig:
    """Parse the text of a task.yaml; `file` is its name in messages. Raises ConfigError."""
    return _build(TaskConfig, read_document(text), file, "the task", checks.task_problems)


def parse_source(text: str, file: str = "source.yaml") -> SourceConfig:
    """Parse the text of a source.yaml; `file` is its name in messages. Raises ConfigError."""
    return _build(SourceConfig, read_document(text), file, "the source", checks.source_problems)


def task_of(mapping: Mapping[str, object], name: str = "the task") -> TaskConfig:
    """Build a task from a dictionary with DM's keys, for example in a DAG. Raises ConfigError, without lines."""
    return _build(TaskConfig, YamlDocument(mapping), name, "the task", checks.task_problems)


def source_of(mapping: Mapping[str, object], name: str = "the source") -> SourceConfig:
    """Build a source from a dictionary with DM's keys, for example in a DAG. Raises ConfigError, without lines."""
    return _build(SourceConfig, YamlDocument(mapping), name, "the source", checks.source_problems)


def yaml_text(path: FilePath | str) -> str:
    """Return the text of a configuration file. Raises ConfigError."""
    try:
        return FilePath(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), (f"{path}: cannot be read: {error.strerror}",)) from None
    except UnicodeDecodeError:
        raise ConfigError(str(path), (f"{path}: is not UTF-8 text",)) from None
    except ValueError as error:  # a name that no file system accepts: a NUL, half of a character
        name = ascii(str(path))
        raise ConfigError(name, (f"{name}: cannot be read: {error}",)) from None


def _build(model: type[M], document: YamlDocument, file: str, top: str, further: Checks) -> M:
    problems = list(document.problems)
    if document.data is None:
        raise _error(file, document, problems or [Problem((), f"{top} is empty")])
    if not isinstance(document.data, Mapping):
        raise _error(file, document, [*problems, Problem((), f"{top} must be a mapping of keys to values")])
    problems += explain.unknown_keys(model, document.data, top)
    value: M | None = None
    try:
        value = model.model_validate(document.data)
    except ValidationError as error:
        problems += explain.invalid_values(model, error, top)
    problems += further(document)
    if problems or value is None:
        raise _error(file, document, problems)
    _warn(model, document, file)
    return value


def _error(file: str, document: YamlDocument, problems: Iterable[Problem]) -> ConfigError:
    placed = [(problem.line or document.line(problem.path), problem.text) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or 0)
    return ConfigError(file, tuple(dict.fromkeys(f"{_place(file, line)}: {text}" for line, text in placed)))


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _warn(model: Model, document: YamlDocument, file: str) -> None:
    for problem in checks.unused_lists(document):
        log.warning("%s: %s", _place(file, document.line(problem.path)), problem.text)
    for path in _deprecated(model, document):
        log.warning("%s: the key %s is deprecated and has no effect", _place(file, document.line(path)), path[-1])


def _deprecated(model: Model, document: YamlDocument) -> Iterator[tuple[str | int, ...]]:
    for path, _, mapping in mappings(model, document.data):
        yield from ((*path, key) for key in mapping if key in DEPRECATED)
