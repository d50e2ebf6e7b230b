"""`meta` of a mysql-instance: the location at which an incremental task begins without a checkpoint."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, Self

from pydantic import Field, field_validator

from airflow_provider_dm.engine.config.base import DmModel
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location

# With a relay log DM writes the sub-directory's number into the name: mysql-bin|000002.000003.
_WITH_SUFFIX: Final = re.compile(r"^(?P<base>[\w.-]+)\|(?P<suffix>\d{6})\.(?P<number>\d{6,})$", re.ASCII)

_TIME: Final = "%Y-%m-%d %H:%M:%S"


def checked_time(text: str) -> str:
    """Return a time in its normal form; "" if there is none. Raises ValueError.

    >>> checked_time("2026-11-22T19:50:00")
    '2026-11-22 19:50:00'
    """
    try:
        return datetime.strptime(text.replace("T", " "), _TIME).strftime(_TIME) if text else ""  # noqa: DTZ007 (its zone is the source's)
    except ValueError:
        raise ValueError(f"{text!r} is not a time such as 2026-11-22 19:50:00") from None


def location_of(name: str, position: int, gtid_set: str = "") -> Location:
    """Return the location that DM writes as a file name and a position. Raises InvalidLocation.

    >>> location_of("mysql-bin|000002.000003", 154).sort_key
    '000002.0000000003.00000000000000000154'
    """
    match = _WITH_SUFFIX.match(name)
    if match is None:
        return Location(name, position, gtid_set)
    return Location(f"{match['base']}.{match['number']}", position, gtid_set, int(match["suffix"]))


class StartMeta(DmModel):
    """`binlog-name` and `binlog-pos`, or `binlog-gtid`, or both."""

    binlog_name: str = ""
    """Binlog file."""
    binlog_pos: int = Field(default=BINLOG_HEADER_SIZE, ge=0)
    """Position between two transactions of that file."""
    binlog_gtid: str = ""
    """GTID set: the start is the location at which exactly these transactions are committed; with a file, its
    position."""

    @field_validator("binlog_name")
    @classmethod
    def _a_binlog_file(cls, name: str) -> str:
        try:
            if name and not _WITH_SUFFIX.match(name):
                BinlogFile.parse(name)
        except InvalidLocation:
            raise ValueError("it is not the name of a binlog file, such as mysql-bin.000003") from None
        return name

    @property
    def only_gtid(self) -> bool:
        return bool(self.binlog_gtid) and not self.binlog_name

    @classmethod
    def at(cls, place: Location) -> Self:
        """Return the values that name this location."""
        return cls(binlog_name=place.file, binlog_pos=place.position, binlog_gtid=place.gtid_set)

    def location(self) -> Location | None:
        """Return the location to start at; None if the file has none, or only a GTID set."""
        if not self.binlog_name:
            return None
        position = max(self.binlog_pos, BINLOG_HEADER_SIZE)
        return location_of(self.binlog_name, position, self.binlog_gtid)
