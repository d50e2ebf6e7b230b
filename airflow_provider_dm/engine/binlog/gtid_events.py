"""Global transaction ids in events: the id of the next transaction, and the ids committed before a file.

A transaction's id counts only when the transaction is complete: the scan adds it to a `GtidTrail` at its boundary, not
at its GTID event. The trail is converted to text once, when a plan is made.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet, Interval, MariadbGtid, MariadbGtidSet, MysqlGtidSet, Sid

MYSQL_GTID: Final = struct.Struct("<B16sQ")
"""Body of GTID and ANONYMOUS_GTID: flags, server uuid, number."""
MARIADB_GTID: Final = struct.Struct("<QIB")
"""Body of MariaDB's GTID: sequence, domain, flags; the server id is in the header."""

NUMBERS_END: Final = (1 << 63) - 1
"""MySQL's transaction numbers are greater than zero and less than this."""

STANDALONE: Final = 1
_GROUP_COMMIT_ID: Final = 2
_PREPARED_XA: Final = 64
_COMPLETED_XA: Final = 128
UNUSUAL: Final = STANDALONE | _PREPARED_XA | _COMPLETED_XA
"""Flags of a MariaDB GTID that opens a single statement, or one phase of a two-phase operation."""
_START_ALTER, _ROLLBACK_ALTER = 2, 8  # of the extra flags; 4 is COMMIT ALTER

_COUNT: Final = struct.Struct("<Q")
_RANGE: Final = struct.Struct("<QQ")
_LIST_ENTRY: Final = struct.Struct("<IIQ")


Gtid: TypeAlias = tuple[bytes, int] | tuple[bytes, int, str] | tuple[int, int, int]
"""(uuid, number), (uuid, number, tag), or MariaDB's (domain, server id, sequence)."""


class TaggedGtid(NamedTuple):
    """A MySQL transaction id with its tag; a Gtid."""

    uuid: bytes
    number: int
    tag: str


def gtid_text(gtid: Gtid) -> str:
    """Return a transaction id in its server's notation.

    >>> gtid_text((bytes(16), 7)), gtid_text((bytes(16), 7, "blue")), gtid_text((0, 1, 7))
    ('00000000-0000-0000-0000-000000000000:7', '00000000-0000-0000-0000-000000000000:blue:7', '0-1-7')
    """
    first, number, *rest = gtid
    if isinstance(first, int):
        return "-".join(map(str, gtid))
    return ":".join(filter(None, (str(UUID(bytes=first)), *map(str, rest), str(number))))


class GtidTrail:
    """The transaction ids of one scan, in a form to which adding is cheap."""

    def __init__(self) -> None:
        self._seen: list[Gtid] = []
        self._runs: list[tuple[bytes, str, int, int]] = []
        self._positions: dict[int, tuple[int, int]] = {}
        self.add: Callable[[Gtid], None] = self._seen.append
        """Add one transaction, which is stored unchanged until `fold`; of a MariaDB domain the last one counts."""

    def add_run(self, uuid: bytes, first: int, last: int) -> None:
        """Add MySQL transactions `first` to `last` of one server, without a tag."""
        self._runs.append((uuid, "", first, last))

    def fold(self) -> None:
        """Compact the ids: runs of one server's numbers, the last id of each domain."""
        uuid, tag, first, last = b"", "", 0, -1
        for gtid in self._seen:
            if isinstance(gtid[0], int):
                domain, server_id, sequence = gtid
                self._positions[domain] = (server_id, sequence)
                continue
            its_uuid, number, *rest = gtid
            its_tag = str(rest[0]) if rest else ""
            if number == last + 1 and its_uuid == uuid and its_tag == tag:
                last = number
                continue
            if last >= first:
                self._runs.append((uuid, tag, first, last))
            uuid, tag, first, last = its_uuid, its_tag, number, number
        if last >= first:
            self._runs.append((uuid, tag, first, last))
        self._seen.clear()

    def add_set(self, executed: GtidSet) -> None:
        """Add the set of a PREVIOUS_GTIDS or GTID_LIST event."""
        if isinstance(executed, MysqlGtidSet):
            self._runs += [(UUID(s.uuid).bytes, s.tag, i.first, i.last) for s, i in executed.flat()]
        elif isinstance(executed, MariadbGtidSet):
            self._positions |= {gtid.domain: (gtid.server_id, gtid.sequence) for gtid in executed.last.values()}

    def added_to(self, before: str, flavour: Flavour) -> str:
        """Return the text of set `before` plus this trail. Raises InvalidGtidSet for an invalid `before`."""
        self.fold()
        if not self._runs and not self._positions:
            return before
        return str(GtidSet.parse(before, flavour).union(self._as_set(flavour)))

    def _as_set(self, flavour: Flavour) -> GtidSet:
        if flavour is Flavour.MARIADB:
            return MariadbGtidSet.of(
                MariadbGtid(domain, server, sequence) for domain, (server, sequence) in self._positions.items()
            )
        return MysqlGtidSet.of(
            (Sid(str(UUID(bytes=uuid)), tag), Interval(first, last)) for uuid, tag, first, last in self._runs
        )


def alters_nothing(body: bytes) -> bool:
    """Return True if the statement after a MariaDB GTID event has no effect.

    That is START ALTER, which only announces an ALTER (binlog_alter_two_phase), and ROLLBACK ALTER.
    """
    flags = body[MARIADB_GTID.size - 1]
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        return False  # an xid follows instead of extra flags
    extra = MARIADB_GTID.size + (8 if flags & _GROUP_COMMIT_ID else 0)
    return len(body) > extra and bool(body[extra] & (_START_ALTER | _ROLLBACK_ALTER))


def previous_gtids(body: bytes, at: str) -> MysqlGtidSet:
    """Read a PREVIOUS_GTIDS event, with or without tags. Raises MalformedEvent."""
    intervals: list[tuple[Sid, Interval]] = []
    with _reading("PREVIOUS_GTIDS", at):
        # The count's first and last byte are 1 if tags follow the uuids; a real count is too small for that.
        (count,) = _COUNT.unpack_from(body)
        tagged = body[7] == 1
        if tagged:
            count = (count >> 8) & 0xFFFFFFFFFFFF
        position = _COUNT.size
        for _ in range(count):
            uuid, tag = str(UUID(bytes=body[position : position + 16])), ""
            position += 16
            if tagged:
                length, position = _varint(body, position)
                tag, position = body[position : position + length].decode("ascii"), position + length
                if not _TAG.match(tag):
                    raise ValueError(f"the tag {tag!r}")
            (ranges,) = _COUNT.unpack_from(body, position)
            position += _COUNT.size
            for _ in range(ranges):
                first, stop = _RANGE.unpack_from(body, position)
                if not 0 < first < stop <= NUMBERS_END:
                    raise ValueError(f"the numbers {first} to {stop - 1}")
                intervals.append((Sid(uuid, tag), Interval(first, stop - 1)))
                position += _RANGE.size
    return MysqlGtidSet.of(intervals)


@contextmanager
def _reading(event: str, at: str) -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedEvent(at, f"a {event} event that cannot be read ({error})") from error


def encoded(gtid_set: MysqlGtidSet) -> bytes:
    """Encode a set as in PREVIOUS_GTIDS and COM_BINLOG_DUMP_GTID; with tags only if there are any.

    >>> previous_gtids(encoded(MysqlGtidSet.parse_text(f"{UUID(int=7)}:1-3:9:blue:4")), "here").intervals.values()
    dict_values([(Interval(first=1, last=3), Interval(first=9, last=9)), (Interval(first=4, last=4),)])
    """
    tagged = any(sid.tag for sid in gtid_set.intervals)
    count = len(gtid_set.intervals)
    parts = [_COUNT.pack(count << 8 | 1 << 56 | 1 if tagged else count)]
    for sid, intervals in gtid_set.intervals.items():
        parts.append(UUID(sid.uuid).bytes)
        if tagged:
            parts.append(bytes([len(sid.tag) << 1]) + sid.tag.encode("ascii"))  # at most 32: one byte of length
        parts.append(_COUNT.pack(len(intervals)))
        parts += [_RANGE.pack(interval.first, interval.last + 1) for interval in intervals]
    return b"".join(parts)


def gtid_list(body: bytes, at: str) -> MariadbGtidSet:
    """Read MariaDB's GTID_LIST event. Raises MalformedEvent."""
    with _reading("GTID_LIST", at):
        count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
        entries = [_LIST_ENTRY.unpack_from(body, 4 + index * _LIST_ENTRY.size) for index in range(count)]
    return MariadbGtidSet.of(MariadbGtid(domain, server, sequence) for domain, server, sequence in entries)


# MySQL's serialization format (mysql::serialization): numbered fields of integers of variable length


def tagged_gtid(body: bytes, at: str) -> TaggedGtid:
    """Read a GTID_TAGGED event up to its tag. Raises MalformedEvent."""
    try:  # called for each transaction: `_reading` would be too slow
        return _tagged(body)
    except (IndexError, ValueError) as error:
        raise MalformedEvent(at, f"a GTID_TAGGED event that cannot be read ({error})") from error


_TAGGED_FIELDS: Final = 12  # flags to the commit group's ticket


def _tagged(body: bytes) -> TaggedGtid:
    _version, position = _varint(body, 0)
    _size, position = _varint(body, position)
    needed, position = _varint(body, position)  # number of fields that a reader must know; some may be absent
    if needed > _TAGGED_FIELDS:
        raise ValueError(f"{needed} fields must be known")
    uuid, number, tag = b"", 0, ""
    for expected in range(4):  # flags, uuid, number, tag
        field, position = _varint(body, position)
        if field != expected:
            raise ValueError(f"field {field} where {expected} was expected")
        match field:
            case 0:
                _, position = _varint(body, position)
            case 1:
                parts = []
                for _ in range(16):
                    part, position = _varint(body, position)
                    parts.append(part)
                uuid = bytes(parts)
            case 2:
                zigzag, position = _varint(body, position)
                number = -(zigzag >> 1) - 1 if zigzag & 1 else zigzag >> 1
            case 3:
                length, position = _varint(body, position)
                tag = body[position : position + length].decode("ascii")
                if len(tag) < length:
                    raise ValueError("a tag is too short")
    if not 0 < number < NUMBERS_END or not _TAG.match(tag):
        raise ValueError(f"the id {tag}:{number}")
    return TaggedGtid(uuid, number, tag)


_TAG: Final = re.compile(r"(?:[a-z_][a-z0-9_]{0,31})?\Z")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """Return (value, next position).

    Format: as many one-bits as further bytes, a zero-bit, then the value, little-endian.
    """
    first = body[position]
    size = 1
    while size < 9 and first & (1 << (size - 1)):
        size += 1
    data = body[position : position + size]
    if len(data) < size:
        raise IndexError("a number is too short")
    if size == 9:  # a byte of ones is followed by eight full bytes
        return int.from_bytes(data[1:], "little"), position + size
    return int.from_bytes(data, "little") >> size, position + size
