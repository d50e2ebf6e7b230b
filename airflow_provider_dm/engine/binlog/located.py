"""The event of a change: its position, time, server and transaction.

Needed by audits, not by the sync. A batch of changes has the position of each change's event; the other facts are in
the headers, which are read in parallel to the decoder, forwards only. The decoder has verified the checksums of all
events that are looked up here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.events import ROLES, EventRole
from airflow_provider_dm.engine.binlog.gtid_events import MARIADB_GTID, MYSQL_GTID, gtid_text, tagged_gtid
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.window import CHUNK_SIZE, Bytes


class Event(NamedTuple):
    """One event.

    `timestamp`: seconds since 1970; `gtid`: the id of its transaction, or None.
    """

    position: int
    end: int
    timestamp: int
    server_id: int
    gtid: str | None


class Events:
    """The events of a range. `gtid`: the id of the transaction in which the range begins, if any."""

    def __init__(self, byte_range: ByteRange, gtid: str | None = None) -> None:
        self._range = byte_range
        self._stack = ExitStack()
        self._walk = _walk(byte_range, self._stack.enter_context(byte_range.opened()), gtid)
        self._last: Event | None = None

    def at(self, position: int) -> Event:
        """Return the event at a position, which must not precede the last requested one. Raises MalformedEvent."""
        if self._last is not None and self._last.position == position:
            return self._last
        for event in self._walk:
            if event.position == position:
                self._last = event
                return event
        raise MalformedEvent(_at(self._range, position), "no event begins here")

    def last_gtid(self) -> str | None:
        """Return the id of the last transaction that began before the end of the range."""
        for event in self._walk:
            self._last = event
        return None if self._last is None else self._last.gtid

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _walk(byte_range: ByteRange, window: Bytes, gtid: str | None) -> Iterator[Event]:
    """Yield the events; read only the bodies of events that open a transaction."""
    position = base = byte_range.start
    buffer = b""
    while position < byte_range.end:
        if position + HEADER_SIZE > base + len(buffer):
            base, buffer = position, _load(byte_range, window, position, HEADER_SIZE)
        timestamp, code, server_id, size = START.unpack_from(buffer, position - base)
        if size < HEADER_SIZE + byte_range.format.trailer_size or position + size > byte_range.end:
            raise MalformedEvent(_at(byte_range, position), f"a size of {size} bytes")
        if ROLES[code] == EventRole.BOUNDARY:
            if position + size > base + len(buffer):
                base, buffer = position, _load(byte_range, window, position, size)
            start = position - base
            body = buffer[start + HEADER_SIZE : start + size - byte_range.format.trailer_size]
            gtid = _gtid(code, server_id, body, gtid, _at(byte_range, position))
        yield Event(position, position + size, timestamp, server_id, gtid)
        position += size


def _load(byte_range: ByteRange, window: Bytes, position: int, needed: int) -> bytes:
    buffer = window.read(position, max(CHUNK_SIZE, needed))
    if len(buffer) < needed:
        raise MalformedEvent(_at(byte_range, position), f"{byte_range.file} ends within it")
    return buffer


def _gtid(code: int, server_id: int, body: bytes, known: str | None, at: str) -> str | None:
    """Return the id of the transaction that an event opens; `known` if it opens none."""
    match code:
        case codes.GTID if len(body) >= MYSQL_GTID.size:
            _flags, uuid, number = MYSQL_GTID.unpack_from(body)
            return gtid_text((uuid, number))
        case codes.GTID_TAGGED:
            return gtid_text(tagged_gtid(body, at))
        case codes.MARIADB_GTID if len(body) >= MARIADB_GTID.size:
            sequence, domain, _flags = MARIADB_GTID.unpack_from(body)
            return gtid_text((domain, server_id, sequence))
        case codes.ANONYMOUS_GTID:
            return None
    return known


def _at(byte_range: ByteRange, position: int) -> str:
    return f"{byte_range.file}:{position}"
