"""`binlog-schema`: the definitions by which a task reads the source's log.

    binlog-schema list TASK.yaml [DATABASE [TABLE]]     their names; of one table, as DM does, its CREATE TABLE
    binlog-schema get TASK.yaml DATABASE TABLE          its CREATE TABLE
    binlog-schema update TASK.yaml DATABASE TABLE FILE  replaces it from now on (or --from-source, --from-target)
    binlog-schema delete TASK.yaml DATABASE TABLE       removes it

They are in the target, with the task's checkpoint, so the task's file is needed for the target's credentials. `list`
and `get` also work during a run; the other actions claim the task for a moment, and are refused during a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.inputs import (
    add_password_argument,
    named_variables,
    other_source,
    source_endpoint,
    target_endpoint,
)
from airflow_provider_dm.cli.output import Exit, Output, source_answer
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.config.yaml_file import load_source, load_task
from airflow_provider_dm.engine.downstream.schema_by_hand import definition_in
from airflow_provider_dm.engine.downstream.table_definitions import Definition
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.launch.table_schemas import TableSchemas, in_source

Json = dict[str, Any]


def _definition_not_given(reason: str) -> InvalidInput:
    return InvalidInput(
        f"binlog-schema update: {reason}.",
        "Give a file with CREATE TABLE, or --from-target, or --from-source with the source's --source-file.",
    )


def add_verbs(verbs: Verbs) -> None:
    actions = verbs.below("binlog-schema", "list|get|update|delete")
    listing = actions.add("list", _list, "show the tables of a task")
    _add_task(listing)
    listing.add_argument("database", metavar="DATABASE", nargs="?")
    listing.add_argument("table", metavar="TABLE", nargs="?")
    _add_table(actions.add("get", _get, "show a table's CREATE TABLE"))
    update = actions.add("update", _update, "read the rows of a table by another definition from now on")
    _add_table(update)
    update.add_argument("file", metavar="FILE", type=Path, nargs="?", help="a file with the table's CREATE TABLE")
    where = update.add_mutually_exclusive_group()
    where.add_argument("--from-source", action="store_true", help="as the source has the table now")
    where.add_argument("--from-target", action="store_true", help="as the target has its table now")
    source_file = "the source's file, for --from-source; one for each source"
    update.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, action="append", help=source_file)
    _add_table(actions.add("delete", _delete, "remove a table's definition"))


def _add_task(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK.yaml", type=Path)
    add_sources(parser)
    add_password_argument(parser)
    meta.add_arguments(parser)


def _add_table(parser: argparse.ArgumentParser) -> None:
    _add_task(parser)
    parser.add_argument("database", metavar="DATABASE")
    parser.add_argument("table", metavar="TABLE")


def _list(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print the names of the tables, optionally of one schema; for one table its definition."""
    if arguments.table is not None:
        return _get(arguments, output)
    given = SchemaInputs.of(arguments)

    def act(source: str) -> Json:
        known = given.tables.known(source)
        return {"tables": [str(name) for name in known if arguments.database in (None, name.schema)]}

    return given.each(output, "List", act)


def _get(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print a table's CREATE TABLE, as DM does in `msg`."""
    given = SchemaInputs.of(arguments)

    def act(source: str) -> Json:
        definition = given.tables.get(source, given.name)
        return {"msg": definition.create_sql, "collation": definition.collation}

    return given.each(output, "Get", act)


def _update(arguments: argparse.Namespace, output: Output) -> Exit:
    """Store another definition for each source. Raises InvalidInput."""
    given = SchemaInputs.of(arguments)
    return given.each(output, "Update", partial(_change, given, _definition_from(given)))


def _delete(arguments: argparse.Namespace, output: Output) -> Exit:
    """Remove a table's definition on each source."""
    given = SchemaInputs.of(arguments)
    return given.each(output, "Delete", partial(_change, given, lambda _: None))


def _change(given: SchemaInputs, new: Callable[[str], Definition | None], source: str) -> Json:
    given.tables.check_selected(source, given.name)
    definition = new(source)
    with meta.open_store(given.arguments) as store:
        given.tables.change(store, source, given.name, definition)
    return {"msg": definition.create_sql if definition is not None else ""}


def _definition_from(given: SchemaInputs) -> Callable[[str], Definition | None]:
    """Return a function from a source to the new definition. Raises InvalidInput."""
    arguments, name = given.arguments, given.name
    if [arguments.file is not None, arguments.from_source, arguments.from_target].count(True) != 1:
        raise _definition_not_given("give one of: a file, --from-source, --from-target")
    if arguments.file is not None:
        of_file = definition_in(_text_of(arguments.file), name)
        return lambda _: of_file
    if arguments.from_target:
        return lambda source: given.tables.in_target(source, name)
    endpoints = _source_endpoints(given)
    return lambda source: in_source(endpoints[source], name)


def _source_endpoints(given: SchemaInputs) -> dict[str, Endpoint]:
    """Return the endpoint of each chosen source. Raises InvalidInput."""
    endpoints = {}
    for file in given.arguments.source_file or ():
        config = load_source(file)
        if config.source_id not in given.sources:
            raise other_source(" or ".join(given.sources), str(file), config.source_id)
        endpoints[config.source_id] = source_endpoint(config, given.passwords)
    if missing := [source for source in given.sources if source not in endpoints]:
        raise _definition_not_given(f"--source-file of {', '.join(missing)} is missing")
    return endpoints


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _definition_not_given(f"{file} cannot be read ({type(error).__name__})") from None


@dataclass(frozen=True)
class SchemaInputs:
    """The task and the sources of the command line, and the task's target."""

    arguments: argparse.Namespace
    tables: TableSchemas
    sources: tuple[str, ...]
    passwords: Mapping[str, Secret]

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> SchemaInputs:
        """Read the task's file. Raises ConfigError, InvalidInput, …"""
        task = load_task(arguments.task)
        sources = tuple(dict.fromkeys(arguments.sources)) or task.source_ids
        for source in sources:
            task.instance(source)
        passwords = named_variables(arguments.password_env)
        tables = TableSchemas(task, target_endpoint(task, passwords))
        return cls(arguments, tables, sources, passwords)

    @property
    def name(self) -> TableName:
        return TableName(self.arguments.database, self.arguments.table)

    def each(self, output: Output, op: str, act: Callable[[str], Json]) -> Exit:
        """Print the answer of `act` for each source; an error is that source's answer."""
        answers: list[Json] = []
        for source in self.sources:
            try:
                answers.append(source_answer(source, "") | act(source))
            except DmError as error:
                answers.append(source_answer(source, "", str(error)))
        return output.sources(op, answers)
