"""Whole ordinary transactions, by the headers of their events. Reference: `boundary`, which calls this.

An ordinary transaction has a GTID event without unusual flags, BEGIN if the flavour writes it, table maps, rows and
events without a change, and XID. The kernel stops before any other transaction, and before a transaction that the
buffer does not hold completely; the reference handles it from its first event on.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.events import EventRole
from airflow_provider_dm.engine.binlog.gtid_events import MARIADB_GTID, MYSQL_GTID, NUMBERS_END, UNUSUAL
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE
from airflow_provider_dm.engine.binlog.kernels.build import BYTES, entry
from airflow_provider_dm.engine.binlog.kernels.machine import load1, load2, load4, load8

_QUERY_HEAD: Final = 13
_BEGIN, _BEGIN_SIZE = uint64(int.from_bytes(b"BEGIN", "little")), 5
_MYSQL_SIZE, _MARIADB_SIZE = MYSQL_GTID.size, MARIADB_GTID.size
_UNUSUAL = uint64(UNUSUAL)
_NUMBERS_END = uint64(NUMBERS_END)
_XID, _QUERY, _GTID, _ANONYMOUS = codes.XID, codes.QUERY, codes.GTID, codes.ANONYMOUS_GTID
_MARIADB_GTID = codes.MARIADB_GTID
_PASS, _MAP, _ROWS = int(EventRole.PASS), int(EventRole.MAP), int(EventRole.ROWS)
_HEADER = HEADER_SIZE


@njit(forceinline=True)
def _is_begin(body: int, end: int) -> bool:
    """Return True if the QUERY event with the body at this address is exactly BEGIN."""
    if end - body <= _QUERY_HEAD:
        return False
    text = body + _QUERY_HEAD + int64(load1(body + 8)) + int64(load2(body + 11)) + 1
    return text + _BEGIN_SIZE == end and load8(text - 3) >> uint64(24) == _BEGIN


@njit(forceinline=True)
def _add_id(ids: Any, count: int, first: Any, second: Any, number: Any, mariadb: bool) -> int:
    """Append an id to the `count` existing ones, or extend the last of them; return the new count."""
    last = count - 1
    if count and ids[last, 0] == first:
        if mariadb:  # the last of a domain counts
            ids[last, 1], ids[last, 2], ids[last, 3] = second, number, number
            return count
        if ids[last, 1] == second and ids[last, 3] + uint64(1) == number:
            ids[last, 3] = number
            return count
    ids[count, 0], ids[count, 1], ids[count, 2], ids[count, 3] = first, second, number, number
    return count + 1


@entry(f"UniTuple(int64, 4)({BYTES}, int64, int64, int64, int64, boolean, {BYTES}, uint64[:, ::1])")
def hop(data: Any, offset: int, end: int, cut: int, trailer: int, mariadb: bool, do_of: Any, ids: Any) -> Any:
    """Walk over ordinary transactions in data[offset:end] until one of them ends at or after `cut`.

    `trailer`: bytes of an event's checksum. `mariadb`: MariaDB wrote the log. `do_of`: `events.DO`. Fills `ids`,
    uint64[n, 4]: MySQL's as (uuid, uuid, first, last) of a run of numbers, MariaDB's as (domain, server, sequence,
    sequence).
    Return (end of the last transaction, number of transactions, newest timestamp of their ends, number of ids).
    """
    source, do_at = int64(data.ctypes.data), int64(do_of.ctypes.data)
    stop, smallest = source + end, _HEADER + trailer
    boundary = position = source + offset
    transactions, newest, count = 0, uint64(0), 0
    inside = begun = identified = False
    first = second = number = uint64(0)
    while position + _HEADER <= stop and (inside or (boundary < source + cut and count < len(ids))):
        code, size = int64(load1(position + 4)), int64(load4(position + 9))
        event_end = position + size
        if size < smallest or event_end > stop:
            break
        body = position + _HEADER
        do = int64(load1(do_at + code))
        if begun:
            if code == _XID:
                boundary = event_end
                transactions += 1
                newest = max(newest, load4(position))
                if identified:
                    count = _add_id(ids, count, first, second, number, mariadb)
                inside = begun = False
            elif do != _MAP and do != _ROWS and do != _PASS:
                break
        elif inside:
            if code != _QUERY or not _is_begin(body, event_end - trailer):
                break
            begun = True
        elif not mariadb and (code == _GTID or code == _ANONYMOUS):
            if size < smallest + _MYSQL_SIZE:
                break
            identified = code == _GTID
            first, second, number = load8(body + 1), load8(body + 9), load8(body + 17)
            if identified and (number == uint64(0) or number >= _NUMBERS_END):
                break
            inside = True
        elif mariadb and code == _MARIADB_GTID:
            if size < smallest + _MARIADB_SIZE or load1(body + 12) & _UNUSUAL:
                break
            first, second, number = load4(body + 8), load4(position + 5), load8(body)
            identified = inside = begun = True
        else:
            break
        position = event_end
    return boundary - source, transactions, int64(newest), count
