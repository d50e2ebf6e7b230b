"""The set of transactions in the relay log, derived from the heads of GTID events.

A transaction is added when it is complete, not at its GTID event: an upstream that crashes within it repeats it. So the
last transaction is kept apart until the next one begins or a boundary is known to follow it. Evaluation is lazy: the
pull loop only keeps the first bytes of GTID events, which are folded on demand.
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
"""The bytes at the beginning of a GTID event, header included, that identify its transaction including the tag."""

_MYSQL: Final = struct.Struct("<B16sQ")  # flags, server uuid, number
_MARIADB: Final = struct.Struct("<I10xQI")  # server id, which is in the common header; sequence, domain
_SERVER_AT: Final = 5
_ENOUGH: Final = 20_000


def fold(heads: Sequence[bytes], flavour: Flavour, at: str = "the end of the relay log") -> GtidSet:
    """Return the transactions of these GTID events. `at`: their location, for errors. Raises MalformedEvent."""
    if flavour is Flavour.MARIADB:
        return MariadbGtidSet.of(_last_of_domains(heads))
    plain: dict[bytes, list[int]] = {}
    intervals: list[tuple[Sid, Interval]] = []
    for head in heads:
        if head[4] == events.GTID:
            _flags, server, number = _MYSQL.unpack_from(head, HEADER_SIZE)
            plain.setdefault(server, []).append(number)
        elif head[4] == events.GTID_TAGGED:
            gtid = tagged_gtid(head[HEADER_SIZE:], at)
            intervals.append((Sid(str(UUID(bytes=gtid.uuid)), gtid.tag), Interval(gtid.number, gtid.number)))
    for server, numbers in plain.items():
        sid = Sid(str(UUID(bytes=server)))
        intervals += [(sid, interval) for interval in _runs(numbers)]
    return MysqlGtidSet.of(intervals)


def _runs(numbers: Iterable[int]) -> Iterator[Interval]:
    """Join numbers into intervals."""
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
    """Yield the highest id of each domain, as the set needs no other; creating an object for each id would be slow."""
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
    """The set of one growing relay log. Mutable; belongs to the writer."""

    flavour: Flavour
    carried: GtidSet
    """The transactions in older sub-directories: part of the set from the start."""
    settled: GtidSet = field(init=False)
    _heads: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settled = self.carried

    def restart(self, settled: GtidSet) -> None:
        """Set the transactions before the start of a file, or those that recovery found."""
        self.settled, self._heads = self.carried.union(settled), []

    def saw(self, heads: list[bytes]) -> None:
        """Add GTID events, the first HEAD_SIZE bytes of each, in log order. The last one may be repeated."""
        again = self._heads[-1:] == heads[:1]
        self._heads += heads[1:] if again else heads
        if len(self._heads) > _ENOUGH:
            self.complete(boundary=False)

    def forget_open(self) -> None:
        """Forget the last transaction, which was cut off the log."""
        del self._heads[-1:]

    def complete(self, *, boundary: bool) -> GtidSet:
        """Return every complete transaction; the last one counts only if the log ends at a `boundary`."""
        done, self._heads = (self._heads, []) if boundary else (self._heads[:-1], self._heads[-1:])
        if done:
            self.settled = self.settled.union(fold(done, self.flavour))
        return self.settled
