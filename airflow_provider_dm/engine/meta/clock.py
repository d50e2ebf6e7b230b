"""The clock of leases and heartbeats: that of the metadata DB, in microseconds since 1970 (UTC).

Hosts' clocks differ and jump; the DB's clock is the same for all processes. A plain integer is the same type in all
dialects and has no time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

SECOND: Final = 1_000_000
"""Microseconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class db_now(FunctionElement[int]):  # noqa: N801 - it reads as the SQL function that it is
    """The current time by the DB's clock."""

    type = BigInteger()
    inherit_cache = True


@compiles(db_now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    # SQLite's 'now' ticks in milliseconds.
    return "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)"


@compiles(db_now, "mysql", "mariadb")
def _mysql(*_: Any, **__: Any) -> str:
    # Not UNIX_TIMESTAMP(NOW()): in a zone with summer time one hour of the year is ambiguous.
    return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"


@compiles(db_now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # Not now(): that is the beginning of the transaction, which may have waited for a lock since.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


def moment(microseconds: int) -> datetime:
    """Return a stored time as a datetime.

    >>> moment(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(microseconds=microseconds)
