"""Connections with a pinned session, and a server's version and identity.

Every statement of the engine runs with the same session variables, which are set at connect independently of the
server's globals (`pinned` lists each variable with its reason): UTC, utf8mb4 for what we send, no conversion of what we
receive (`character_set_results = NULL`: columns arrive as the bytes that are stored), a fixed strict sql_mode, and no
limit on the size of results. PyMySQL's `local_infile` is never enabled: a rogue server may ask for a client file at any
query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities, Version, capabilities_of
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.errors import AccessDenied, IncompleteResult, ServerUnreachable
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection, printable
from airflow_provider_dm.engine.mysql.pinned import READING
from airflow_provider_dm.engine.mysql.pinning import family_of, pin
from airflow_provider_dm.engine.mysql.tls import tls_context, tls_refused

CONNECT_TIMEOUT_SECONDS: Final = 10
LOGIN_TIMEOUT_SECONDS: Final = 30.0
"""Limit for each answer until the session is pinned: the process at that port may be frozen, or not a server at all."""
_COUNT_ATTEMPTS: Final = 3

if TYPE_CHECKING:  # the stubs are generic, the class itself is not
    Connection: TypeAlias = pymysql.connections.Connection[Cursor]
else:
    Connection = pymysql.connections.Connection


def login(endpoint: Endpoint) -> dict[str, Any]:
    """Return the options of every connection to a server. Raises TlsRefused."""
    return {
        "tls_configured": endpoint.tls is not None,
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "password": endpoint.password.reveal().encode(),  # PyMySQL would take latin1, which no server expects
        "charset": "utf8mb4",
        "local_infile": False,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "ssl": tls_context(endpoint),
    }


def connect(
    endpoint: Endpoint,
    *,
    database: str | None = None,
    read_timeout: float | None = None,
    isolation: str = READING,
) -> GuardedConnection:
    """Open a connection with the pinned session; autocommit is on. `read_timeout` in seconds.

    Raises ServerUnreachable (retry); AccessDenied, LocalFileRequested, TlsRefused, InvalidInput or
    SessionRefused (stop).
    """
    try:
        connection = GuardedConnection(
            **login(endpoint),
            database=database,
            use_unicode=False,
            autocommit=None,  # pinned with the rest
            read_timeout=LOGIN_TIMEOUT_SECONDS,
            # The row-count checks need matched rows, not changed ones.
            client_flag=CLIENT.FOUND_ROWS,
        )
        try:
            pin(connection, endpoint, isolation=isolation)
        except BaseException:
            connection.close()
            raise
        connection.wait_for_answers(read_timeout)
        return connection
    except pymysql.err.MySQLError as error:
        raise _refused(endpoint, error) from error


def _refused(endpoint: Endpoint, error: pymysql.err.MySQLError) -> DmError:
    number, reason = (*error.args, "")[:2]
    if number in ACCESS_DENIED:
        return AccessDenied(str(endpoint), printable(str(reason)))
    if (no_tls := tls_refused(endpoint, error)) is not None:
        return no_tls
    return ServerUnreachable(str(endpoint), printable(str(reason) or str(error)))


def text(value: Any) -> str:
    """Return a cell of a catalogue query as str: the pinned session returns bytes for every text column."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def query(connection: Connection, sql: str, arguments: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a small query; text cells are bytes, numbers are numbers."""
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return list(cursor.fetchall())


def query_whole(
    connection: Connection, columns: str, rest: str, arguments: tuple[object, ...] = (), *, tail: str = ""
) -> list[tuple[Any, ...]]:
    """Return all rows of `SELECT columns rest tail`, and check that the result is complete by COUNT(*).

    Our sessions have no limit on results, but a proxy between us and the server may. Raises IncompleteResult.
    """
    attempt = 0
    while True:
        counted = query(connection, f"SELECT COUNT(*) {rest}", arguments)
        rows = query(connection, f"SELECT {columns} {rest} {tail}", arguments)
        if counted and len(rows) >= counted[0][0]:
            return rows
        attempt += 1
        if attempt == _COUNT_ATTEMPTS:  # rows may be inserted or deleted between the queries, but not every time
            raise IncompleteResult(rest, len(rows), int(counted[0][0]) if counted else None)


@contextmanager
def connected(endpoint: Endpoint, **options: Any) -> Iterator[GuardedConnection]:
    """Open a connection (`connect`) for a `with` block and close it at its end."""
    connection = connect(endpoint, **options)
    try:
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True)
class ServerInfo:
    """The family, version and identity that a server reports."""

    flavour: Flavour
    version: str
    server_id: int
    server_uuid: str
    """MySQL's @@server_uuid; for MariaDB `<gtid_domain_id>-<server_id>`, DM's form."""

    @property
    def version_number(self) -> Version:
        """(10, 11, 19) for "10.11.19-MariaDB-…"."""
        return family_of(self.version)[1]

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.flavour, self.version_number)


def server_info(connection: Connection) -> ServerInfo:
    """Return the flavour, version and identity that the server reports."""
    version = text(query(connection, "SELECT VERSION()")[0][0])
    flavour, _ = family_of(version)
    server = CAPABILITIES[flavour]
    if server.identity is None:
        return ServerInfo(flavour, version, 0, "")
    ((server_id, identity),) = query(connection, server.identity)
    server_uuid = server.server_uuid.format(identity=text(identity), server_id=server_id)
    return ServerInfo(flavour, version, int(server_id), server_uuid)
