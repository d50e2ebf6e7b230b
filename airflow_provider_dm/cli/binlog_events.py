"""`binlog events`: a page of a source's log for users.

    dmctl binlog events --source-file SOURCE.yaml                                   the source's newest file
    dmctl binlog events --source-file SOURCE.yaml --from mysql-bin.000003:4711 --until mysql-bin.000004 --rows

`--from` is a position at which an event begins, preferably a transaction: rows whose table map is before it are not
shown. `next` in the answer is the `--from` of the next page.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli.inputs import add_password_argument, named_variables, source_endpoint
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import load_source
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location


def add_events(actions: Verbs) -> None:
    parser = actions.add("events", show_events, "show a page of a source's log")
    parser.add_argument("--source-file", metavar="SOURCE.yaml", type=Path, required=True)
    add_password_argument(parser)
    parser.add_argument("--from", metavar="FILE[:POSITION]", type=_place, dest="begin", help="default: the newest file")
    parser.add_argument("--until", metavar="FILE[:POSITION]", type=_place, help="default: where the log ends")
    parser.add_argument("--table", metavar="SCHEMA.TABLE", type=_table, help="its rows, and statements that name it")
    parser.add_argument("--rows", action="store_true", help="with the values of rows, which may be secret")
    parser.add_argument("--limit", metavar="N", type=int, default=100, help="default: %(default)s")


def show_events(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print the page. Raises ConfigError, InvalidInput, and errors of connecting and reading."""
    config = load_source(arguments.source_file)
    page = _page(arguments, config)
    body = {"source": config.source_id, "events": list(page.events), "next": page.following}
    more = f"\nmore: --from {page.following}" if page.following else ""
    output.answer(body, "\n".join(map(line_of, page.events)) + more)
    return Exit.DONE


def line_of(event: Mapping[str, Any]) -> str:
    """Return an event as text, with the values of rows on separate lines.

    >>> line_of({"at": "bin.000001:4", "time": "2026-01-01T00:00:00+00:00", "type": "XID", "bytes": 31, "xid": 7})
    'bin.000001:4  2026-01-01T00:00:00+00:00  XID  31 bytes  xid 7'
    """
    rest = [f"{key} {value}" for key, value in event.items() if key not in ("at", "time", "type", "bytes", "values")]
    head = [event["at"], event["time"], event["type"], f"{event['bytes']} bytes", *rest]
    values = [
        f"    {name} {', '.join(f'{column}={value!r}' for column, value in cells.items())}"
        for row in event.get("values", ())
        for name, cells in row.items()
    ]
    return "\n".join(["  ".join(map(str, head)), *values])


def _page(arguments: argparse.Namespace, config: SourceConfig) -> Any:
    from airflow_provider_dm.engine.audit.event_pages import server_page
    from airflow_provider_dm.engine.mysql.binlog_status import current_location
    from airflow_provider_dm.engine.mysql.connection import connected

    endpoint = source_endpoint(config, named_variables(arguments.password_env))
    with connected(endpoint) as connection:
        end = current_location(connection)
    return server_page(endpoint, _wanted(arguments, arguments.begin or Location(end.file, BINLOG_HEADER_SIZE)))


def _wanted(arguments: argparse.Namespace, begin: Location) -> Any:
    from airflow_provider_dm.engine.audit.event_pages import PageRequest

    return PageRequest(begin, arguments.until, arguments.table, arguments.limit, arguments.rows)


def _place(text: str) -> Location:
    """Parse a location; a file alone means its beginning."""
    try:
        return Location.parse(text if ":" in text else f"{text}:{BINLOG_HEADER_SIZE}")
    except InvalidLocation as error:
        raise argparse.ArgumentTypeError(error.message()) from None


def _table(text: str) -> TableName:
    schema, dot, name = text.partition(".")
    if not dot or not schema or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not SCHEMA.TABLE")
    return TableName(schema, name)
