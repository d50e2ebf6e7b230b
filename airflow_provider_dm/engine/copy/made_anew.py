"""Which tables the log of a source shows to be made since a place, so that it has all of their rows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.copy.loading import Source
from airflow_provider_dm.engine.copy.snapshot import WatermarkBlocked
from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.ddl.statements import (
    AlterTable,
    CreateIndex,
    CreateTable,
    CreateTableLike,
    DropIndex,
    RenameTables,
    RenameTo,
    Statement,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.stored_names import as_stored
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import of_what_is_held, read_ddl, statements_between
from airflow_provider_dm.engine.relay.reader import RelayReader

RELAY_SECONDS: Final = 120.0
"""How long nothing may come of a log that has not come to the end of its source's."""


def made_anew(
    source: Source, names: Collection[TableName], altered: Collection[TableName], start: Location, end: Location
) -> frozenset[TableName]:
    """Return those of the tables that the log shows to be made since `start`, not of one of the `altered` ones.

    Raises WatermarkBlocked (retry), and what reading the log raises.
    """

    def idle(at: Location, seconds: float) -> None:
        if seconds > RELAY_SECONDS:
            raise WatermarkBlocked(source.id, f"its relay log, which is at {at}, to come to {end}", seconds)

    with connected(source.endpoint) as connection:
        server = server_of(connection)
    plans, never = of_what_is_held(RelayReader(Path(source.spec.relay_dir)), end), threading.Event()
    logged = map(read_ddl, statements_between(plans, idle, start, end, never, source=source.id, bounded=False))
    statements = [one if isinstance(one, NotRead | Unreadable) else as_stored(one, server) for one in logged]
    return created(statements, altered) & frozenset(names)


def created(
    statements: Iterable[Statement | NotRead | Unreadable], altered: Collection[TableName]
) -> frozenset[TableName]:
    """Return the tables that statements of a log have made, and not of one of these.

    >>> from airflow_provider_dm.engine.ddl.parse import parse
    >>> log = "CREATE TABLE a (i int)", "CREATE TABLE b LIKE c", "RENAME TABLE d TO e, a TO d", "CREATE TABLE f LIKE d"
    >>> sorted(name.table for name in created([parse(sql, 0, "s") for sql in log], [TableName("s", "c")]))
    ['d', 'f']
    """
    made: set[TableName] = set()
    for statement in statements:
        match statement:
            case CreateTable(name, if_not_exists=False):
                made.add(name)
            case CreateTableLike(name, like, if_not_exists=False) if like not in altered:
                made.add(name)
            case RenameTables(pairs):
                made = _renamed(made, pairs)
            case AlterTable(table, specs):
                made = _renamed(made, [(table, one.table) for one in specs if isinstance(one, RenameTo)])
            case CreateIndex() | DropIndex() | TruncateTable():
                pass
            case NotRead():
                made.difference_update(statement.about.tables)
            case Unreadable():
                made.clear()
            case _:
                made.difference_update(statement.tables)
    return frozenset(made)


def _renamed(made: set[TableName], pairs: Iterable[tuple[TableName, TableName]]) -> set[TableName]:
    for old, new in pairs:
        made = made - {old} | {new} if old in made else made - {new}
    return made
