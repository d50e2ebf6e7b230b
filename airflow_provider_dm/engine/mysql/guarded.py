"""Protection against rogue servers: no client file and no password in clear is sent, and no statement of excess size.

On any connection PyMySQL sends the password itself to a server that asks for it (`mysql_clear_password`, `dialog`), and
it answers a request for a client file with a bare RuntimeError. Both are refused here with typed errors, as is a peer
that does not speak MySQL's protocol, for which PyMySQL raises arbitrary exceptions.

A statement larger than the server's `max_allowed_packet` is not sent: the server would close the connection in the
middle of it, which looks like any other lost connection.

PyMySQL has no bulk execution, by which MariaDB executes a statement for many rows at once;
`GuardedConnection.execute_bulk` has it.
"""

from __future__ import annotations

import re
import ssl
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR, ER
from pymysql.cursors import Cursor

from airflow_provider_dm.engine.mysql.errors import LocalFileRequested, PacketTooLarge


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


_MOST_PREPARED: Final = 64
"""Statements that a connection keeps prepared."""
_PREPARE, _CLOSE, _RESET_CONNECTION, _EXECUTE_BULK = 0x16, 0x19, 0x1F, 0xFA  # COM_STMT_PREPARE, …
_FILLER: Final = slice(9, 32)
_BULK_OPERATIONS: Final = struct.pack("<I", 1 << 2)  # MARIADB_CLIENT_STMT_BULK_OPERATIONS


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
    executes_bulk: bool = False
    """True after the login to a MariaDB server."""

    def __init__(self, *, tls_configured: bool, **options: Any) -> None:
        self.tls_configured = tls_configured
        self._authenticating = False
        self._prepared: dict[bytes, int] = {}
        super().__init__(**options, auth_plugin_map=IN_CLEAR)

    def _create_ssl_ctx(self, configured: Any) -> ssl.SSLContext:
        """Return the user's context; without one, a context for TLS if offered, which all such connections share.

        PyMySQL would read all CA certificates of this machine for each connection, which takes 15 ms, and verify none.
        """
        return configured if isinstance(configured, ssl.SSLContext) else _if_offered()

    def _request_authentication(self) -> None:
        """Log in; to MariaDB, whose greeting lacks the capability "MySQL", as a client that uses its extensions."""
        wire: Any = self
        self.executes_bulk = not wire.server_capabilities & CLIENT.LONG_PASSWORD
        if self.executes_bulk:
            wire.client_flag &= ~CLIENT.LONG_PASSWORD
        self._authenticating = self.executes_bulk
        super()._request_authentication()  # type: ignore[misc]
        self._authenticating = False

    def write_packet(self, payload: bytes) -> None:
        """Write a packet. The login packet, and the TLS request before it, get MariaDB's capability in the filler."""
        if self._authenticating and payload[_FILLER] == bytes(_FILLER.stop - _FILLER.start):
            payload = payload[: _FILLER.stop - 4] + _BULK_OPERATIONS + payload[_FILLER.stop :]
        super().write_packet(payload)

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
        self._prepared.clear()

    def cursor(self, cursor: Any = None) -> Any:
        """Return PyMySQL's cursor; its statements of several rows (`executemany`) stay below `most_bytes`."""
        created = super().cursor(cursor)
        created.max_stmt_length = min(Cursor.max_stmt_length, self.most_bytes // 2)
        return created

    def _execute_command(self, command: int, sql: Any) -> None:
        if command in (COMMAND.COM_QUERY, _PREPARE):
            self._check_size(sql, len(sql))
        super()._execute_command(command, sql)  # type: ignore[misc]

    def _check_size(self, sql: bytes, size: int) -> None:
        if size + 1 >= self.most_bytes:
            raise PacketTooLarge(f"{self.host}:{self.port}", _beginning(sql), size, self.most_bytes)

    def execute_bulk(self, sql: bytes, parameters: memoryview) -> tuple[int, int]:
        """Execute a statement, prepared when it is first used, for each row of parameters, as one statement.

        `parameters`: as in COM_STMT_BULK_EXECUTE, from its flags on. Return (rows affected, warnings). Raises pymysql's
        errors and PacketTooLarge.
        """
        wire: Any = self
        number = self._prepared.pop(sql, None) or self._prepare(sql)
        self._prepared[sql] = number  # the least recently used is the first
        self._check_size(sql, len(parameters))
        self._execute_command(_EXECUTE_BULK, struct.pack("<I", number) + parameters)
        self._read_query_result()
        return int(wire._result.affected_rows), int(wire._result.warning_count)

    def _prepare(self, sql: bytes) -> int:
        wire: Any = self
        self._execute_command(_PREPARE, sql)
        try:
            packet = wire._read_packet()
            if not packet.is_ok_packet():
                raise ValueError("unexpected answer to COM_STMT_PREPARE")
            number, parameters = struct.unpack_from("<xIxxH", packet.get_all_data())
            for _ in range(parameters + 1):  # their descriptions, and the packet behind them
                wire._read_packet()
        except _STUMBLES as error:
            if _has_number(error):
                raise
            raise self._no_mysql(error) from error
        if len(self._prepared) == _MOST_PREPARED:
            self._execute_command(_CLOSE, struct.pack("<I", self._prepared.pop(next(iter(self._prepared)))))
        return int(number)

    def connect(self, sock: Any = None) -> None:
        """Connect as PyMySQL does. Raises MySQLError for every kind of malformed answer."""
        self._prepared.clear()  # a new session gives the same numbers to other statements
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
