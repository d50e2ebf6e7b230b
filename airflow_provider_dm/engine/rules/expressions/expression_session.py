"""The part of a server's session that decides the value of an expression."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_dm.engine.schema.collation_weights import CollationWeights

_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):(\d\d)")


@dataclass(frozen=True)
class ExpressionSession:
    """A session. `zone`: the time zone in which a TIMESTAMP is converted to local time, the key `timezone` of a task;
    "": unknown. `weights`: those of collations that compare by weights."""

    zone: str = ""
    weights: tuple[CollationWeights, ...] = ()


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone by name or offset; None if it is unknown, or a setting of the server.

    >>> [zone_of(name) is not None for name in ("+05:30", "Europe/London", "UTC", "SYSTEM", "+15:00", "")]
    [True, True, True, False, False, False]
    """
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
        return timezone(offset) if timedelta(hours=-14) < offset <= timedelta(hours=14) else None
    try:
        return ZoneInfo(name) if name and name.upper() != "SYSTEM" else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def local_times(zone: tzinfo) -> Callable[[bytes], bytes]:
    """Return the function from a TIMESTAMP in UTC to local time, as `YYYY-MM-DD hh:mm:ss.ffffff`."""

    def local(value: bytes) -> bytes:
        if value.startswith(b"0000-00-00"):
            return b"0000-00-00 00:00:00.000000"
        moment = datetime.fromisoformat(value.decode("ascii")).replace(tzinfo=UTC).astimezone(zone)
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f").encode("ascii")

    return local
