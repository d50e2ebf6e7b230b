"""A server's report on its own binlog: its end, the files that still exist, and its format.

The statements differ by family and release (`capabilities`), the results do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pymysql

from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo, query, server_info, text
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.errors import BinlogDisabled, BinlogStatusDenied
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import Location

_STEADY_READS: Final = 5
"""On a busy server the binlog grows between two queries; after this many attempts the GTID set is computed instead."""

_NO_BINARY_LOGGING: Final = 1381


class BinlogSize(NamedTuple):
    """An existing binlog file and its size in bytes."""

    name: str
    size: int


NOT_SHOWN: Final = BinlogSize("unknown.000000", 0)
"""The end of a binlog that the server does not show the account."""


@dataclass(frozen=True)
class BinlogSettings:
    """The settings of the binlog. A text is "" if the server lacks the variable (but MySQL's `format` is ROW)."""

    log_bin: bool
    format: str
    """ROW, STATEMENT or MIXED."""
    row_image: str
    """FULL, MINIMAL or NOBLOB."""
    value_options: str
    """PARTIAL_JSON: updates of JSON are logged as changes."""
    gtid_mode: str
    """MySQL's gtid_mode; ON for other servers: MariaDB always has GTIDs."""
    expire_seconds: int
    """Time after which the server removes files by itself; 0: never."""


def current_location(connection: Connection) -> Location:
    """Return the end of the server's binlog, with suffix 1.

    The position is exact. The GTID set belongs to it, except that on MySQL it may lack transactions that are being
    committed at this moment. Raises BinlogDisabled, BinlogStatusDenied.
    """
    info = server_info(connection)
    before = _status(connection, info)
    for _ in range(_STEADY_READS):
        gtid_set = _gtid_set(connection, info)
        after = _status(connection, info)
        if after == before:
            break
        before = after
    else:
        gtid_set = _gtid_set(connection, info, at=before)
    return Location(before.name, before.size, gtid_set, server_uuid=info.server_uuid)


def binlog_end(connection: Connection) -> BinlogSize:
    """Return the file that the server writes to, and its size. Raises BinlogDisabled, BinlogStatusDenied."""
    return _status(connection, server_info(connection))


def end_if_shown(connection: Connection) -> BinlogSize:
    """Return the file that the server writes, and its end; NOT_SHOWN if the account may not ask. Raises BinlogDisabled.

    For a load that reads no log: it only reports the location.
    """
    try:
        return binlog_end(connection)
    except BinlogStatusDenied:
        return NOT_SHOWN


def location_if_shown(connection: Connection) -> Location:
    """Return `current_location`; NOT_SHOWN if the account may not ask, as `end_if_shown`. Raises BinlogDisabled."""
    try:
        return current_location(connection)
    except BinlogStatusDenied:
        return Location(*NOT_SHOWN, server_uuid=server_info(connection).server_uuid)


def location_of_end(connection: Connection, end: BinlogSize) -> Location:
    """Return the location of an earlier end of the binlog, with the GTID set that the server computes for it (MariaDB),
    or with all GTIDs executed by now (MySQL).
    """
    info = server_info(connection)
    return Location(end.name, end.size, _gtid_set(connection, info, at=end), server_uuid=info.server_uuid)


def list_binlogs(connection: Connection) -> list[BinlogSize]:
    """List the existing binlog files, oldest first. Raises BinlogDisabled, BinlogStatusDenied."""
    return [BinlogSize(text(row[0]), int(row[1])) for row in _ask(connection, "SHOW BINARY LOGS")]


def binlog_settings(connection: Connection) -> BinlogSettings:
    """Read the binlog settings. A setting that the release lacks is no error."""
    server = server_info(connection).capabilities
    names = "log_bin|binlog_format|binlog_row_image|binlog_row_value_options"
    more = "gtid_mode|binlog_expire_logs_seconds|expire_logs_days"
    rows = query(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name REGEXP %s", (f"^({names}|{more})$",))
    values = {text(name).lower(): text(value) for name, value in rows}
    days = float(values.get("expire_logs_days", "0") or 0)
    return BinlogSettings(
        log_bin=_on(values.get("log_bin")),
        format=values.get("binlog_format", server.unstated_format),
        row_image=values.get("binlog_row_image", "").upper(),
        value_options=values.get("binlog_row_value_options", "").upper(),
        gtid_mode=values.get("gtid_mode", "") if server.gtids_can_be_off else "ON",
        expire_seconds=int(values.get("binlog_expire_logs_seconds", "0") or 0) or int(days * 86400),
    )


def _on(value: str | None) -> bool:
    return (value or "").upper() in ("ON", "1")


def _status(connection: Connection, info: ServerInfo) -> BinlogSize:
    rows = _ask(connection, info.capabilities.binlog_status)
    if not rows:
        raise BinlogDisabled(_address(connection))
    return BinlogSize(text(rows[0][0]), int(rows[0][1]))


def _gtid_set(connection: Connection, info: ServerInfo, at: BinlogSize | None = None) -> str:
    """Return the executed GTIDs; or, if the server can compute it, the set `at` an end of the binlog."""
    server = info.capabilities
    if at is not None and server.gtids_at is not None:
        ((value,),) = query(connection, server.gtids_at, at)
    else:
        ((value,),) = query(connection, f"SELECT {server.executed_gtids}")
    return str(GtidSet.parse(text(value or ""), info.flavour))


def _ask(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    try:
        return query(connection, sql)
    except pymysql.err.MySQLError as error:
        number = error.args[0] if error.args else 0
        if number == _NO_BINARY_LOGGING:
            raise BinlogDisabled(_address(connection)) from error
        if number in ACCESS_DENIED:
            privilege = server_info(connection).capabilities.monitor_privilege
            raise BinlogStatusDenied(_address(connection), privilege) from error
        raise


def _address(connection: Connection) -> str:
    return f"{connection.host}:{connection.port}"
