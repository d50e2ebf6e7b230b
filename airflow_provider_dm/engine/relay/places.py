"""Search for a location in a source's log, by the transactions before it or by the time of the transaction after it.

The log is read from the source, as by a replica, because it has not been pulled yet. The file is found by binary search
over the heads of files, the location in it by a scan; it is always between two transactions. `file_after` asks the
server in which file a replica with a given GTID set would begin.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple
from zlib import crc32

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.header import ARTIFICIAL_FLAG, HEADER_SIZE, EventHeader
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, list_binlogs
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet, MariadbGtid, MariadbGtidSet, MysqlGtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.decide import header_of, named_by
from airflow_provider_dm.engine.relay.errors import PacketsBroken, PlaceNotFound
from airflow_provider_dm.engine.relay.gtid_tracker import HEAD_SIZE, fold
from airflow_provider_dm.engine.relay.kinds import CARRIED, HEARTBEATS
from airflow_provider_dm.engine.relay.packets import CRC_RESIDUE
from airflow_provider_dm.engine.relay.protocol import (
    HEARTBEAT_SECONDS,
    DumpRequest,
    DumpStream,
    open_dump,
    some_server_id,
)

_FOUR_GIB: Final = 1 << 32


class FileHead(NamedTuple):
    """The head of a file: its creation time, and the transactions committed before it (None if it has no such set)."""

    timestamp: int
    before: GtidSet | None


class TransactionBegin(NamedTuple):
    """The beginning of a transaction. `gtid`: a set of one; None for a transaction without GTID."""

    position: int
    timestamp: int
    gtid: GtidSet | None


@dataclass(frozen=True)
class Log:
    """A source's log, file by file. `begins`: the beginnings of a file's transactions, in log order."""

    files: Sequence[BinlogSize]
    head: Callable[[BinlogSize], FileHead]
    begins: Callable[[BinlogSize], Iterator[TransactionBegin]]


# Decisions


def place_after(log: Log, wanted: GtidSet) -> Location:
    """Return the location before which all of `wanted` lies, and nothing else. Raises PlaceNotFound."""
    sought = f"GTID set {str(wanted)!r}"

    def is_before(file: BinlogSize) -> bool:
        before = log.head(file).before
        return before is not None and wanted.contains(before)

    file = _last(log.files, is_before)
    if file is None:
        oldest = log.files[0].name if log.files else "no file"
        raise PlaceNotFound(sought, f"the set lacks transactions committed before {oldest}, the oldest existing file")
    missing = _Missing(wanted, log.head(file).before or wanted.minus(wanted))
    for begin in log.begins(file):
        if not missing:
            return Location(file.name, begin.position, str(wanted))
        if begin.gtid is None:
            raise PlaceNotFound(sought, f"the transaction at {file.name}:{begin.position} has no GTID")
        if not missing.take(begin.gtid):
            at = f"{file.name}:{begin.position}"
            raise PlaceNotFound(sought, f"{begin.gtid} at {at} is not in it, and precedes others that are")
    if missing:
        raise PlaceNotFound(sought, f"the log ends at {file.name}:{file.size} without {missing}")
    return Location(file.name, file.size, str(wanted))


def place_at_time(log: Log, moment: int, sought: str) -> Location:
    """Return the beginning of the first transaction that began at `moment` (seconds since 1970) or later.

    Raises PlaceNotFound.
    """
    file = _last(log.files, lambda file: log.head(file).timestamp < moment)
    if file is None:
        first = log.files[0] if log.files else None
        if first is None or BinlogFile.parse(first.name).number > 1:
            oldest = first.name if first is not None else "no file"
            raise PlaceNotFound(
                sought, f"the oldest existing file is {oldest}, created later: earlier files were purged"
            )
        return Location(first.name, BINLOG_HEADER_SIZE)
    for one in log.files[log.files.index(file) :]:
        for begin in log.begins(one):
            if begin.timestamp >= moment:
                return Location(one.name, begin.position)
    raise PlaceNotFound(
        sought, f"all of its transactions, up to {log.files[-1].name}:{log.files[-1].size}, began earlier"
    )


def _last(files: Sequence[BinlogSize], is_before: Callable[[BinlogSize], bool]) -> BinlogSize | None:
    """Return the last file for which `is_before` is True; all such files come first.

    >>> files = [BinlogSize(f"b.{n}", n) for n in range(7)]
    >>> [(_last(files, lambda one: one.size < 4)), _last(files, lambda one: False), _last([], lambda one: True)]
    [BinlogSize(name='b.3', size=3), None, None]
    """
    count = bisect_left(files, True, key=lambda file: not is_before(file))
    return files[count - 1] if count else None


class _Missing:
    """The transactions of a set that have not occurred in the log yet."""

    def __init__(self, wanted: GtidSet, before: GtidSet) -> None:
        self.wanted, missing = wanted, wanted.minus(before)
        self.count = 0
        self.ends: set[MariadbGtid] = set()
        match missing:
            case MysqlGtidSet():
                self.count = sum(interval.last - interval.first + 1 for _, interval in missing.flat())
            case MariadbGtidSet():
                self.ends = set(missing.last.values())

    def take(self, gtid: GtidSet) -> bool:
        """Take the next transaction; return True if it is in the set."""
        if not self.wanted.contains(gtid):
            return False
        if isinstance(gtid, MariadbGtidSet):
            self.ends.difference_update(gtid.last.values())
        else:
            self.count -= 1
        return True

    def __bool__(self) -> bool:
        return bool(self.count or self.ends)

    def __str__(self) -> str:
        return ", ".join(map(str, sorted(self.ends))) if self.ends else f"{self.count} of its transactions"


# Queries


def find_place(endpoint: Endpoint, *, after: str = "", at_time: str = "") -> Location:
    """Return the location after a GTID set, or at a time (`checked_time`) in the source's own time zone.

    Raises PlaceNotFound, InvalidGtidSet, and the errors of connecting and of the dump.
    """
    with connected(endpoint) as connection:
        info, files = server_info(connection), list_binlogs(connection)
        moment = _moment(connection, at_time) if at_time else 0
    dumps = _Dumps(endpoint, info.flavour)
    log = Log(files, cache(dumps.head), dumps.begins)
    place = place_at_time(log, moment, at_time) if at_time else place_after(log, GtidSet.parse(after, info.flavour))
    return replace(place, server_uuid=info.server_uuid)


def _moment(connection: Connection, time: str) -> int:
    """Return a time as seconds since 1970, computed by the server, which knows its zone. Raises PlaceNotFound."""
    query(connection, "SET time_zone = @@GLOBAL.time_zone")
    ((value,),) = query(connection, "SELECT UNIX_TIMESTAMP(%s)", (time,))
    if not value:
        raise PlaceNotFound(time, "the time does not exist in the source's time zone, or is out of range")
    return int(value)


def file_after(connection: Connection, flavour: Flavour, request: DumpRequest) -> BinlogFile:
    """Return the file in which the stream for a GTID set alone begins. The connection cannot be used afterwards.

    Raises GtidsPurged, StreamLost and the other errors of `protocol`, PacketsBroken.
    """
    with closing(open_dump(connection, flavour, request)) as stream:
        header, event = _next_event(stream)
        if header.code != events.ROTATE:
            raise PacketsBroken(f"a stream that begins with an event of type {header.code}")
        end = len(event) - (4 if crc32(event) == CRC_RESIDUE else 0)
        return named_by(bytes(event[HEADER_SIZE:end]))[0]


def _next_event(stream: DumpStream) -> tuple[EventHeader, memoryview]:
    """Wait for the next event of a dump. It is valid until the following one."""
    while (event := stream.event()) is None:
        stream.receive()
    return header_of(event), event


def _next_of_file(stream: DumpStream) -> tuple[EventHeader, memoryview]:
    """Wait for the next event of a dump that the upstream's file contains."""
    header, event = _next_event(stream)
    while header.flags & ARTIFICIAL_FLAG or header.code in HEARTBEATS:
        header, event = _next_event(stream)
    return header, event


@dataclass
class _Dumps:
    """The log of a source; each file is read by a dump of its own."""

    endpoint: Endpoint
    flavour: Flavour

    def head(self, file: BinlogSize) -> FileHead:
        """Return the contents of a file before its first transaction."""
        timestamp, before = 0, None
        for _, header, event in self._events(file):
            timestamp = timestamp or header.timestamp
            if (read := CARRIED.get(header.code)) is not None:
                before = read(event[HEADER_SIZE:], f"the head of {file.name}")
            if header.code in events.GTIDS or before is not None:
                break
        return FileHead(timestamp, before)

    def begins(self, file: BinlogSize) -> Iterator[TransactionBegin]:
        """Yield the beginnings of a file's transactions."""
        for position, header, event in self._events(file):
            if header.code in events.GTIDS:
                named = header.code != events.ANONYMOUS_GTID
                gtid = fold([event[:HEAD_SIZE]], self.flavour, f"{file.name}:{position}") if named else None
                yield TransactionBegin(position, header.timestamp, gtid)

    def _events(self, file: BinlogSize) -> Iterator[tuple[int, EventHeader, bytes]]:
        """Yield a file's events with their positions; the bytes of irrelevant events are left empty."""
        request = DumpRequest(file.name, BINLOG_HEADER_SIZE, some_server_id(), str(uuid.uuid4()))
        with connected(self.endpoint, read_timeout=4 * HEARTBEAT_SECONDS) as connection:
            with closing(open_dump(connection, self.flavour, request)) as stream:
                position = BINLOG_HEADER_SIZE
                while position < file.size:
                    header, event = _next_of_file(stream)
                    if header.log_position and file.size < _FOUR_GIB:
                        position = header.log_position - header.size  # includes events that the dump omits
                    is_needed = header.code in events.GTIDS or header.code in CARRIED
                    yield position, header, bytes(event) if is_needed else b""
                    position += header.size
