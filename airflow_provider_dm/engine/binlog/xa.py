"""XA transactions in the log: prepared at one location, committed or rolled back at another, maybe much later.

    MySQL     GTID, XA START, rows, XA END, XA_PREPARE                 prepared; with its flag: committed in one phase
    MariaDB   GTID (flag PREPARED_XA), rows, XA END, XA_PREPARE        prepared; in one phase: an ordinary transaction
    both      GTID, XA COMMIT 'xid' or XA ROLLBACK 'xid'               ended by any session, also after a restart

Rows take effect at the commit, and never if they are rolled back. Other transactions may be in between, and many may be
prepared at the same time. An epoch includes the bytes of a prepared group at the location of its commit:

    100 prepare a │ 200 rows │ 300 prepare b │ 400 commit a │ 450 rows │ 500 rollback b │ 550
    ranges        200..300, 100..200 (as of 400), 400..550

Transactions that are still prepared at the end of an epoch are part of it (`planned.Epoch.prepared`), and are durable
in the target before any of the epoch is applied (downstream/prepared_xa.py).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.mysql.location import Location

_PREPARE: Final = struct.Struct("<BIII")  # one phase, format, sizes of gtrid and bqual
_LONGEST_PART: Final = 64
_END: Final = re.compile(
    rb"XA (COMMIT|ROLLBACK) X'((?:[0-9A-F]{2})*)',X'((?:[0-9A-F]{2})*)',(\d{1,20})\s*", re.IGNORECASE
)


class Xid(NamedTuple):
    """The name of an XA transaction. Its parts may contain any bytes.

    >>> str(Xid(1, b"order 7", b"\\xff"))
    "X'6f726465722037',X'ff',1"
    """

    format: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """Return the name in the form that servers log, and accept in XA COMMIT."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format}"


def read_prepare(body: bytes, at: str) -> tuple[Xid, bool]:
    """Read an XA_PREPARE event: the name, and True if it is a commit in one phase. Raises MalformedEvent."""
    if len(body) < _PREPARE.size:
        raise MalformedEvent(at, "an XA_PREPARE event without its fixed part")
    one_phase, number, gtrid_size, bqual_size = _PREPARE.unpack_from(body)
    if max(gtrid_size, bqual_size) > _LONGEST_PART or len(body) < _PREPARE.size + gtrid_size + bqual_size:
        raise MalformedEvent(at, "an XA_PREPARE event that does not fit its lengths")
    data = body[_PREPARE.size : _PREPARE.size + gtrid_size + bqual_size]
    return Xid(number, data[:gtrid_size], data[gtrid_size:]), bool(one_phase)


def read_end(sql: bytes) -> tuple[Xid, bool] | None:
    """Read XA COMMIT or XA ROLLBACK in the logged form: the name, and True for a commit. None for other statements.

    >>> read_end(b"XA COMMIT X'78',X'',1")
    (Xid(format=1, gtrid=b'x', bqual=b''), True)
    """
    match = _END.fullmatch(sql)
    if match is None:
        return None
    verb, gtrid, bqual, number = match.groups()
    xid = Xid(int(number) & 0xFFFFFFFF, bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode()))
    return xid, verb.upper() == b"COMMIT"


@dataclass(frozen=True)
class PreparedXa:
    """A prepared transaction: from `at`, its beginning in the log, to position `end` of the same file.

    `rows`: it has rows. `seams`: (position, end) where it may be cut into ranges.
    """

    xid: Xid
    at: Location
    end: int
    rows: bool
    seams: tuple[tuple[int, int], ...] = ()

    @property
    def prepared_at(self) -> str:
        """The sort key of the boundary after it, from which on it is prepared."""
        return self.at.at(self.end).sort_key

    def to_json(self) -> dict[str, Any]:
        xid = [self.xid.format, self.xid.gtrid.hex(), self.xid.bqual.hex()]
        return {"xid": xid, "at": self.at.to_json(), "end": self.end, "rows": self.rows, "seams": self.seams}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PreparedXa:
        number, gtrid, bqual = value["xid"]
        return cls(
            Xid(number, bytes.fromhex(gtrid), bytes.fromhex(bqual)),
            Location.from_json(value["at"]),
            value["end"],
            value["rows"],
            tuple((position, closes) for position, closes in value["seams"]),
        )


def file_of(group: PreparedXa, files: Iterable[LogFile]) -> LogFile | None:
    """Return the file that contains the prepared transaction; None if no file does."""
    for file in files:
        same_server = not (group.at.server_uuid and file.server_uuid) or group.at.server_uuid == file.server_uuid
        if same_server and (file.suffix, file.name) == (group.at.suffix, group.at.file) and file.size >= group.end:
            return file
    return None


def needed_location(here: Location, prepared: Sequence[PreparedXa]) -> Location:
    """Return the location from which on the log is needed: `here`, or the start of the oldest prepared transaction."""
    return min((here, *(group.at for group in prepared)), key=lambda place: place.sort_key)
