"""Locations in a source's binlog, and the only comparison of two locations.

A location names a binlog file (with the suffix of its relay sub-directory), a 64-bit byte position in it, and the set
of GTIDs committed before that position. Positions order two locations only within the history of one source; the GTID
set is kept for failover and for display. There is no `__lt__`: of two locations in unrelated histories neither precedes
the other, and a false order would move a checkpoint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.gtid import GtidSet

BINLOG_HEADER_SIZE: Final = 4
"""Every binlog file starts with four magic bytes, followed by the first event."""

_FILE: Final = re.compile(r"^(?P<base>[\w.-]+)\.(?P<number>\d{6,})$", re.ASCII)
_TEXT: Final = re.compile(r"^\(?\s*(?P<file>[\w.-]+?\.\d{6,})\s*[:,]\s*(?P<position>\d+)\s*\)?$", re.ASCII)


class Order(Enum):
    """Result of a comparison of two locations."""

    BEFORE = "before"
    SAME = "same"
    AFTER = "after"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """The name of a binlog file as a value: `mysql-bin.000003` is base `mysql-bin`, number 3."""

    base: str
    number: int

    @staticmethod
    @lru_cache(256)  # the many locations of a log are in few files
    def parse(name: str) -> BinlogFile:
        """Parse a file name. Raises InvalidLocation for anything but BASE.DIGITS, also for a path."""
        match = _FILE.match(name)
        if match is None:
            raise InvalidLocation(name)
        return BinlogFile(match["base"], int(match["number"]))

    def __str__(self) -> str:
        return f"{self.base}.{self.number:06d}"

    def next(self) -> BinlogFile:
        return replace(self, number=self.number + 1)


@dataclass(frozen=True, slots=True)
class Location:
    """A location in one source's log, before which lie all bytes up to `position` of `file` and all of `gtid_set`.

    `suffix` is the number of the relay sub-directory (1 for a source that never failed over).
    """

    file: str
    position: int
    gtid_set: str = ""
    suffix: int = 1
    server_uuid: str = field(default="", compare=False)
    """The server whose log it is; "" if unknown. It does not take part in equality."""
    created: int = field(default=0, compare=False)
    """When the server created the file, in seconds since 1970; 0 if unknown. After RESET MASTER, another file has the
    same name. It does not take part in equality."""

    def __post_init__(self) -> None:
        BinlogFile.parse(self.file)
        if self.position < 0 or self.suffix < 0:
            raise InvalidLocation(f"{self.file}:{self.position}")

    @classmethod
    def parse(cls, text: str) -> Location:
        """Parse `FILE:POSITION` or DM's `(FILE, POSITION)`. Raises InvalidLocation."""
        match = _TEXT.match(text.strip())
        if match is None:
            raise InvalidLocation(text)
        return cls(match["file"], int(match["position"]))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Location:
        return cls(**value)

    def to_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # plain values only

    @property
    def sort_key(self) -> str:
        """Fixed-width text whose byte order is the order of the log, within one source only (64-bit positions)."""
        return f"{self.suffix:06d}.{BinlogFile.parse(self.file).number:010d}.{self.position:020d}"

    def at(self, position: int) -> Location:
        """Return another position in the same file, without a GTID set, because the set would be wrong there."""
        return replace(self, position=position, gtid_set="")

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def compare(a: Location, b: Location) -> Order:
    """Compare `a` with `b`. UNRELATED if, within one sub-directory, the servers or the files' base names differ."""
    if a.suffix == b.suffix and not same_log(a, b):
        return Order.UNRELATED
    if a.sort_key == b.sort_key:
        return Order.SAME
    return Order.BEFORE if a.sort_key < b.sort_key else Order.AFTER


def same_log(a: Location, b: Location) -> bool:
    """Return False if two locations in one sub-directory are known to be in different servers' logs."""
    if a.server_uuid and b.server_uuid and a.server_uuid != b.server_uuid:
        return False
    return BinlogFile.parse(a.file).base == BinlogFile.parse(b.file).base


def reached(here: Location, goal: Location) -> bool:
    """Return True if everything before `goal` is also before `here`. False for unrelated histories."""
    return compare(here, goal) in (Order.SAME, Order.AFTER)


def has_passed(here: Location, place: Location) -> bool:
    """Return True if everything before `place` is before `here`.

    Like `reached`, but if `here` is in a later sub-directory, by GTID sets: a new server's log repeats the old one's.
    """
    if here.suffix <= place.suffix:
        return reached(here, place)
    return bool(here.gtid_set and place.gtid_set) and not missing_at(here, place)


def missing_at(here: Location, place: Location) -> GtidSet:
    """Return the transactions committed before `place` and not before `here`. Both need their GTID sets."""
    return GtidSet.of_text(place.gtid_set).minus(GtidSet.of_text(here.gtid_set))


def holds(here: Location, goal: Location) -> bool | None:
    """Return True if everything before `goal` is before `here`; None if that cannot be determined.

    `goal` is a location as a server reports it, without a relay sub-directory. Positions are valid for one server only:
    after a switch to another server the GTID sets decide.
    """
    if goal.server_uuid and here.server_uuid and goal.server_uuid != here.server_uuid:
        if not here.gtid_set or not goal.gtid_set:
            return False
        ours, theirs = GtidSet.of_text(here.gtid_set), GtidSet.of_text(goal.gtid_set)
        return type(ours) is type(theirs) and ours.contains(theirs)
    order = compare(here, replace(goal, suffix=here.suffix, server_uuid=""))
    return None if order is Order.UNRELATED else order in (Order.SAME, Order.AFTER)
