"""Connections to a source for reading rows: one per thread, kept open between chunks; cells are plain bytes.

Reads have no side effects, so after a lost connection the same read is repeated on a new one. Errors of the source are
translated to typed errors here, without row values."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import Connection, connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED, BUSY, CONNECTION_LOST
from airflow_provider_dm.engine.mysql.errors import AccessDenied, ServerUnreachable
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy, SourceReadFailed, SourceRefused
from airflow_provider_dm.engine.reading.text_rows import TextCells, rows

log = logging.getLogger(__name__)

READ_TIMEOUT_SECONDS: Final = 300.0
"""A page is one short SELECT; a server that sends nothing for this long counts as unreachable."""
READ_ATTEMPTS: Final = 6

_CHANGED: Final = frozenset({1054, 1072, 1146, 1176, 1412})

T = TypeVar("T")


class _Cache(threading.local):
    def __init__(self) -> None:
        self.connections: dict[tuple[int, Endpoint], Connection] = {}


_cache: Final = _Cache()


def source_connection(endpoint: Endpoint) -> Connection:
    """Return this thread's open connection, whose cells are bytes. Raises ServerUnreachable or AccessDenied."""
    key = (os.getpid(), endpoint)
    connection = _cache.connections.get(key)
    if connection is None or not connection.open:
        connection = _cache.connections[key] = connect(endpoint, read_timeout=READ_TIMEOUT_SECONDS)
    return connection


def read(endpoint: Endpoint, sql: bytes) -> list[TextCells]:
    """Return all rows of one SELECT on this thread's connection; repeat it if the connection is lost.

    Raises SourceReadFailed (retry), AccessDenied, ServerUnreachable.
    """
    return with_retries(
        endpoint, lambda: [row for batch in rows(source_connection(endpoint), sql) for row in batch.rows]
    )


def with_retries(endpoint: Endpoint, attempt: Callable[[], T]) -> T:
    """Call `attempt`; retry on a new connection while the source is unreachable for a short time."""
    for number in range(1, READ_ATTEMPTS + 1):
        try:
            return attempt()
        except (pymysql.err.Error, OSError, ServerUnreachable, SourceReadFailed) as raised:
            error = source_error(endpoint, raised)
            if error.reaction is not Reaction.RETRY or number == READ_ATTEMPTS:
                raise error from raised
            log.warning("%s: read attempt %d failed: %s", endpoint.name, number, error)
            time.sleep(min(5.0, 0.1 * 2**number))
    raise AssertionError("unreachable")


def source_error(endpoint: Endpoint, error: Exception) -> DmError:
    """Translate a driver's error during a read into a DmError."""
    if isinstance(error, DmError):
        return error
    number, reason = (*error.args, 0, "")[:2]
    if not isinstance(number, int):
        number, reason = 0, str(error)
    if number in ACCESS_DENIED:
        return AccessDenied(str(endpoint), str(reason))
    if number in _CHANGED:
        return SchemaChangedDuringCopy(endpoint.name, "a table", f"{number} {reason}")
    is_transient = number in CONNECTION_LOST | BUSY or isinstance(error, OSError)
    return (SourceReadFailed if is_transient else SourceRefused)(endpoint.name, number, str(reason))
