"""A server that speaks just enough of MySQL's protocol to be believed, and then misbehaves. Real sockets."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

_LONG_PASSWORD, _PROTOCOL_41, _TLS, _SECURE, _PLUGIN_AUTH = 1, 1 << 9, 1 << 11, 1 << 15, 1 << 19
_QUIT, _QUERY, _REGISTER, _DUMPS = 0x01, 0x03, 0x15, (0x12, 0x1E)
OK: Final = b"\0\0\0\2\0\0\0"
EOF: Final = b"\xfe\0\0\2\0"

Script = Callable[["Session"], None]


def local_infile(path: str) -> bytes:
    """The answer to a query that asks for a file of the client."""
    return b"\xfb" + path.encode()


@dataclass(eq=False)
class Session:
    """One client's connection."""

    sock: socket.socket
    received: bytearray
    """Everything that came before encryption, of all sessions."""
    sequence: int = 0
    encrypted: bool = False

    def send(self, payload: bytes) -> None:
        """Send it as one packet, or in fragments."""
        at = 0
        while True:
            piece = payload[at : at + 0xFFFFFF]
            self.sock.sendall(len(piece).to_bytes(3, "little") + bytes([self.sequence & 0xFF]) + piece)
            self.sequence += 1
            at += len(piece)
            if len(piece) < 0xFFFFFF:
                return

    def packet(self) -> bytes:
        head = self._exactly(4)
        self.sequence = head[3] + 1
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        if not self.encrypted:
            self.received += payload
        return payload

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def event(self, event: bytes) -> None:
        self.send(b"\0" + event)

    def error(self, number: int, text: bytes) -> None:
        self.send(b"\xff" + struct.pack("<H", number) + b"#HY000" + text)

    def rows(self, rows: list[tuple[str, ...]]) -> None:
        width = len(rows[0]) if rows else 1
        self.send(bytes([width]))
        for number in range(width):
            name = _string(f"c{number}".encode())
            parts = (_string(b"def"), _string(b""), _string(b""), _string(b""), name, name)
            self.send(b"".join(parts) + struct.pack("<BHIBHBH", 12, 33, 1 << 20, 253, 0, 0, 0))
        self.send(EOF)
        for row in rows:
            self.send(b"".join(_string(cell.encode()) for cell in row))
        self.send(EOF)


def _string(data: bytes) -> bytes:
    if len(data) < 251:
        return bytes([len(data)]) + data
    return b"\xfd" + len(data).to_bytes(3, "little") + data


@dataclass(eq=False)
class Rogue:
    """A server with a false identity. One thread per connection."""

    dump: Script = lambda session: None
    """Called when a client requests a binlog; the connection is closed after it."""
    uuid: str = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    binlogs: list[tuple[str, str]] = field(default_factory=lambda: [("mysql-bin.000001", "5000000")])
    executed: str = ""
    answers: dict[str, bytes] = field(default_factory=dict)
    """Text in a query -> the payload that answers it."""
    tls: ssl.SSLContext | None = None
    tls_connections: int = 1 << 30
    """So many are offered TLS; those that come later are not."""
    switch_to: bytes = b""
    """The authentication plugin that it asks for after the login."""
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    port: int = 0

    @contextmanager
    def listening(self) -> Iterator[Rogue]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield self

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                sock, _address = listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        session = Session(sock, self.received)
        with suppress(OSError, ConnectionError):
            self._login(session, number)
            while self._obey(session, session.packet()):
                pass
        with suppress(OSError):
            session.sock.close()

    def _login(self, session: Session, number: int) -> None:
        offered = self.tls is not None and number <= self.tls_connections
        flags = _LONG_PASSWORD | _PROTOCOL_41 | _SECURE | _PLUGIN_AUTH | (_TLS if offered else 0)
        head = b"\x0a8.0.40\0" + struct.pack("<I", number) + b"saltsalt\0" + struct.pack("<H", flags & 0xFFFF)
        rest = struct.pack("<BHHB", 33, 2, flags >> 16, 21) + bytes(10) + b"saltsaltsalt\0mysql_native_password\0"
        session.send(head + rest)
        first = session.packet()
        if len(first) == 32 and self.tls is not None:
            session.sock = self.tls.wrap_socket(session.sock, server_side=True)
            session.encrypted = True
            session.packet()
        if self.switch_to:
            session.send(b"\xfe" + self.switch_to + b"\0" + b"salt" * 5 + b"\0")
            session.packet()
        session.send(OK)

    def _obey(self, session: Session, command: bytes) -> bool:
        match command[0]:
            case 0x03:
                self._answer(session, command[1:].decode("utf-8", "replace"))
            case 0x01:
                return False
            case code if code in _DUMPS:
                self.dump(session)
                return False
            case _:
                session.send(OK)
        return True

    def _answer(self, session: Session, sql: str) -> None:
        for part, payload in self.answers.items():
            if part in sql:
                session.send(payload)
                return
        if "VERSION()" in sql:
            session.rows([("8.0.40",)])
        elif "@@max_allowed_packet" in sql:
            session.rows([("67108864", "", "MySQL Community Server")])
        elif "@@server_uuid" in sql:
            session.rows([("7", self.uuid)])
        elif "SHOW BINARY LOGS" in sql:
            session.rows([*self.binlogs])
        elif "STATUS" in sql:
            session.rows([(*self.binlogs[-1], "", "", self.executed)])
        elif "gtid_executed" in sql:
            session.rows([(self.executed,)])
        else:
            session.send(OK)
