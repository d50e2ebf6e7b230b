"""Sets of global transaction ids, in the forms of MySQL and MariaDB.

MySQL: for each server uuid (and tag), a list of intervals; `uuid:1-5:7,uuid2:tag:1-3`. Gaps are kept: a set has no
"highest id". MariaDB: a position list, with the last id of each domain; `0-1-42,1-7-9`. The set contains everything up
to that sequence number. The server that wrote a transaction does not matter for containment, because a domain has one
order (a failover changes the server, not the domain).

Both have the same algebra: `union`, `contains`, `minus`, parse and print. Combining sets of different families breaks
an invariant. This module only has the algebra; the bytes of GTID events are read by `binlog.gtid_events`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.errors import InvalidGtidSet

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.ASCII)
_INTERVAL: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_MARIADB: Final = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})", re.ASCII)


class Sid(NamedTuple):
    """The source id of a MySQL transaction: a server uuid (lower case), and a tag or ""."""

    uuid: str
    tag: str = ""


class Interval(NamedTuple):
    """Transaction numbers `first` to `last`, both included."""

    first: int
    last: int


class MariadbGtid(NamedTuple):
    domain: int
    server_id: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"


class GtidSet(ABC):
    """The base class of both families. Immutable; `str` is the canonical text, empty for the empty set."""

    @staticmethod
    def parse(text: str, flavour: Flavour) -> GtidSet:
        """Parse a set, ignoring the blanks and line breaks that servers print in long ones. Raises InvalidGtidSet."""
        return MariadbGtidSet.parse_text(text) if flavour is Flavour.MARIADB else MysqlGtidSet.parse_text(text)

    @classmethod
    @abstractmethod
    def parse_text(cls, text: str) -> GtidSet:
        """Parse the text of a set of this family. Raises InvalidGtidSet."""

    @staticmethod
    def of_text(text: str) -> GtidSet:
        """Parse a set of the family that its text shows: only MySQL writes a colon. Raises InvalidGtidSet.

        >>> GtidSet.of_text("0-1-42"), bool(GtidSet.of_text(""))
        (MariadbGtidSet(last={0: MariadbGtid(domain=0, server_id=1, sequence=42)}), False)
        """
        return GtidSet.parse(text, Flavour.MYSQL if ":" in text else Flavour.MARIADB)

    @staticmethod
    def empty(flavour: Flavour) -> GtidSet:
        """Return the empty set."""
        return GtidSet.parse("", flavour)

    @abstractmethod
    def union(self, other: GtidSet) -> GtidSet:
        """Return the transactions in either set. Raises InvariantBroken for the other family."""

    @abstractmethod
    def contains(self, other: GtidSet) -> bool:
        """Return True if this set contains all of `other`. Raises InvariantBroken for the other family."""

    @abstractmethod
    def minus(self, other: GtidSet) -> GtidSet:
        """Return the transactions of this set that are not in `other`. Raises InvariantBroken for the other family."""

    @abstractmethod
    def __bool__(self) -> bool: ...


_Own = TypeVar("_Own", bound=GtidSet)


def _same_family(own: _Own, other: GtidSet) -> _Own:
    if not isinstance(other, type(own)):
        raise InvariantBroken("GTID sets of one source are of one family", f"{own!r} and {other!r}")
    return other


@dataclass(frozen=True)
class MysqlGtidSet(GtidSet):
    """A MySQL set. `intervals`: sorted, disjoint and not adjacent, never empty; build with `of` or `parse_text`."""

    intervals: Mapping[Sid, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, intervals: Iterable[tuple[Sid, Interval]]) -> MysqlGtidSet:
        """Build the set of these intervals, in any order, overlapping or not."""
        grouped: dict[Sid, list[Interval]] = {}
        for sid, interval in intervals:
            grouped.setdefault(sid, []).append(interval)
        return cls({sid: tuple(_merged(grouped[sid])) for sid in sorted(grouped)})

    @classmethod
    def parse_text(cls, text: str) -> MysqlGtidSet:
        """Parse the text of a MySQL set. Raises InvalidGtidSet.

        >>> str(MysqlGtidSet.parse_text("3E11FA47-71CA-11E1-9E33-C80AA9429562:7:1-3:4-5"))
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7'
        """
        intervals: list[tuple[Sid, Interval]] = []
        for part in filter(None, "".join(text.split()).lower().split(",")):
            uuid, *items = part.split(":")
            if not _UUID.fullmatch(uuid) or not items:
                raise InvalidGtidSet(text, Flavour.MYSQL.value)
            intervals += _intervals_of(uuid, items, text)
        return cls.of(intervals)

    def flat(self) -> Iterator[tuple[Sid, Interval]]:
        """Return every interval with its source id."""
        return ((sid, interval) for sid, intervals in self.intervals.items() for interval in intervals)

    def union(self, other: GtidSet) -> MysqlGtidSet:
        theirs = _same_family(self, other)
        return MysqlGtidSet.of([*self.flat(), *theirs.flat()])

    def contains(self, other: GtidSet) -> bool:
        return all(
            any(mine.first <= interval.first and interval.last <= mine.last for mine in self.intervals.get(sid, ()))
            for sid, interval in _same_family(self, other).flat()
        )

    def minus(self, other: GtidSet) -> MysqlGtidSet:
        theirs = _same_family(self, other)
        left = [
            (sid, rest) for sid, interval in self.flat() for rest in _without(interval, theirs.intervals.get(sid, ()))
        ]
        return MysqlGtidSet.of(left)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __str__(self) -> str:
        parts: dict[str, str] = {}
        for sid, intervals in self.intervals.items():  # sorted: the untagged intervals of a uuid come first
            text = ":".join(f"{i.first}-{i.last}" if i.last > i.first else str(i.first) for i in intervals)
            head = parts.get(sid.uuid, sid.uuid)
            parts[sid.uuid] = f"{head}:{sid.tag}:{text}" if sid.tag else f"{head}:{text}"
        return ",".join(parts.values())


def _intervals_of(uuid: str, items: Iterable[str], text: str) -> Iterator[tuple[Sid, Interval]]:
    tag = ""
    for item in items:
        if _TAG.fullmatch(item):
            tag = item
            continue
        match = _INTERVAL.fullmatch(item)
        if match is None:
            raise InvalidGtidSet(text, Flavour.MYSQL.value)
        interval = Interval(int(match[1]), int(match[2] or match[1]))
        if not 1 <= interval.first <= interval.last:
            raise InvalidGtidSet(text, Flavour.MYSQL.value)
        yield Sid(uuid, tag), interval


def _merged(intervals: list[Interval]) -> Iterator[Interval]:
    intervals.sort()
    held = intervals[0]
    for interval in intervals:
        if interval.first <= held.last + 1:
            held = Interval(held.first, max(held.last, interval.last))
        else:
            yield held
            held = interval
    yield held


def _without(interval: Interval, holes: Iterable[Interval]) -> Iterator[Interval]:
    first = interval.first
    for hole in holes:
        if hole.last < first or hole.first > interval.last:
            continue
        if hole.first > first:
            yield Interval(first, hole.first - 1)
        first = hole.last + 1
    if first <= interval.last:
        yield Interval(first, interval.last)


@dataclass(frozen=True)
class MariadbGtidSet(GtidSet):
    """A MariaDB set. `last`: the last transaction of each domain; build with `of` or `parse_text`."""

    last: Mapping[int, MariadbGtid] = field(default_factory=dict)

    @classmethod
    def of(cls, gtids: Iterable[MariadbGtid]) -> MariadbGtidSet:
        """Build the set of these ids, in any order; the highest sequence number of each domain counts."""
        last: dict[int, MariadbGtid] = {}
        for gtid in gtids:
            held = last.get(gtid.domain)
            if held is None or (held.sequence, held.server_id) < (gtid.sequence, gtid.server_id):
                last[gtid.domain] = gtid
        return cls(dict(sorted(last.items())))

    @classmethod
    def parse_text(cls, text: str) -> MariadbGtidSet:
        """Parse the text of a MariaDB set. Raises InvalidGtidSet.

        >>> str(MariadbGtidSet.parse_text("1-7-9, 0-1-42"))
        '0-1-42,1-7-9'
        """
        gtids = []
        for part in filter(None, "".join(text.split()).split(",")):
            match = _MARIADB.fullmatch(part)
            if match is None:
                raise InvalidGtidSet(text, Flavour.MARIADB.value)
            gtids.append(MariadbGtid(int(match[1]), int(match[2]), int(match[3])))
        return cls.of(gtids)

    def union(self, other: GtidSet) -> MariadbGtidSet:
        return MariadbGtidSet.of([*self.last.values(), *_same_family(self, other).last.values()])

    def contains(self, other: GtidSet) -> bool:
        return not self.unreached(_same_family(self, other))

    def unreached(self, other: MariadbGtidSet) -> list[MariadbGtid]:
        """Return the ids of `other` that this set does not contain."""
        return [
            gtid
            for gtid in other.last.values()
            if (mine := self.last.get(gtid.domain)) is None or mine.sequence < gtid.sequence
        ]

    def minus(self, other: GtidSet) -> MariadbGtidSet:
        return MariadbGtidSet.of(_same_family(self, other).unreached(self))

    def __bool__(self) -> bool:
        return bool(self.last)

    def __str__(self) -> str:
        return ",".join(str(gtid) for gtid in self.last.values())
