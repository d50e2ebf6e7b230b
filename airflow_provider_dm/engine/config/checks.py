"""Consistency checks within one file: keys that exclude each other, references to missing entries.

The checks read the raw document instead of the models, so that they also report if another part of the file is invalid.
They ignore values of an unexpected type, which the models report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.config.explain import did_you_mean
from airflow_provider_dm.engine.config.problems import Path, Problem, path_text
from airflow_provider_dm.engine.config.yaml_lines import YamlDocument

Raw = Mapping[str, object]


@dataclass(frozen=True)
class KeyReference:
    """A key of a mysql-instance that names entries of a section of the task."""

    key: str
    sections: tuple[str, ...]
    older_key: str | None = None
    may_be_unused: bool = False
    """DM does not check references to block-allow lists, and its documented template has an unused one."""


LISTS: Final = ("block-allow-list", "black-white-list")
REFERENCES: Final = (
    KeyReference("route-rules", ("routes",)),
    KeyReference("filter-rules", ("filters",)),
    KeyReference("expression-filters", ("expression-filter", "expression-filters")),
    KeyReference("block-allow-list", LISTS, "black-white-list", True),
    KeyReference("mydumper-config-name", ("mydumpers",)),
    KeyReference("loader-config-name", ("loaders",)),
    KeyReference("syncer-config-name", ("syncers",)),
    KeyReference("validator-config-name", ("validators",)),
)
UNITS: Final = ("mydumper", "loader", "syncer")
PASSWORDS: Final = ("password", "password-env", "password-file")


def task_problems(document: YamlDocument) -> Iterator[Problem]:
    """Yield the contradictions and undefined references in a task."""
    task = _mapping(document.data)
    yield from _sharding(document, task)
    if task.get("column-mappings"):
        yield Problem(("column-mappings",), "DM has removed column mappings: remove column-mappings")
    yield from _instances(document, task)
    for reference in REFERENCES:
        yield from _references(task, reference)
    yield from _one_password(document, _mapping(task.get("target-database")), ("target-database",))


def unused_lists(document: YamlDocument) -> Iterator[Problem]:
    """Yield a problem for each block-allow list that no source names. DM accepts these, so it is only a warning."""
    task = _mapping(document.data)
    used = {name for _, instance in _instances_of(task) for key in LISTS for name in _names(instance.get(key))}
    for section in LISTS:
        for name in _mapping(task.get(section)):
            if name not in used:
                yield Problem((section, name), f'no mysql-instance names "{name}" of {section}, so it filters nothing')


def source_problems(document: YamlDocument) -> Iterator[Problem]:
    source = _mapping(document.data)
    yield from _one_password(document, _mapping(source.get("from")), ("from",))


def _sharding(document: YamlDocument, task: Raw) -> Iterator[Problem]:
    if _is_true(task.get("strict-optimistic-shard-mode")) and task.get("shard-mode") != "optimistic":
        line = document.line(("shard-mode",)) if "shard-mode" in task else None
        where = f" (line {line})" if line else ""
        text = f'"strict-optimistic-shard-mode" needs "shard-mode"{where} to be optimistic'
        yield Problem(("strict-optimistic-shard-mode",), text)


def _instances(document: YamlDocument, task: Raw) -> Iterator[Problem]:
    first: dict[object, Path] = {}
    for path, instance in _instances_of(task):
        source = instance.get("source-id")
        here = (*path, "source-id")
        if source in first:
            before = document.line(first[source])
            where = f"line {before}" if before else path_text(first[source], "")
            yield Problem(here, f'the source "{source}" is given twice, first in {where}')
        elif source is not None:
            first[source] = here
        for unit in UNITS:
            if _is_given(instance, unit) and _is_given(instance, f"{unit}-config-name"):
                yield _exclusive_keys(document, path, unit, f"{unit}-config-name")
        yield from _instance_keys(path, instance)


def _instance_keys(path: Path, instance: Raw) -> Iterator[Problem]:
    if instance.get("column-mapping-rules"):
        yield Problem((*path, "column-mapping-rules"), "DM has removed column mappings: remove column-mapping-rules")
    meta = instance.get("meta")
    if isinstance(meta, Mapping) and not (meta.get("binlog-name") or meta.get("binlog-gtid")):
        yield Problem((*path, "meta"), f'{path_text((*path, "meta"), "")} needs "binlog-name" or "binlog-gtid"')


def _references(task: Raw, reference: KeyReference) -> Iterator[Problem]:
    """Yield references that DM refuses: to a missing entry, or repeated; and entries without a reference."""
    section = next((name for name in reference.sections if task.get(name)), reference.sections[0])
    defined = _mapping(task.get(section))
    used: set[str] = set()
    for path, instance in _instances_of(task):
        key = reference.key if instance.get(reference.key) or not reference.older_key else reference.older_key
        here = (*path, key)
        names = _names(instance.get(key))
        for index, name in enumerate(names):
            if name not in defined:
                text = f'"{key}" in {path_text(path, "")} names "{name}", which is not in {section}'
                yield Problem(here, text + did_you_mean(name, tuple(defined)))
            elif name in names[:index]:
                yield Problem(here, f'"{key}" in {path_text(path, "")} names "{name}" twice')
        used.update(names)
    for name in defined:
        if name not in used and not reference.may_be_unused:
            yield Problem((section, name), f'no mysql-instance names "{name}" of {section}: use or remove it')


def _one_password(document: YamlDocument, database: Raw, path: Path) -> Iterator[Problem]:
    given = [key for key in PASSWORDS if _is_given(database, key)]
    for other in given[1:]:
        yield _exclusive_keys(document, path, given[0], other)


def _exclusive_keys(document: YamlDocument, path: Path, one: str, other: str) -> Problem:
    """Report two keys that exclude each other at the later one, with the line of the earlier one."""
    places = [(document.line((*path, key)) or 0, key) for key in (one, other)]
    (line, earlier), (_, later) = sorted(places, key=lambda place: place[0])
    where = f" (line {line})" if line else ""
    return Problem((*path, later), f'"{later}" and "{earlier}"{where} cannot be given together')


def _instances_of(task: Raw) -> Iterator[tuple[Path, Raw]]:
    instances = task.get("mysql-instances")
    for index, instance in enumerate(instances if isinstance(instances, list | tuple) else ()):
        if isinstance(instance, Mapping):
            yield ("mysql-instances", index), instance


def _mapping(value: object) -> Raw:
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []


def _is_given(mapping: Raw, key: str) -> bool:
    """Return True if a key has a value. DM's examples contain empty keys, which do not count."""
    return mapping.get(key) not in (None, "")


def _is_true(value: object) -> bool:
    return value is True or str(value).lower() in ("true", "yes", "on")
