"""What a server may not get out of us, whoever it is: our files, and the password in clear. And no more than it takes.

PyMySQL answers a server that asks for the password itself (`mysql_clear_password`, `dialog`) on any connection, and one
that asks for a client's file with a bare RuntimeError. Both are refused here, as errors with a name. So is whoever
answers without speaking MySQL's protocol, in which PyMySQL ends as chance will have it.

A statement that is larger than the server's `max_allowed_packet` is not sent: the server would close the connection in
the middle of it, which looks like any other lost connection.
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

from airflow_provider_dm.engine.errors import DmError, Scope


class FileAskedFor(DmError):
    server: str

    code = "DM-2004"
    scope = Scope.UPSTREAM
    what = "{server} asks for a file of this machine (LOCAL INFILE); nothing was sent."
    hint = "No server in its right mind does: check what answers at this address."


class PacketTooLarge(DmError):
    server: str
    statement: str
    """Its beginning, without values."""
    bytes: int
    limit: int

    code = "DM-2013"
    scope = Scope.DOWNSTREAM
    what = (
        "a statement of {bytes} bytes ({statement} …) is more than {server} takes at a time (max_allowed_packet is "
        "{limit}); it was not sent."
    )
    hint = "Raise max_allowed_packet there, in its configuration too, then start again."


class _NeverInClear:
    """Authentication by the password itself: only where the user has asked for TLS, and the connection has it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, _packet: Any) -> Any:
        """Send the password and return the server's answer. Raises OperationalError."""
        connection = self._connection
        if not (connection.asked_for_tls and connection._secure):
            raise pymysql.err.OperationalError(
                ER.ACCESS_DENIED_ERROR, "it asks for the password in clear, which is sent over a configured TLS only"
            )
        connection.write_packet(connection.password + b"\0")
        return connection._read_packet()


IN_CLEAR: Final[dict[str, Callable[[Any], Any]]] = {"mysql_clear_password": _NeverInClear, "dialog": _NeverInClear}
"""For `auth_plugin_map`."""


_STUMBLES: Final = (
    *(ValueError, LookupError, NameError, TypeError, AttributeError, AssertionError, ArithmeticError, struct.error),
    pymysql.err.InternalError,  # packets out of order
)
"""What PyMySQL ends in when an answer is none."""


_RESET_CONNECTION: Final = 0x1F  # COM_RESET_CONNECTION


def _has_number(error: Exception) -> bool:
    """Tell whether a server has sent this error: PyMySQL's own InternalErrors are only a text."""
    return isinstance(error, pymysql.err.InternalError) and len(error.args) > 1


@cache
def _if_offered() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class GuardedConnection(pymysql.connections.Connection):
    """A connection that gives no file away. `asked_for_tls`: the user configured TLS for it."""

    server_version: str
    """As it greets; the stubs do not know of it."""
    most_bytes: int = 1 << 30
    """A statement has to be smaller (`max_allowed_packet`); until the server was asked, what any may take."""

    def __init__(self, *, asked_for_tls: bool, **options: Any) -> None:
        self.asked_for_tls = asked_for_tls
        super().__init__(**options, auth_plugin_map=IN_CLEAR)

    def _create_ssl_ctx(self, configured: Any) -> ssl.SSLContext:
        """Return the user's context, or, where TLS is taken if it is offered, the one that all such connections share.

        PyMySQL would read the certificates of all CAs of this machine for each: 15 ms, and then trust any.
        """
        return configured if isinstance(configured, ssl.SSLContext) else _if_offered()

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Do nothing: `pinning` sets it with all the rest, which saves a round trip."""

    def reset(self) -> None:
        """Give the session back the state of a fresh login: no transaction, lock, temporary table or variable."""
        self._execute_command(_RESET_CONNECTION, b"")
        self._read_query_result()

    def cursor(self, cursor: Any = None) -> Any:
        """Return PyMySQL's cursor, with statements of several rows (`executemany`) that the server takes."""
        found = super().cursor(cursor)
        found.max_stmt_length = min(Cursor.max_stmt_length, self.most_bytes // 2)
        return found

    def _execute_command(self, command: int, sql: Any) -> None:
        if command == COMMAND.COM_QUERY and len(sql) + 1 >= self.most_bytes:
            raise PacketTooLarge(f"{self.host}:{self.port}", _beginning(sql), len(sql), self.most_bytes)
        super()._execute_command(command, sql)  # type: ignore[misc]

    def connect(self, sock: Any = None) -> None:
        """Connect as PyMySQL does. Raises MySQLError, whatever it is that answers."""
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
            CR.CR_MALFORMED_PACKET, f"what answers there does not speak MySQL's protocol ({what})"
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
            raise FileAskedFor(f"{self.host}:{self.port}") from error


def _beginning(sql: bytes) -> str:
    """Return verb and names of a statement: no value stands before the first parenthesis or quote."""
    return re.split(rb"['(]", sql[:200])[0].decode("utf-8", "replace").strip()


def printable(text: str) -> str:
    """Replace what is not printable in a server's text, for a terminal and a log."""
    return "".join(one if one.isprintable() else "?" for one in text)
