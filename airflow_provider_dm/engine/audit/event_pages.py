"""A page of a server's log for users, read by python-mysql-replication.

A page is only displayed. An event that the library cannot read is shown by its type and location with the error, and
the page continues. Values are shown as the library returns them, with column names if binlog_row_metadata is FULL.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql
from pymysql.constants.COMMAND import COM_BINLOG_DUMP
from pymysql.protocol import MysqlPacket
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import (
    GtidEvent,
    MariadbAnnotateRowsEvent,
    MariadbGtidEvent,
    QueryEvent,
    RotateEvent,
    RowsQueryLogEvent,
    XidEvent,
)
from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from airflow_provider_dm.engine.binlog.events import (
    EVENTS,
    FORMAT_DESCRIPTION,
    GTIDS,
    ROLES,
    ROTATE,
    TABLE_MAP,
    EventRole,
)
from airflow_provider_dm.engine.binlog.header import ARTIFICIAL_FLAG, HEADER_SIZE, EventHeader
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.mysql.connection import login
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location
from airflow_provider_dm.engine.relay.kinds import HEARTBEATS
from airflow_provider_dm.engine.relay.protocol import some_server_id

Json = dict[str, Any]

_DUMP: Final = bytes([COM_BINLOG_DUMP])
_FLAGS_AT: Final = 9
_SEND_ANNOTATE: Final = 2
_LOGGER: Final = "pymysqlreplication"
_FOUR_GIB: Final = 1 << 32
_CHANGES: Final = {WriteRowsEvent: "insert", UpdateRowsEvent: "update", DeleteRowsEvent: "delete"}


@dataclass(frozen=True)
class PageRequest:
    """The events of a log to return. `table`: only its rows, and statements that name it; None: all events."""

    begin: Location
    until: Location | None = None
    table: TableName | None = None
    limit: int = 100
    rows: bool = False
    """True to include the values of rows."""


@dataclass(frozen=True)
class EventPage:
    """Events in the order of the log, and the location after them; None at the end of the log.

    The page ends before a transaction that does not fit, unless that is the first: rows need their table map.
    """

    events: tuple[Json, ...]
    following: str | None


@dataclass
class _ReceivedHeaders:
    """The headers of all events received since the last `take`: the library skips some events silently."""

    headers: list[EventHeader] = field(default_factory=list)

    def record(self, packet: MysqlPacket) -> MysqlPacket:
        data: bytes = packet.get_all_data()  # type: ignore[no-untyped-call]
        if len(data) > HEADER_SIZE and data[0] == 0:
            self.headers.append(EventHeader.parse(data, 1))
        return packet

    def take(self) -> list[EventHeader]:
        headers, self.headers = self.headers, []
        return headers


def server_page(endpoint: Endpoint, wanted: PageRequest) -> EventPage:
    """Return a page of a server's log. Raises InvalidInput, and TLS errors."""
    try:
        return _page(wanted, login(endpoint))
    except pymysql.err.MySQLError as error:
        raise InvalidInput(
            f"the source does not send its binlog from {wanted.begin}: {error.args[-1] if error.args else error}.",
            "Give --from as FILE or FILE:POSITION, the beginning of an event in a file that the source still has.",
        ) from error


class _Recording(GuardedConnection):
    """A connection to a server that records the headers of events once the log is requested."""

    is_recording = False

    def __init__(self, received: _ReceivedHeaders, **settings: Any) -> None:
        self.received = received
        super().__init__(**settings)

    def _write_bytes(self, data: bytes) -> None:
        if data[4:5] == _DUMP:
            self.is_recording = True
            if "MariaDB" in str(self.server_version):  # otherwise MariaDB omits the texts of statements
                data = data[:_FLAGS_AT] + bytes([data[_FLAGS_AT] | _SEND_ANNOTATE]) + data[_FLAGS_AT + 1 :]
        super()._write_bytes(data)  # type: ignore[misc]

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        packet = super()._read_packet(packet_type)  # type: ignore[no-untyped-call]
        return self.received.record(packet) if self.is_recording else packet


# Reading


def _page(wanted: PageRequest, settings: Json) -> EventPage:
    received = _ReceivedHeaders()

    def connect(db: str | None = None, **more: Any) -> GuardedConnection:
        return _Recording(received, database=db, **more)  # the library passes PyMySQL's old name

    logging.getLogger(_LOGGER).setLevel(logging.ERROR)  # the library warns about logs without column names
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=some_server_id(),
        log_file=wanted.begin.file,
        log_pos=wanted.begin.position,
        resume_stream=True,
        filter_non_implemented_events=False,
        pymysql_wrapper=connect,
        enable_logging=False,
    )
    events: list[Json] = []
    begun = (0, wanted.begin)
    """The number of events before the current transaction, and the location of its beginning."""
    try:
        for place, code, shown in _shown(stream, received, wanted):
            if wanted.until is not None and place.sort_key >= wanted.until.sort_key:
                return EventPage(tuple(events), str(place))
            if code in GTIDS:
                begun = (len(events), place)
            if shown is not None and len(events) == wanted.limit:
                before, at = begun if begun[0] else (len(events), place)
                return EventPage(tuple(events[:before]), str(at))
            if shown is not None:
                events.append(shown)
    finally:
        stream.close()
    return EventPage(tuple(events), None)


def _shown(stream: Any, received: _ReceivedHeaders, wanted: PageRequest) -> Iterator[tuple[Location, int, Json | None]]:
    """Yield each event's location, code and JSON document, which is None if the event is not selected."""
    here = wanted.begin
    while True:
        why = ""
        try:
            event = stream.fetchone()
        except (pymysql.err.MySQLError, OSError, DmError):
            raise
        except Exception as error:  # noqa: BLE001 (an event that the library cannot read is shown with the error)
            event, why = None, f"{type(error).__name__}: {error}"
        headers = received.take()
        for number, header in enumerate(headers, 1):
            of_header = event if number == len(headers) else None
            if header.code == ROTATE and header.flags & ARTIFICIAL_FLAG:
                if of_header is not None and of_header.next_binlog != here.file:
                    here = Location(of_header.next_binlog, BINLOG_HEADER_SIZE, suffix=here.suffix)
                continue
            if header.flags & ARTIFICIAL_FLAG or header.code in HEARTBEATS or _is_repeated(header, here):
                continue
            here = here.at(_begin(header, here.position))
            yield here, header.code, _json(of_header, header, here, wanted, why if number == len(headers) else "")
            here = here.at(here.position + header.size)
        if event is None and not why:
            return


def _begin(header: EventHeader, at_least: int) -> int:
    """Return the position at which an event begins: its header has the lower 32 bits of its end."""
    if not header.log_position:
        return at_least
    low = (header.log_position - header.size) % _FOUR_GIB
    begin = at_least - at_least % _FOUR_GIB + low
    return begin if begin >= at_least else begin + _FOUR_GIB


def _is_repeated(header: EventHeader, here: Location) -> bool:
    """Return True for the format description event that a server sends before a position inside a file."""
    return header.code == FORMAT_DESCRIPTION and here.position > BINLOG_HEADER_SIZE


def _json(event: Any, header: EventHeader, here: Location, wanted: PageRequest, why: str) -> Json | None:
    document: Json = {
        "at": str(here),
        "time": dt.datetime.fromtimestamp(header.timestamp, dt.UTC).isoformat(),
        "type": EVENTS[header.code].name,
        "bytes": header.size,
    }
    if event is None and ROLES[header.code] == EventRole.ROWS:
        why = why or "its table map is before the page"
    if why:
        return {**document, "unread": why}
    match event:
        case GtidEvent() | MariadbGtidEvent():
            document["gtid"] = event.gtid
        case QueryEvent():
            document |= {"schema": _text(event.schema), "sql": _text(event.query)}
        case RowsQueryLogEvent():
            document["sql"] = event.query
        case MariadbAnnotateRowsEvent():
            document["sql"] = _text(event.sql_statement)
        case XidEvent():
            document["xid"] = event.xid
        case RotateEvent():
            document["next"] = f"{event.next_binlog}:{event.position}"
        case TableMapEvent():
            document["table"] = f"{event.schema}.{event.table}"
        case RowsEvent():
            document |= {"table": f"{event.schema}.{event.table}", **_rows(event, with_values=wanted.rows)}
    return document if wanted.table is None or _names(document, wanted.table) else None


def _names(document: Json, table: TableName) -> bool:
    if "table" in document:
        return bool(document["table"] == f"{table.schema}.{table.table}" and document["type"] != EVENTS[TABLE_MAP].name)
    return re.search(rf"\b{re.escape(table.table)}\b", str(document.get("sql", "")), re.IGNORECASE) is not None


def _rows(event: Any, *, with_values: bool) -> Json:
    kind = next((name for known, name in _CHANGES.items() if isinstance(event, known)), "")
    try:
        rows = list(event.rows)
    except Exception as error:  # noqa: BLE001 (the error is shown)
        return {"change": kind, "unread": f"{type(error).__name__}: {error}"}
    return {"change": kind, "rows": len(rows), **({"values": [_values(row) for row in rows]} if with_values else {})}


def _values(row: Json) -> Json:
    """Return the values of a row, before and after, as text and numbers."""
    names = {"values": "values", "before_values": "before", "after_values": "after"}
    values = {names[key]: cells for key, cells in row.items() if key in names}
    return {side: {str(name): _plain(value) for name, value in cells.items()} for side, cells in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return _text(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _text(value: bytes | str) -> str:
    """Return text; bytes that are not UTF-8 are shown in hexadecimal.

    >>> _text(b"abc"), _text(bytes([0xFF, 0]))
    ('abc', '0xff00')
    """
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
