"""Protection against rogue servers: no client file and no password in clear is sent, and no statement of excess size.

A server is sent a "file" only as the answer to a LOAD DATA LOCAL of ours (`GuardedConnection.load`), and then the bytes
of that LOAD, whatever name it asks for.

On any connection PyMySQL sends the password itself to a server that asks for it (`mysql_clear_password`, `dialog`), and
it answers a request for a client file with a bare RuntimeError. Both are refused here with typed errors, as is a peer
that does not speak MySQL's protocol, for which PyMySQL raises arbitrary exceptions.

A statement larger than the server's `max_allowed_packet` is not sent: the server would close the connection in the
middle of it, which looks like any other lost connection.
"""

from __future__ import annotations

import re
import ssl
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pymysql
from pymysql.constants import COMMAND, CR, ER
from pymysql.cursors import Cursor
from pymysql.protocol import OKPacketWrapper

from airflow_provider_dm.engine.mysql.errors import LocalFileRequested, PacketTooLarge

FilePart = bytes | memoryview


class _NeverInClear:
    """Authentication by the password itself: allowed only if the user configured TLS and the connection uses it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, _packet: Any) -> Any:
        """Send the password and return the server's answer. Raises OperationalError."""
        connection = self._connection
        if not (connection.tls_configured and connection._secure):
            raise pymysql.err.OperationalError(
                ER.ACCESS_DENIED_ERROR, "it asks for the password in clear, which is sent over a configured TLS only"
            )
        connection.write_packet(connection.password + b"\0")
        return connection._read_packet()


IN_CLEAR: Final[dict[str, Callable[[Any], Any]]] = {"mysql_clear_password": _NeverInClear, "dialog": _NeverInClear}
"""The value of PyMySQL's `auth_plugin_map`."""


_STUMBLES: Final = (
    *(ValueError, LookupError, NameError, TypeError, AttributeError, AssertionError, ArithmeticError, struct.error),
    pymysql.err.InternalError,  # packets out of order
)
"""Exceptions that PyMySQL raises for a malformed answer."""


_FILE_PACKET: Final = 1 << 18
"""The most bytes of a file in a packet."""

_RESET_CONNECTION: Final = 0x1F  # COM_RESET_CONNECTION


def _has_number(error: Exception) -> bool:
    """Return True if a server has sent this error: PyMySQL's own InternalErrors have a text only."""
    return isinstance(error, pymysql.err.InternalError) and len(error.args) > 1


@cache
def _if_offered() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class GuardedConnection(pymysql.connections.Connection):
    """A connection that sends no file and no password in clear. `tls_configured`: the user configured TLS for it."""

    server_version: str
    """The version in the server's greeting; missing in the stubs."""
    most_bytes: int = 1 << 30
    """Size that a statement may not reach (`max_allowed_packet`); until that is known, the protocol's maximum."""

    def __init__(self, *, tls_configured: bool, **options: Any) -> None:
        self.tls_configured = tls_configured
        super().__init__(**options, auth_plugin_map=IN_CLEAR)

    def _create_ssl_ctx(self, configured: Any) -> ssl.SSLContext:
        """Return the user's context; without one, a context for TLS if offered, which all such connections share.

        PyMySQL would read all CA certificates of this machine for each connection, which takes 15 ms, and verify none.
        """
        return configured if isinstance(configured, ssl.SSLContext) else _if_offered()

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Do nothing: `pinning` sets it together with the other variables, which saves a round trip."""

    def wait_for_answers(self, seconds: float | None) -> None:
        """Set the timeout for each answer; None: no limit."""
        self._read_timeout = self._current_timeout = seconds
        self._sock.settimeout(seconds)  # type: ignore[attr-defined]

    def reset(self) -> None:
        """Reset the session to the state after a login: no transaction, lock, temporary table or variable."""
        self._execute_command(_RESET_CONNECTION, b"")
        self._read_query_result()

    def cursor(self, cursor: Any = None) -> Any:
        """Return PyMySQL's cursor; its statements of several rows (`executemany`) stay below `most_bytes`."""
        created = super().cursor(cursor)
        created.max_stmt_length = min(Cursor.max_stmt_length, self.most_bytes // 2)
        return created

    def _execute_command(self, command: int, sql: Any) -> None:
        if command == COMMAND.COM_QUERY and len(sql) + 1 >= self.most_bytes:
            raise PacketTooLarge(f"{self.host}:{self.port}", _beginning(sql), len(sql), self.most_bytes)
        super()._execute_command(command, sql)  # type: ignore[misc]

    def load(self, sql: bytes, content: FilePart) -> tuple[int, int]:
        """Execute a LOAD DATA LOCAL whose file is `content`. Return (rows affected, warnings).

        Raises pymysql's errors, and LocalFileRequested if the server then asks for another file.
        """
        wire: Any = self
        wire._execute_command(COMMAND.COM_QUERY, sql)
        try:
            if not wire._read_packet().is_load_local_packet():
                raise AssertionError("a LOAD DATA LOCAL was answered without a request for its file")
            size = min(_FILE_PACKET, self.most_bytes // 2)
            for at in range(0, len(content), size):
                wire.write_packet(content[at : at + size])
            wire.write_packet(b"")
            answer = wire._read_packet()
            if answer.is_load_local_packet():
                wire._force_close()
                raise LocalFileRequested(f"{self.host}:{self.port}")
            packet = OKPacketWrapper(answer)
        except _STUMBLES as error:
            if _has_number(error):
                raise
            raise self._no_mysql(error) from error
        wire.server_status = packet.server_status
        return int(packet.affected_rows), int(packet.warning_count)

    def connect(self, sock: Any = None) -> None:
        """Connect as PyMySQL does. Raises MySQLError for every kind of malformed answer."""
        try:
            super().connect(sock)
        except _STUMBLES as error:
            if _has_number(error):
                raise
            raise self._no_mysql(error) from error

    def _no_mysql(self, error: Exception) -> pymysql.err.OperationalError:
        self._force_close()  # type: ignore[attr-defined]
        what = printable(f"{type(error).__name__}: {error}")
        return pymysql.err.OperationalError(
            CR.CR_MALFORMED_PACKET, f"the program at this address does not speak MySQL's protocol ({what})"
        )

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        try:
            return super()._read_query_result(unbuffered=unbuffered)  # type: ignore[misc]
        except _STUMBLES as error:
            if _has_number(error):
                raise
            raise self._no_mysql(error) from error
        except RuntimeError as error:
            self._force_close()  # type: ignore[attr-defined]
            raise LocalFileRequested(f"{self.host}:{self.port}") from error


def _beginning(sql: bytes) -> str:
    """Return the verb and names of a statement: there is no value before the first parenthesis or quote."""
    return re.split(rb"['(]", sql[:200])[0].decode("utf-8", "replace").strip()


def printable(text: str) -> str:
    """Replace unprintable characters in a server's text, for terminals and logs."""
    return "".join(character if character.isprintable() else "?" for character in text)
