"""Tables that are altered in the midst of their copy and copied on, as nobody may remove their rows: the sync follows.

What was done to them is in the source's log, from P0 on. That is asked, and held against what the tables are now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.copy.begin import Source
from airflow_provider_dm.engine.copy.lineage import Lineage, Logged, NotTold, created, lineage
from airflow_provider_dm.engine.copy.watermark import WatermarkBlocked
from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.ddl.server import CannotTrack, Server, SessionDefaults, server_of
from airflow_provider_dm.engine.ddl.stored_names import as_stored
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import (
    explicit_timestamps,
    of_what_is_held,
    read_ddl,
    statements_between,
)
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.model import Table

RELAY_SECONDS: Final = 120.0
"""How long nothing may come of a log that has not come to the end of its source's."""
ATTEMPTS: Final = 5


@dataclass(frozen=True)
class Begun:
    """A table as it was at P0, with its CREATE TABLE."""

    table: Table
    create: str


def lineages(
    source: Source, begun: Mapping[TableName, Begun], start: Location, end: Callable[[], Location]
) -> dict[TableName, Lineage | NotTold]:
    """Return what became of tables since P0, or why that cannot be told. `end`: says where the source's log ends.

    Raises TableNotFound, WatermarkBlocked (retry), and what reading the log raises.
    """
    names = list(begun)
    with connected(source.endpoint) as connection:
        server = server_of(connection)
    found: dict[TableName, Lineage | NotTold] = {}
    for attempt in range(ATTEMPTS):
        with connected(source.endpoint) as connection:
            now = read_tables(connection, names)
        logged = _logged(source, server, start, end())
        for name, one in begun.items():
            found[name] = _of(name, one, server, logged)
        late = [name for name, one in found.items() if isinstance(one, Lineage) and one.table != now[name]]
        if not late:
            break
        if attempt + 1 < ATTEMPTS:
            time.sleep(0.2 * 2**attempt)  # it was altered again between the two
            continue
        for name in late:
            found[name] = NotTold("its log does not show what it is now")
    return found


def made_anew(
    source: Source, names: Collection[TableName], altered: Collection[TableName], start: Location, end: Location
) -> frozenset[TableName]:
    """Return those of the tables that the log shows to be made since `start`, not of one of the `altered` ones.

    Raises WatermarkBlocked (retry), and what reading the log raises.
    """
    with connected(source.endpoint) as connection:
        server = server_of(connection)
    statements = [
        one.said if isinstance(one.said, NotRead | Unreadable) else as_stored(one.said, server)
        for one in _logged(source, server, start, end)
    ]
    return created(statements, altered) & frozenset(names)


def _of(name: TableName, begun: Begun, server: Server, logged: Sequence[Logged]) -> Lineage | NotTold:
    try:
        before = Tracker.of(server, {name: begun.create}, {})
        if before.table(name) == begun.table:
            return lineage(name, before, logged)
    except CannotTrack:
        pass
    except NotTold as why:
        return why
    return NotTold("its definition is not understood")


def _logged(source: Source, server: Server, start: Location, until: Location) -> list[Logged]:
    def idle(at: Location, seconds: float) -> None:
        if seconds > RELAY_SECONDS:
            raise WatermarkBlocked(source.id, f"its relay log, which is at {at}, to come to {until}", seconds)

    plans = of_what_is_held(RelayReader(Path(source.spec.relay_dir)), until)
    never = threading.Event()
    statements = statements_between(plans, idle, start, until, never, source=source.id, bounded=False)
    return [
        Logged(
            read_ddl(one),
            SessionDefaults(one.sql_mode, explicit_timestamp_defaults=explicit_timestamps(one.session, server)),
        )
        for one in statements
    ]
