"""The session variables with which the target executes a statement of the log, taken from the source's session.

The log contains the session's time zone if the statement used it. `SYSTEM` is the zone of the source's machine, and
`system_time_zone` is only an abbreviation, which does not identify a zone or an offset. A named zone has other rules in
the target, or none, if its time zone tables are not as new. So the offset is computed by the source, for the moments
on which the statement depends (`ddl/zones.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.zones import ZoneNeed
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.mysql.pinning import set_all
from airflow_provider_dm.engine.mysql.sql_modes import mode_text
from airflow_provider_dm.engine.sync.errors import CannotFollow, ValuesDiffer

_SYSTEM: Final = "SYSTEM"
_EVERY_SIX_DAYS: Final = 524_200
"""Seconds. 4,096 such steps from 1970 reach the year 2038, up to which all servers have a TIMESTAMP."""
_SIXTEEN: Final = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(16))
_MOMENTS: Final = (
    f"SELECT (a.n + 16 * b.n + 256 * c.n) * {_EVERY_SIX_DAYS} AS n "
    f"FROM ({_SIXTEEN}) AS a, ({_SIXTEEN}) AS b, ({_SIXTEEN}) AS c"
)
_OFFSET: Final = "TIMESTAMPDIFF(SECOND, '1970-01-01', FROM_UNIXTIME({n})) - {n}"
_OFFSET_AT: Final = "TIMESTAMPDIFF(SECOND, '1970-01-01', %s) - FLOOR(UNIX_TIMESTAMP(%s))"
_LEAST, _MOST = -13 * 3600 - 59 * 60, 14 * 3600
"""The offsets in seconds that every server accepts."""


def session_of(ddl: DdlStatement, need: ZoneNeed, source: Endpoint, target: Endpoint, server: Server) -> list[Setting]:
    """Return the variables of the source's session that influence the statement's effect on rows.

    `server`: the one that wrote the log. Raises ValuesDiffer, CannotFollow, SessionRefused, and what connecting raises.
    """
    session = ddl.session
    flavours = (server.flavour, server_info(target_connection(target)).flavour)
    settings = [
        Setting("sql_mode", mode_text(ddl.sql_mode, *flavours)),
        Setting("timestamp", ddl.timestamp + (session.microseconds or 0) / 1_000_000),
        Setting("explicit_defaults_for_timestamp", 1),  # the statement has all defaults explicitly
    ]
    if session.time_zone is not None and need:
        zone = session.time_zone.decode("ascii", "replace")
        if not zone.startswith(("+", "-")):
            zone = _of_source(zone, need, ddl.timestamp, source, target)
        settings.append(Setting("time_zone", zone))
    if session.auto_increment is not None:
        increment, offset = session.auto_increment
        settings += [Setting("auto_increment_increment", increment), Setting("auto_increment_offset", offset)]
    return settings


def _of_source(zone: str, need: ZoneNeed, second: int, source: Endpoint, target: Endpoint) -> str:
    """Return the offset by which the source computes; the zone's name if rows need its rules and the target has them.

    Raises ValuesDiffer, CannotFollow.
    """
    with _in_zone(source, zone) as connection:
        offsets = _zone_offsets(connection)
        if len(set(offsets.values())) == 1:
            return _as_time_zone(offsets.popitem()[1])
        if need.rules:
            _check_rules(zone, offsets, need, target)
            return zone
        needed = {offset for at in need.local_times for offset in _offsets(connection, f"SELECT {_OFFSET_AT}", at, at)}
        if need.moment:
            needed |= _offsets(connection, f"SELECT {_OFFSET.format(n=int(second))}")
    if len(needed) != 1:
        raise CannotFollow(f"it depends on several offsets of the source's time zone {zone} ({sorted(needed)} seconds)")
    return _as_time_zone(needed.pop())


def _check_rules(zone: str, offsets: Mapping[int, int], need: ZoneNeed, target: Endpoint) -> None:
    if zone.upper() == _SYSTEM:
        raise ValuesDiffer(
            f"{'; '.join(need.rules)}: its session has the time zone SYSTEM of the source's machine, which has "
            "several offsets, and the target cannot know by which of them each row is converted"
        )
    with _in_zone(target, zone) as connection:
        in_target = _zone_offsets(connection)
    if any(in_target.get(second, offset) != offset for second, offset in offsets.items()):
        raise ValuesDiffer(
            f"{'; '.join(need.rules)}: the time zone {zone} of its session has other rules in the target"
        )


@contextmanager
def _in_zone(server: Endpoint, zone: str) -> Iterator[Connection]:
    with connected(server) as connection:
        set_all(connection, [Setting("time_zone", zone)], server=str(server))
        yield connection


def _zone_offsets(connection: Connection) -> dict[int, int]:
    """Return the offsets of the session's zone by second."""
    asked = f"SELECT n, {_OFFSET.format(n='n')} FROM ({_MOMENTS}) AS moments"
    return {int(second): int(offset) for second, offset in query(connection, asked) if offset is not None}


def _offsets(connection: Connection, sql: str, *arguments: str) -> set[int]:
    return {int(offset) for (offset,) in query(connection, sql, arguments) if offset is not None}


def _as_time_zone(offset: int) -> str:
    """Format an offset in seconds for the variable time_zone. Raises CannotFollow.

    >>> _as_time_zone(-34200), _as_time_zone(0)
    ('-09:30', '+00:00')
    """
    if offset % 60 or not _LEAST <= offset <= _MOST:
        raise CannotFollow(f"no server accepts a time zone with an offset of {offset} seconds")
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"
