"""XA transactions that are prepared at the source when a load begins: their rows are in the log in front of F0.

Those that end soon do no harm: their commits lie behind F0, and the sync looks up their rows in the relay log, which
holds the file of F0 from its beginning. One that stays, for hours maybe, may lie in files that are not kept: the load
does not begin before it has ended.

    F0, XA RECOVER: a, b    …    XA RECOVER: b, c (later than F0)    …    XA RECOVER: c    begin
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.5
_NOT_PERMITTED: Final = ACCESS_DENIED | {1401}  # what MySQL says without XA_RECOVER_ADMIN


class PreparedAtStart(DmError):
    """A transaction was prepared before the copy began, and has not ended."""

    source: str
    xids: tuple[str, ...]

    code = "DM-7022"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = (
        "{source}: nothing was begun, as XA transactions have been prepared there whose rows no read shows, and do not "
        "end: {xids}."
    )
    hint = "End them at the source (XA COMMIT or XA ROLLBACK; `XA RECOVER` shows them), and begin again."


def wait_for_prepared(
    endpoint: Endpoint,
    *,
    seconds: float = WAIT_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nothing is prepared that is prepared now. Raises PreparedAtStart (retry)."""
    with connected(endpoint) as connection:
        waited_for, deadline = prepared_now(connection), time.monotonic() + seconds
        while waited_for:
            if time.monotonic() > deadline:
                raise PreparedAtStart(endpoint.name, tuple(sorted(waited_for)))
            sleep(LOOK_SECONDS)
            waited_for &= prepared_now(connection)


def prepared_now(connection: Connection) -> frozenset[str]:
    """Return the names of what is prepared, as XA COMMIT takes them; none where the account may not ask."""
    asked = server_info(connection).capabilities.lists_prepared
    try:
        rows = query(connection, asked) if asked else []
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _NOT_PERMITTED:
            raise
        log.warning("whether XA transactions are prepared is not known: %s", error)
        return frozenset()
    return frozenset(_name(int(number), int(gtrid), text(data)) for number, gtrid, _bqual, data in rows)


def _name(number: int, gtrid_size: int, data: str) -> str:
    """Return one form of both: MySQL's `0x…` of all bytes, and MariaDB's X'…',X'…',n.

    >>> _name(1, 1, "0x78ff"), _name(1, 1, "X'78',X'ff',1")
    ("X'78',X'ff',1", "X'78',X'ff',1")
    """
    if not data.startswith("0x"):
        return data
    digits = data[2:].lower()
    return f"X'{digits[: 2 * gtrid_size]}',X'{digits[2 * gtrid_size :]}',{number}"
