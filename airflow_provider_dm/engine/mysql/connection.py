"""Connections with a pinned session, and what a server says about itself.

Every statement of the engine runs under the same session, asserted at connect: UTC, `SET NAMES utf8mb4` for what we
send, no conversion for what we receive (`character_set_results = NULL`: columns arrive as the bytes they are stored
in), and a fixed strict sql_mode. Foreign key checks are off, as rows arrive in replication order.
`local_infile` is never enabled: a rogue server may ask for a client file at any query.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour, Tls
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection, printable

CONNECT_TIMEOUT_SECONDS: Final = 10
SQL_MODE: Final = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"

if TYPE_CHECKING:  # the stubs are generic, the class itself is not
    Connection: TypeAlias = pymysql.connections.Connection[Cursor]
else:
    Connection = pymysql.connections.Connection

_ACCESS_DENIED: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1698, 3118})


@dataclass(eq=False)
class ServerUnreachable(DmError):
    """No connection could be made."""

    server: str
    reason: str

    code: ClassVar[str] = "DM-2001"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "cannot connect to {server}: {reason}."
    hint: ClassVar[str] = "Check host, port and firewall, and that the server is running."


@dataclass(eq=False)
class AccessDenied(DmError):
    """The server refused the login or a statement."""

    server: str
    reason: str

    code: ClassVar[str] = "DM-2002"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "{server} denies access: {reason}."
    hint: ClassVar[str] = "Check user and password, and grant what the precheck lists."


def connect(endpoint: Endpoint, *, database: str | None = None, read_timeout: float | None = None) -> Connection:
    """A connection with the pinned session; autocommit is on. `read_timeout` in seconds.

    Raises ServerUnreachable (retry), AccessDenied, FileAskedFor or TlsFilesUnusable (stop).
    """
    try:
        connection: Connection = GuardedConnection(
            asked_for_tls=endpoint.tls is not None,
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.reveal().encode(),  # PyMySQL would take latin1, which no server expects
            database=database,
            charset="utf8mb4",
            use_unicode=False,
            autocommit=True,
            local_infile=False,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout,
            # Matched, not changed, rows are what the row-count checks reason about.
            client_flag=CLIENT.FOUND_ROWS,
            ssl=_tls_context(endpoint),
        )
        try:
            _pin_session(connection, endpoint)
        except BaseException:
            connection.close()
            raise
        return connection
    except pymysql.err.MySQLError as error:
        raise _refused(endpoint, error) from error


def _refused(endpoint: Endpoint, error: pymysql.err.MySQLError) -> DmError:
    number, reason = (*error.args, "")[:2]
    if number in _ACCESS_DENIED:
        return AccessDenied(str(endpoint), printable(str(reason)))
    return ServerUnreachable(str(endpoint), printable(str(reason) or str(error)))


def _tls_context(endpoint: Endpoint) -> ssl.SSLContext | None:
    if endpoint.tls is None:
        return None
    try:
        return _tls_context_of(endpoint.tls)
    except OSError as error:  # ssl.SSLError is one
        files = tuple(filter(None, (endpoint.tls.ca, endpoint.tls.cert, endpoint.tls.key)))
        raise TlsFilesUnusable(str(endpoint), files, error.strerror or str(error)) from error


def _tls_context_of(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


def _pin_session(connection: Connection, endpoint: Endpoint) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SET SESSION sql_mode = %s, time_zone = '+00:00', character_set_results = NULL, "
            "foreign_key_checks = 0, unique_checks = 1",
            (SQL_MODE,),
        )
        for name, value in endpoint.session:
            # A number must not arrive as text: MySQL refuses it for numeric variables (1232).
            cursor.execute(f"SET SESSION {_variable(name)} = %s", (int(value) if value.isdecimal() else value,))


def _variable(name: str) -> str:
    if not name.replace("_", "").isalnum():
        raise AccessDenied("session", f"{name!r} is not the name of a session variable")
    return name


def text(value: Any) -> str:
    """A cell of a catalogue query as str: the pinned session returns bytes for every text column."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def query(connection: Connection, sql: str, arguments: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """All rows of a small query; text cells are bytes, numbers are numbers."""
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return list(cursor.fetchall())


@contextmanager
def connected(endpoint: Endpoint, **options: Any) -> Iterator[Connection]:
    """`connect` for a `with` block; always closed."""
    connection = connect(endpoint, **options)
    try:
        yield connection
    finally:
        connection.close()


@dataclass(eq=False)
class TlsFilesUnusable(DmError):
    """The files of a TLS configuration are not there, or not what they should be. No connection was tried."""

    server: str
    files: tuple[str, ...]
    reason: str

    code: ClassVar[str] = "DM-2003"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "TLS to {server} cannot be set up from {files}: {reason}."
    hint: ClassVar[str] = (
        "Give PEM files that this machine can read; a certificate needs its key, and a certificate file may hold both."
    )


@dataclass(frozen=True)
class ServerInfo:
    """What a server says it is."""

    flavour: Flavour
    version: str
    server_id: int
    server_uuid: str
    """MySQL's @@server_uuid; for MariaDB `<gtid_domain_id>-<server_id>`, as DM has it."""

    @property
    def version_number(self) -> tuple[int, ...]:
        """(10, 11, 19) for "10.11.19-MariaDB-…"."""
        return tuple(int(part) for part in self.version.split("-", 1)[0].split(".") if part.isdigit())


def server_info(connection: Connection) -> ServerInfo:
    """Ask the server for flavour, version and identity."""
    version = text(query(connection, "SELECT VERSION()")[0][0])
    if "tidb" in version.lower():
        return ServerInfo(Flavour.TIDB, version, 0, "")
    if "mariadb" in version.lower():
        ((server_id, domain_id),) = query(connection, "SELECT @@server_id, @@gtid_domain_id")
        return ServerInfo(Flavour.MARIADB, version, int(server_id), f"{domain_id}-{server_id}")
    ((server_id, server_uuid),) = query(connection, "SELECT @@server_id, @@server_uuid")
    return ServerInfo(Flavour.MYSQL, version, int(server_id), text(server_uuid))
