"""Reads the DDL of a source's log between two locations, to find out how tables were altered in between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.session_variables import EXPLICIT_TIMESTAMPS, Session
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.ddl.errors import NotRead, Unreadable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.reading.errors import NotBegunYet
from airflow_provider_dm.engine.relay.reader import RelayReader

log = logging.getLogger(__name__)

LOG_POLL_SECONDS: Final = 0.5
STILL_SECONDS: Final = 10.0
"""A private log that has not grown for this long is complete."""

Plans = Callable[[Location, tuple[PreparedXa, ...]], Planned]
"""Plans the next part of the log after a location, given the XA transactions that are prepared there."""


def statements_between(
    plans: Plans,
    idle: Callable[[Location, float], None],
    lo: Location,
    hi: Location,
    stop: threading.Event,
    *,
    source: str,
    bounded: bool,
) -> Iterator[DdlStatement]:
    """Yield the DDL of the log between two locations; wait until the log has reached `hi`. Raises NotBegunYet.

    `idle`: called while the log does not grow, to check why. `bounded`: the log may end before `hi`, which ends the
    search.
    """
    here, prepared, since = lo, tuple[PreparedXa, ...](), time.monotonic()
    while not reached(here, hi):
        match plans(here, prepared):
            case Epoch() as epoch:
                here, prepared = epoch.hi, prepared if epoch.prepared is None else epoch.prepared
                since = time.monotonic()
            case DdlStatement() as ddl:
                yield ddl
                here, since = ddl.end, time.monotonic()
            case UpToDate(at):
                if reached(at, hi):
                    return
                if bounded and time.monotonic() - since > STILL_SECONDS:
                    log.warning("%s: DDL was searched only up to %s, the end of the private log", source, at)
                    return
                if stop.wait(LOG_POLL_SECONDS):
                    raise NotBegunYet(
                        f"{source}: the sync has not begun, because the log has not reached {hi} yet.",
                        "Run the task again. If it waits again, check the relay of the source (`dmctl query-status`).",
                    )
                idle(at, time.monotonic() - since)


def private_log_plans(reader: RelayReader, hi: Location) -> Plans:
    """Return a function that plans a task's private log up to `hi`, but does not allow its relay to remove files."""

    def plans(here: Location, prepared: tuple[PreparedXa, ...]) -> Planned:
        files = reader.files(here)
        if not files:
            return UpToDate(here)
        return plan_epoch(files, here, EpochLimits(goal=hi), prepared=prepared, held=reader.held)

    return plans


def read_ddl(ddl: DdlStatement) -> Statement | NotRead | Unreadable:
    """Parse a statement of the log. Return the statement, or why it is not parsed."""
    if ddl.undecoded is not None:
        return Unreadable("its text is in a charset that is not supported")
    try:
        return parse(ddl.sql, ddl.sql_mode, ddl.schema)
    except Unreadable as error:
        return error


def explicit_timestamps(session: Session, server: Server | None) -> bool | None:
    """Return a session's explicit_defaults_for_timestamp; None if it is unknown."""
    if session.explicit_timestamp_defaults is not None:
        return session.explicit_timestamp_defaults
    if server is None or not server.mariadb or server.version < (10, 8, 2) or session.flags is None:
        return server.explicit_timestamps if server is not None else None
    return bool(session.flags & EXPLICIT_TIMESTAMPS)
