"""A file of table definitions, with which an audit reads rows without the source.

    {"tables": [{"name": ["shop", "orders"], "columns": […], …}, …]}

A binlog has neither the names of columns nor their charsets; the source's catalogue has only the current ones. To read
today's log later, keep the definitions with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.schema.catalogue import list_tables, read_tables
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Table


def _definitions_unreadable(path: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the table definitions in {path} cannot be read: {reason}.",
        "Write the file with engine.schema.definitions.write_definitions.",
    )


def current_definitions(connection: Connection) -> tuple[Table, ...]:
    """Return the definitions of all base tables, except those that cannot be read (system-versioned)."""
    names = list_tables(connection)
    try:
        return tuple(read_tables(connection, names).values())
    except (TableNotFound, NotSupportedYet):  # a table was dropped meanwhile, or cannot be read
        definitions = []
        for name in names:
            try:
                definitions.append(read_tables(connection, [name])[name])
            except (TableNotFound, NotSupportedYet):
                continue
        return tuple(definitions)


def write_definitions(path: Path | str, tables: Iterable[Table]) -> None:
    """Write a file for `read_definitions`."""
    text = json.dumps({"tables": [table.to_json() for table in tables]}, indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def read_definitions(path: Path | str) -> tuple[Table, ...]:
    """Read the tables from a file of `write_definitions`. Raises InvalidInput."""
    try:
        return tuple(Table.from_json(table) for table in json.loads(Path(path).read_text(encoding="utf-8"))["tables"])
    except OSError as error:
        raise _definitions_unreadable(str(path), error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _definitions_unreadable(str(path), f"{type(error).__name__}: {error}") from error
