"""Waits for XA transactions that are prepared when a load begins at F0: their rows are in the log before F0.

A transaction that ends soon is harmless: its commit is after F0, and the sync reads its rows from the relay log, which
has the file of F0 from its beginning. The rows of an older one may be in files that are not kept, so the load does not
begin before it has ended.

    F0, XA RECOVER: a, b    …    XA RECOVER: b, c (later than F0)    …    XA RECOVER: c    begin
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import pymysql

from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.reading.errors import NotBegunYet

log = logging.getLogger(__name__)

PREPARED_WAIT_SECONDS: Final = 20.0
PREPARED_POLL_SECONDS: Final = 0.5
_NOT_PERMITTED: Final = ACCESS_DENIED | {1401}  # MySQL's error without XA_RECOVER_ADMIN


def wait_for_prepared(
    endpoint: Endpoint, *, seconds: float = PREPARED_WAIT_SECONDS, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until all transactions that are prepared now have ended. Raises NotBegunYet (retry)."""
    with connected(endpoint) as connection:
        waited_for, deadline = prepared_now(connection), time.monotonic() + seconds
        while waited_for:
            if time.monotonic() > deadline:
                raise NotBegunYet(
                    f"{endpoint.name}: nothing was started, as a copy cannot see the rows of XA transactions that stay "
                    f"prepared: {', '.join(sorted(waited_for))}.",
                    "End them at the source (XA COMMIT or XA ROLLBACK; `XA RECOVER` shows them), and start again.",
                )
            sleep(PREPARED_POLL_SECONDS)
            waited_for &= prepared_now(connection)


def prepared_now(connection: Connection) -> frozenset[str]:
    """Return the names of prepared transactions in the format of XA COMMIT; none if the account lacks the privilege."""
    recover = server_info(connection).capabilities.lists_prepared
    try:
        rows = query(connection, recover) if recover else []
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NOT_PERMITTED:
            raise
        log.info("this account cannot see prepared XA transactions (MySQL: grant XA_RECOVER_ADMIN)")
        return frozenset()
    return frozenset(_name(int(number), int(gtrid), text(data)) for number, gtrid, _bqual, data in rows)


def _name(number: int, gtrid_size: int, data: str) -> str:
    """Return the name as X'…',X'…',n, which MariaDB returns; MySQL returns all bytes as `0x…`.

    >>> _name(1, 1, "0x78ff"), _name(1, 1, "X'78',X'ff',1")
    ("X'78',X'ff',1", "X'78',X'ff',1")
    """
    if not data.startswith("0x"):
        return data
    digits = data[2:].lower()
    return f"X'{digits[: 2 * gtrid_size]}',X'{digits[2 * gtrid_size :]}',{number}"
