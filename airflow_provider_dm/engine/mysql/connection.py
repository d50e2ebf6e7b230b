"""Connections with a pinned session, and what a server says about itself.

Every statement of the engine runs under the same session, set at connect whatever the server's globals are (`pinned`
has each variable and why): UTC, utf8mb4 for what we send, no conversion for what we receive (`character_set_results =
NULL`: columns arrive as the bytes they are stored in), a fixed strict sql_mode, and no limit to what a SELECT answers.
`local_infile` is never enabled: a rogue server may ask for a client file at any query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities, Version, capabilities_of
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection, printable
from airflow_provider_dm.engine.mysql.pinned import READING
from airflow_provider_dm.engine.mysql.pinning import family_of, pin
from airflow_provider_dm.engine.mysql.tls import tls_context, tls_refused

CONNECT_TIMEOUT_SECONDS: Final = 10
_COUNT_ATTEMPTS: Final = 3

if TYPE_CHECKING:  # the stubs are generic, the class itself is not
    Connection: TypeAlias = pymysql.connections.Connection[Cursor]
else:
    Connection = pymysql.connections.Connection


class ServerUnreachable(DmError):
    server: str
    reason: str

    code = "DM-2001"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "cannot connect to {server}: {reason}."
    hint = "Check host, port and firewall, and that the server is running."


class AccessDenied(DmError):
    server: str
    reason: str

    code = "DM-2002"
    scope = Scope.UPSTREAM
    what = "{server} denies access: {reason}."
    hint = (
        "Check user and password, and grant what the precheck lists. An account that REQUIREs X509 needs a client's "
        "certificate (ssl-cert, ssl-key) as well."
    )


def connect(
    endpoint: Endpoint, *, database: str | None = None, read_timeout: float | None = None, isolation: str = READING
) -> GuardedConnection:
    """Open a connection with the pinned session; autocommit is on. `read_timeout` in seconds.

    Raises ServerUnreachable (retry); AccessDenied, FileAskedFor, TlsFilesUnusable, TlsRefused, SessionConflict or
    SessionRefused (stop).
    """
    try:
        connection = GuardedConnection(
            asked_for_tls=endpoint.tls is not None,
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.reveal().encode(),  # PyMySQL would take latin1, which no server expects
            database=database,
            charset="utf8mb4",
            use_unicode=False,
            autocommit=None,  # pinned with the rest
            local_infile=False,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout,
            # Matched, not changed, rows are what the row-count checks reason about.
            client_flag=CLIENT.FOUND_ROWS,
            ssl=tls_context(endpoint),
        )
        try:
            pin(connection, endpoint, isolation=isolation)
        except BaseException:
            connection.close()
            raise
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
    """Return all rows of `SELECT columns rest tail`, counted by the server as well: for what must not be cut off.

    A session that limits answers is never ours, but something between us and the server may. Raises AnswerCut.
    """
    attempt = 0
    while True:
        counted = query(connection, f"SELECT COUNT(*) {rest}", arguments)
        rows = query(connection, f"SELECT {columns} {rest} {tail}", arguments)
        if counted and len(rows) >= counted[0][0]:
            return rows
        attempt += 1
        if attempt == _COUNT_ATTEMPTS:  # rows may come and go between the two questions, but not each time
            raise AnswerCut(rest, len(rows), int(counted[0][0]) if counted else None)


@contextmanager
def connected(endpoint: Endpoint, **options: Any) -> Iterator[GuardedConnection]:
    """Open a connection (`connect`) for a `with` block and always close it."""
    connection = connect(endpoint, **options)
    try:
        yield connection
    finally:
        connection.close()


class AnswerCut(DmError):
    question: str
    rows: int
    counted: int | None

    code = "DM-2012"
    scope = Scope.INTERNAL
    what = "an answer was cut off: {rows} rows came of {counted} ({question})."
    hint = "Look for a proxy that limits results, and for sql_select_limit in what it sets."


@dataclass(frozen=True)
class ServerInfo:
    """The family, version and identity that a server states."""

    flavour: Flavour
    version: str
    server_id: int
    server_uuid: str
    """MySQL's @@server_uuid; for MariaDB `<gtid_domain_id>-<server_id>`, as DM has it."""

    @property
    def version_number(self) -> Version:
        """(10, 11, 19) for "10.11.19-MariaDB-…"."""
        return family_of(self.version)[1]

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.flavour, self.version_number)


def server_info(connection: Connection) -> ServerInfo:
    """Ask the server for flavour, version and identity."""
    version = text(query(connection, "SELECT VERSION()")[0][0])
    flavour, _ = family_of(version)
    server = CAPABILITIES[flavour]
    if server.identity is None:
        return ServerInfo(flavour, version, 0, "")
    ((server_id, told),) = query(connection, server.identity)
    server_uuid = server.server_uuid.format(told=text(told), server_id=server_id)
    return ServerInfo(flavour, version, int(server_id), server_uuid)
