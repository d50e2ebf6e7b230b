"""Requesting a server's binlog: register as a replica, COM_BINLOG_DUMP(_GTID), and errors instead of events.

PyMySQL does the login and the session (TLS and all authentication plugins); after the dump request the socket is read
here, with one `recv_into` a large buffer at a time. The server is asked for heartbeats, so that silence means a dead
peer, and for checksums, so that every event can be verified. MariaDB is asked for all its events (capability 4,
ANNOTATE_ROWS), because the relay file must equal the upstream's.
"""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from typing import Final

import pymysql

from airflow_provider_dm.engine.binlog.gtid_events import encoded
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.errors import AccessDenied
from airflow_provider_dm.engine.mysql.gtid import GtidSet, MysqlGtidSet
from airflow_provider_dm.engine.mysql.guarded import printable
from airflow_provider_dm.engine.relay.errors import (
    BinlogPurged,
    DumpRefused,
    GtidsPurged,
    PacketsBroken,
    ReplicaIdTaken,
    StreamLost,
    UpstreamFileTorn,
    UpstreamLogDiffers,
)
from airflow_provider_dm.engine.relay.packets import ReceiveBuffer

HEARTBEAT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 10.0
"""Twice the heartbeat: after this time the peer counts as dead, even if TCP has not noticed."""

TICK_SECONDS: Final = 0.25
"""Timeout of one receive, so that the caller can check its clock."""

FEW_BYTES: Final = 1 << 16
MANY_BYTES: Final = 1 << 18
LULL_SECONDS: Final = 0.001

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_THROUGH_GTID: Final = 0x04
_SEND_ANNOTATE: Final = 0x02  # MariaDB only: MySQL uses this bit for another purpose
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_READ_ERROR: Final = 1236
_SAME_ID: Final = 4052
"""MariaDB's number of its own for a replica whose server id another one has; 1236 in older releases, and MySQL's."""
_FIRST_SERVER_ID: Final = 429_496_729  # from a tenth of the possible ids on, as in DM
_PASSING: Final = frozenset({1053, 1077, 1158, 1159, 1160, 1161, 1317, 1927, 1040, 1203, 1205})


@dataclass(frozen=True)
class DumpRequest:
    """A request for the stream from `position` (bytes) of `file` on, as replica `server_id`.

    `file` "": from the newest file before which nothing is missing that is not in `known`. `known` None: by position.
    """

    file: str
    position: int
    server_id: int
    replica_uuid: str
    known: GtidSet | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.position}" if self.file else f"GTID set {str(self.known)!r}"


@dataclass
class DumpStream:
    """A connection that sends events. To be closed by `close`; it cannot be used for anything else."""

    connection: Connection
    request: DumpRequest
    flavour: Flavour
    buffer: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    heard_at: float = field(default_factory=time.monotonic)

    def receive(self) -> bool:
        """Wait up to TICK_SECONDS for bytes; return True if some came. Raises StreamLost."""
        try:
            count = self._receive_into_buffer()
        except TimeoutError:
            silent = time.monotonic() - self.heard_at
            if silent > SILENCE_SECONDS:
                raise StreamLost(f"neither events nor heartbeats for {silent:.0f} seconds") from None
            return False
        except OSError as error:
            raise StreamLost(error.strerror or str(error)) from error
        if count == 0:
            raise StreamLost("the upstream closed it")
        now = time.monotonic()
        if count < FEW_BYTES and now - self.heard_at < LULL_SECONDS and self.buffer.missing() < FEW_BYTES:
            # The upstream is busy and sends many small events one by one. A pause saves both sides most of the work of
            # separate packets: the next receive gets many events.
            time.sleep(LULL_SECONDS)
            now += LULL_SECONDS
        self.heard_at = now
        return True

    def _receive_into_buffer(self) -> int:
        """Receive the available bytes, up to MANY_BYTES; return their number, 0 at the end. With TLS one call returns
        one record only, so it is repeated. Raises TimeoutError and other errors of the socket if no byte came before.
        """
        sock, total = _socket_of(self.connection), 0
        while not total or (total < MANY_BYTES and isinstance(sock, ssl.SSLSocket) and _has_more(sock)):
            try:
                count = sock.recv_into(self.buffer.free())
            except OSError:
                if total:  # the error will recur at the next call
                    break
                raise
            if not count:
                break
            self.buffer.received(count)
            total += count
        return total

    def event(self) -> memoryview | None:
        """Take the next complete event; None if more must be received. Raises the upstream's error, if it sent one."""
        payload = self.buffer.whole_packet()
        if payload is None:
            return None
        if not payload or payload[0] != _OK:
            raise _refusal(bytes(payload), self.request, self.flavour)
        return payload[1:]

    def close(self) -> None:
        """Close the socket without COM_QUIT, because the server is still sending."""
        with contextlib.suppress(OSError):
            _socket_of(self.connection).close()


def some_server_id() -> int:
    """Return a random id for each connection: the upstream may not know yet that an earlier one has ended."""
    return _FIRST_SERVER_ID + random.randrange(100_000)


def open_dump(connection: Connection, flavour: Flavour, request: DumpRequest) -> DumpStream:
    """Turn a logged-in connection into a stream. Raises StreamLost, AccessDenied, DumpRefused and others."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SET {', '.join(_session(flavour, request))}")
    except pymysql.err.MySQLError as error:
        raise StreamLost(str(error)) from error
    stream = DumpStream(connection, request, flavour)
    sock = _socket_of(connection)
    sock.settimeout(TICK_SECONDS)
    _send(sock, _registration(request))
    while stream.event() is None:
        stream.receive()
    _send(sock, _dump(flavour, request))
    return stream


def _session(flavour: Flavour, request: DumpRequest) -> list[str]:
    heartbeat = int(HEARTBEAT_SECONDS * 1e9)
    names = [("heartbeat_period", str(heartbeat)), ("binlog_checksum", "'CRC32'")]
    settings = [f"@{prefix}_{name} = {value}" for name, value in names for prefix in ("master", "source")]
    if flavour is Flavour.MARIADB:
        settings.append("@mariadb_slave_capability = 4")
        if request.known is not None and not request.file:
            # Strict: a set that is not in this server's history is refused instead of approximated.
            settings += [f"@slave_connect_state = '{request.known}'", "@slave_gtid_strict_mode = 1"]
        return settings
    return [*settings, *(f"@{prefix}_uuid = '{request.replica_uuid}'" for prefix in ("slave", "replica"))]


def _registration(request: DumpRequest) -> bytes:
    host = socket.gethostname().encode("ascii", "replace")[:60]
    return (
        struct.pack("<BIB", _REGISTER, request.server_id, len(host))
        + host
        + struct.pack("<BBHII", 0, 0, 0, 0, 0)  # user, password, port, rank, master id
    )


def _dump(flavour: Flavour, request: DumpRequest) -> bytes:
    name = request.file.encode("ascii")
    if isinstance(request.known, MysqlGtidSet):
        # With a name the server starts there, at a 64-bit position; the set only lists transactions to omit: none.
        known = encoded(MysqlGtidSet() if name else request.known)
        head = struct.pack("<BHII", _DUMP_GTID, _THROUGH_GTID, request.server_id, len(name))
        return head + name + struct.pack("<QI", request.position, len(known)) + known
    flags = _SEND_ANNOTATE if flavour is Flavour.MARIADB else 0
    return struct.pack("<BIHI", _DUMP, request.position, flags, request.server_id) + name


def _has_more(sock: ssl.SSLSocket) -> bool:
    """Return True if bytes are available, at least a part of a TLS record."""
    if sock.pending():
        return True
    here = select.poll()
    here.register(sock, select.POLLIN)
    return bool(here.poll(0))


def _send(sock: socket.socket, payload: bytes) -> None:
    try:
        sock.sendall(len(payload).to_bytes(3, "little") + b"\0" + payload)
    except OSError as error:
        raise StreamLost(error.strerror or str(error)) from error


def _socket_of(connection: Connection) -> socket.socket:
    """Return PyMySQL's socket, for which there is no public interface. Raises StreamLost."""
    sock = connection._sock  # type: ignore[attr-defined]
    if not isinstance(sock, socket.socket):
        raise StreamLost("the connection is closed")
    return sock


def _refusal(payload: bytes, request: DumpRequest, flavour: Flavour) -> DmError:
    if payload[:1] == bytes([_EOF]):
        return StreamLost("the upstream ended the stream")
    if payload[:1] != bytes([_ERROR]) or len(payload) < 3:
        return PacketsBroken(f"a packet starts with {payload[:1].hex() or 'nothing'}")
    number = int.from_bytes(payload[1:3], "little")
    reason = printable(re.sub(r"^#.{5}", "", payload[3:].decode("utf-8", "replace"))).rstrip(".")
    if number in ACCESS_DENIED:
        return AccessDenied("the upstream", reason)
    if number in _PASSING:
        return StreamLost(reason)
    if number == _SAME_ID:
        return ReplicaIdTaken(request.server_id)
    if number != _READ_ERROR:
        return DumpRefused(number, reason)
    return _read_error(reason, request, flavour)


def _read_error(reason: str, request: DumpRequest, flavour: Flavour) -> DmError:
    """Return the typed error for 1236, which has many causes; only its text distinguishes them."""
    cause, needed = reason.lower(), str(request)
    if "same server_uuid/server_id" in cause or "same server_id" in cause:
        return ReplicaIdTaken(request.server_id)
    if "truncated in the middle of event" in cause and request.file and CAPABILITIES[flavour].leaves_torn_files:
        return UpstreamFileTorn(request.file, reason)
    if not request.file:
        return GtidsPurged(str(request.known), reason)
    if "could not find first log file" in cause or "purged" in cause:
        return BinlogPurged(needed, f"not that ({reason})")
    if "position > file size" in cause or "impossible position" in cause:
        return UpstreamLogDiffers(needed, reason)
    return DumpRefused(_READ_ERROR, reason)
