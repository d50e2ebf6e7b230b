"""Servers that exist in memory only: their binlogs, what a dump of them sends, and the answers to a relay's questions.

The files are made event by event, so the tests know every boundary without asking the code under test.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from airflow_provider_dm.engine.binlog.gtid_events import encoded
from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet, MysqlGtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.errors import StreamLost
from airflow_provider_dm.engine.relay.packets import ReceiveBuffer
from airflow_provider_dm.engine.relay.protocol import DumpRequest, DumpStream
from tests.unit.binlog.building import UUID_OF_SOURCE, Log, order
from tests.unit.relay.events import event, streamed

PREVIOUS_GTIDS, GTID_LIST, STOP = 35, 163, 3


@dataclass
class LogFile:
    """One binlog file, with the ends of its transactions: `ends[n]` bytes hold everything up to the n-th."""

    name: str
    previous: int
    """Transactions 1 to this one are in older files."""
    data: bytes
    ends: list[int]
    checksum: bool

    def transactions_in(self, size: int) -> int:
        """Return how many of them the first `size` bytes hold whole."""
        return sum(end <= size for end in self.ends)

    def boundary(self, size: int) -> int:
        """The last transaction boundary in the first `size` bytes; 0 when not even the file's head is in them."""
        return max((at for at in (self.head, *self.ends, *self._tail()) if at <= size), default=0)

    @property
    def head(self) -> int:
        return 4 + int.from_bytes(self.data[13:17], "little")

    def events(self) -> Iterator[tuple[int, bytes]]:
        """Yield where each begins, and its bytes."""
        at = 4
        while at < len(self.data):
            size = int.from_bytes(self.data[at + 9 : at + 13], "little")
            yield at, self.data[at : at + size]
            at += size

    def _tail(self) -> list[int]:
        return [len(self.data)]


@dataclass
class Upstream:
    """One server. All servers of a story number the same transactions: 1, 2, 3, …"""

    info: ServerInfo
    files: list[LogFile]

    @property
    def flavour(self) -> Flavour:
        return self.info.flavour

    def set_of(self, count: int) -> GtidSet:
        """The first `count` transactions."""
        return _set(self.flavour, count)

    @property
    def count(self) -> int:
        return self.files[-1].previous + len(self.files[-1].ends)

    def named(self, name: str) -> LogFile:
        return next(file for file in self.files if file.name == name)

    def locate(self, known: GtidSet) -> BinlogFile:
        fitting = [file for file in self.files if not self.set_of(file.previous).minus(known)]
        return BinlogFile.parse(fitting[-1].name)

    def packets(self, name: str, position: int, until: tuple[str, int] | None) -> bytes:
        """Return what a dump from there sends; `until`: the server dies when it has sent this much of this file."""
        sent: list[bytes] = []
        index = next(number for number, file in enumerate(self.files) if file.name == name)
        for file in self.files[index:]:
            sent.append(made_up(4, struct.pack("<Q", position) + file.name.encode()))
            events = list(file.events())
            if position > 4:
                sent.append(_again(events[0][1]))
            end = until[1] if until is not None and until[0] == file.name else len(file.data)
            sent += [event for at, event in events if at >= position and at + len(event) <= end]
            if until is not None and until[0] == file.name:
                break
            position = 4
        return streamed(*sent)

    def connection(self) -> Connection:
        return cast(Connection, _Answers(self))


def _set(flavour: Flavour, count: int) -> GtidSet:
    if flavour is Flavour.MARIADB:
        return GtidSet.parse(f"0-7-{count}" if count else "", flavour)
    return GtidSet.parse(f"{UUID_OF_SOURCE}:1-{count}" if count else "", flavour)


def made_up(code: int, body: bytes) -> bytes:
    """An event that no file has: position 0, flag "artificial"."""
    return event(code, body, 0, timestamp=0, flags=0x20)


def _again(format_description: bytes) -> bytes:
    """Return it as a server sends it before a stream that starts after it."""
    return event(15, format_description[19:-4], 0)


class Feed(DumpStream):
    """A dump stream that gives these bytes in pieces of chosen sizes, and then is lost."""

    def __init__(self, data: bytes, flavour: Flavour, chance: random.Random) -> None:
        buffer = ReceiveBuffer(capacity=1 << 16)
        super().__init__(cast(Connection, None), DumpRequest("none", 4, 1, ""), flavour, buffer=buffer)
        self._data, self._at, self._chance = data, 0, chance

    def receive(self) -> bool:
        if self._at == len(self._data):
            raise StreamLost("the stream continues elsewhere")
        room = self.buffer.free()
        piece = self._data[self._at : self._at + min(len(room), self._chance.choice([60, 400, 3000, 9000]))]
        room[: len(piece)] = piece
        self.buffer.received(len(piece))
        self._at += len(piece)
        return True


class _Answers:
    """Answers to what the relay asks by SQL before it pulls."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._rows: list[tuple[Any, ...]] = []
        self.host, self.port = "memory", 0

    @contextmanager
    def cursor(self) -> Iterator[_Answers]:
        yield self

    def execute(self, sql: str, _arguments: object = None) -> None:
        upstream, last = self._upstream, self._upstream.files[-1]
        info = upstream.info
        answers: dict[str, list[tuple[Any, ...]]] = {
            "SELECT VERSION()": [(info.version,)],
            "SELECT @@server_id, @@gtid_domain_id": [(info.server_id, 0)],
            "SELECT @@server_id, @@server_uuid": [(info.server_id, info.server_uuid)],
            "SHOW BINARY LOGS": [(file.name, len(file.data)) for file in upstream.files],
            "SHOW MASTER STATUS": [(last.name, len(last.data))],
            "SHOW BINARY LOG STATUS": [(last.name, len(last.data))],
            "SELECT @@global.gtid_binlog_pos": [(str(upstream.set_of(upstream.count)),)],
            "SELECT @@global.gtid_executed": [(str(upstream.set_of(upstream.count)),)],
        }
        self._rows = answers[sql]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


@dataclass
class Scribe:
    """Writes the binlogs of one server: transactions of all sizes, in several files."""

    flavour: Flavour
    checksum: bool = True
    first: int = 1
    files: list[LogFile] = field(default_factory=list)

    def file(self, sizes: Sequence[int], *, rotates: bool) -> None:
        """One more file. `sizes`: bytes of each transaction's rows; 0 is a DDL. Without `rotates` the server died."""
        number = len(self.files) + 1
        log = Log(self.flavour.value, self.checksum, name=f"mysql-bin.{number:06d}")
        previous = self.files[-1].previous + len(self.files[-1].ends) if self.files else self.first - 1
        log.sequence = previous
        self._previous(log, previous)
        ends = [self._transaction(log, size) for size in sizes]
        if rotates:
            log.rotate(f"mysql-bin.{number + 1:06d}")
        self.files.append(LogFile(log.name, previous, bytes(log.data), ends, self.checksum))

    def _previous(self, log: Log, previous: int) -> None:
        if self.flavour is Flavour.MARIADB:
            entries = struct.pack("<IIIQ", 1, 0, 7, previous) if previous else struct.pack("<I", 0)
            log.add(GTID_LIST, entries)
            return
        known = _set(self.flavour, previous)
        assert isinstance(known, MysqlGtidSet)
        log.add(PREVIOUS_GTIDS, encoded(known))

    @staticmethod
    def _transaction(log: Log, size: int) -> int:
        if size == 0:
            log.gtid(standalone=True)
            log.query("CREATE TABLE extra (id INT)")
            return log.position
        log.begin()
        for part in range(-(-size // 4000)):
            log.table_map()
            note = bytes([97 + part % 20]) * 200
            log.rows("insert", [order(number, note) for number in range(max(1, min(size, 4000) // 205))])
        log.xid()
        return log.position


def servers(flavour: Flavour, *, checksum: bool = True) -> tuple[Upstream, Upstream]:
    """A source with three files, and the replica that takes over from it, whose files are cut elsewhere: the one that a
    relay continues with begins right after what the source had sent when it died, but for one transaction."""
    old, new = Scribe(flavour, checksum), Scribe(flavour, checksum)
    old.file([100, 0, 5000, 300], rotates=True)
    old.file([300, 9000, 0, 100], rotates=False)
    old.file([200, 100, 13000, 400, 0, 100], rotates=False)
    new.file([100, 0, 5000, 300, 300, 9000, 0, 100, 200], rotates=True)
    new.file([100, 13000, 400, 600], rotates=True)
    new.file([0, 7000, 200], rotates=False)
    first, second = ("0-7", "0-8") if flavour is Flavour.MARIADB else (str(UUID_OF_SOURCE), str(UUID(int=8)))
    version = "10.11.19-MariaDB-log" if flavour is Flavour.MARIADB else "9.7.4"
    return (
        Upstream(ServerInfo(flavour, version, 7, first), old.files),
        Upstream(ServerInfo(flavour, version, 8, second), new.files),
    )
