"""XA transactions that are prepared at the source when a load begins: their rows are in the log before F0.

Those that end soon are harmless: their commits are after F0, and the sync reads their rows from the relay log, which
has the file of F0 from its beginning. One that remains, perhaps for hours, may be in files that are not kept: the load
does not begin before it has ended.

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
    endpoint: Endpoint,
    *,
    seconds: float = PREPARED_WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until all transactions that are prepared now have ended. Raises NotBegunYet (retry)."""
    with connected(endpoint) as connection:
        waited_for, deadline = prepared_now(connection), time.monotonic() + seconds
        while waited_for:
            if time.monotonic() > deadline:
                raise NotBegunYet(
                    f"{endpoint.name}: nothing was started, as XA transactions are prepared, whose rows no read shows, "
                    f"and do not end: {', '.join(sorted(waited_for))}.",
                    "End them at the source (XA COMMIT or XA ROLLBACK; `XA RECOVER` shows them), and start again.",
                )
            sleep(PREPARED_POLL_SECONDS)
            waited_for &= prepared_now(connection)


def prepared_now(connection: Connection) -> frozenset[str]:
    """Return the names of prepared transactions in the format of XA COMMIT; none if the account lacks the privilege."""
    asked = server_info(connection).capabilities.lists_prepared
    try:
        rows = query(connection, asked) if asked else []
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NOT_PERMITTED:
            raise
        log.info("prepared XA transactions are not visible to this account (MySQL: XA_RECOVER_ADMIN shows them)")
        return frozenset()
    return frozenset(_name(int(number), int(gtrid), text(data)) for number, gtrid, _bqual, data in rows)


def _name(number: int, gtrid_size: int, data: str) -> str:
    """Return one format for both: MySQL's `0x…` of all bytes, and MariaDB's X'…',X'…',n.

    >>> _name(1, 1, "0x78ff"), _name(1, 1, "X'78',X'ff',1")
    ("X'78',X'ff',1", "X'78',X'ff',1")
    """
    if not data.startswith("0x"):
        return data
    digits = data[2:].lower()
    return f"X'{digits[: 2 * gtrid_size]}',X'{digits[2 * gtrid_size :]}',{number}"
