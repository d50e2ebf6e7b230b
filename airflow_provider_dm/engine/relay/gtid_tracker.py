"""Which transactions the relay log holds, from the heads of GTID events.

A transaction joins the set when it is complete, never when its GTID event is seen: an upstream that dies in the middle
repeats it. So the last one begun stands apart until the next one begins or a boundary is known to lie behind it.
Reading is lazy: the pull loop only keeps the first bytes of GTID events, and they are folded in when somebody asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.gtid_events import tagged_gtid
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet, Interval, MariadbGtid, MariadbGtidSet, MysqlGtidSet, Sid

HEAD_SIZE: Final = 128
"""Bytes of a GTID event, common header included, that say which transaction it opens, tag and all."""

_MYSQL: Final = struct.Struct("<B16sQ")  # flags, server uuid, number
_MARIADB: Final = struct.Struct("<I10xQI")  # server id, which is in the common header; sequence, domain
_SERVER_AT: Final = 5
_ENOUGH: Final = 20_000


def fold(heads: Sequence[bytes], flavour: Flavour, at: str = "the end of the relay log") -> GtidSet:
    """Return the transactions that these GTID events open, which lie at `at`. Raises MalformedEvent."""
    if flavour is Flavour.MARIADB:
        return MariadbGtidSet.of(_last_of_domains(heads))
    plain: dict[bytes, list[int]] = {}
    found: list[tuple[Sid, Interval]] = []
    for head in heads:
        if head[4] == events.GTID:
            _flags, server, number = _MYSQL.unpack_from(head, HEADER_SIZE)
            plain.setdefault(server, []).append(number)
        elif head[4] == events.GTID_TAGGED:
            gtid = tagged_gtid(head[HEADER_SIZE:], at)
            found.append((Sid(str(UUID(bytes=gtid.uuid)), gtid.tag), Interval(gtid.number, gtid.number)))
    for server, numbers in plain.items():
        sid = Sid(str(UUID(bytes=server)))
        found += [(sid, interval) for interval in _runs(numbers)]
    return MysqlGtidSet.of(found)


def _runs(numbers: Iterable[int]) -> Iterator[Interval]:
    """Join numbers into intervals, few where they follow one another."""
    first = last = 0
    for number in sorted(numbers):
        if number > last + 1 or not last:
            if last:
                yield Interval(first, last)
            first = number
        last = number
    if last:
        yield Interval(first, last)


def _last_of_domains(heads: Sequence[bytes]) -> Iterator[MariadbGtid]:
    """Yield the highest id of each domain, all that a set takes; only these are made objects, as there are many."""
    last: dict[int, tuple[int, int]] = {}
    unpack, none = _MARIADB.unpack_from, (-1, -1)
    for head in heads:
        if head[4] == events.MARIADB_GTID:
            server, sequence, domain = unpack(head, _SERVER_AT)
            known = last.get(domain, none)
            if sequence > known[0] or (sequence == known[0] and server > known[1]):
                last[domain] = (sequence, server)
    for domain, (sequence, server) in last.items():
        yield MariadbGtid(domain, server, sequence)


@dataclass
class GtidTracker:
    """The set of one relay log while it grows. Mutable; belongs to the writer."""

    flavour: Flavour
    carried: GtidSet
    """What the older sub-directories hold: part of the set from the start."""
    settled: GtidSet = field(init=False)
    _heads: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settled = self.carried

    def restart(self, settled: GtidSet) -> None:
        """Begin with what the log says at the start of a file, or what recovery found."""
        self.settled, self._heads = self.carried.union(settled), []

    def saw(self, heads: list[bytes]) -> None:
        """Add GTID events, the first HEAD_SIZE bytes of each, in the order of the log. The last one may come again."""
        again = self._heads[-1:] == heads[:1]
        self._heads += heads[1:] if again else heads
        if len(self._heads) > _ENOUGH:
            self.complete(boundary=False)

    def forget_open(self) -> None:
        """Forget the last transaction begun, which was cut off the log."""
        del self._heads[-1:]

    def complete(self, *, boundary: bool) -> GtidSet:
        """Return every complete transaction; the last one begun counts when the log ends at a `boundary`."""
        done, self._heads = (self._heads, []) if boundary else (self._heads[:-1], self._heads[-1:])
        if done:
            self.settled = self.settled.union(fold(done, self.flavour))
        return self.settled
