"""Packets of a dump stream to the bytes of a binlog file. Reference: `relay.packets.ReceiveBuffer.take_run`.

One call processes complete plain events, each in its own packet, verifies their checksums, and writes them one after
the other. It stops before any other packet, which the reference handles.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.header import ARTIFICIAL_FLAG, HEADER_SIZE
from airflow_provider_dm.engine.binlog.kernels.build import BYTES, entry
from airflow_provider_dm.engine.binlog.kernels.crc32 import crc32
from airflow_provider_dm.engine.binlog.kernels.lanes import LANE, load_lane, store_lane
from airflow_provider_dm.engine.binlog.kernels.machine import load1, load2, load4, load8

PLAIN, MARKED, SPECIAL = 0, 1, 2
"""The treatment of an event: bytes; bytes whose location is reported; not supported here."""

_PREFIX: Final = 5  # bytes of a packet before the event: length, sequence number, status
_LENGTH, _STATUS = uint64(0xFFFFFF), uint64(32)
_ARTIFICIAL = uint64(ARTIFICIAL_FLAG)
_LOW_BITS = uint64(0xFFFFFFFF)
_CHECKSUM: Final = 4
_HEADER: Final = HEADER_SIZE


@njit(forceinline=True)
def _copied(source: int, size: int, out: int) -> int:
    """Copy at least sixteen bytes, in blocks of which the last two may overlap; return the address after them."""
    end, behind = source + size, out + size
    while source + LANE < end:
        store_lane(out, load_lane(source))
        source += LANE
        out += LANE
    store_lane(behind - LANE, load_lane(end - LANE))
    return behind


@entry(f"UniTuple(int64, 3)(uint8[::1], int64, int64, int64, {BYTES}, boolean, uint8[::1], int64[::1])")
def take(data: Any, position: int, end: int, cursor: int, actions: Any, checksums: bool, out: Any, marks: Any) -> Any:
    """Take events from data[position:end]; the first one is due at upstream position `cursor`.

    `actions[type]`: PLAIN, MARKED or SPECIAL. `out`: at least end - position bytes. `marks`: where the MARKED events
    begin in `out`.
    Return (position in `data` where it stopped, bytes in `out`, number of marks).
    """
    source, begin, actions_at = int64(data.ctypes.data), int64(out.ctypes.data), int64(actions.ctypes.data)
    at, marked = begin, 0
    while position + _PREFIX + _HEADER <= end:
        packet = source + position
        event = packet + _PREFIX
        size = int64(load4(event + 9))
        head = load8(packet)
        length = head & _LENGTH
        if int64(length) != size + 1 or length == _LENGTH or size < _HEADER + _CHECKSUM:
            break
        if (head >> _STATUS) & uint64(0xFF):
            break
        if position + _PREFIX + size > end or load2(event + 17) & _ARTIFICIAL:
            break
        action = int64(load1(actions_at + int64(load1(event + 4))))
        if action == SPECIAL or (action == MARKED and marked == len(marks)):
            break
        low = load4(event + 13)
        if low and low != uint64(cursor + size) & _LOW_BITS:
            break
        last = event + size - _CHECKSUM
        if checksums and uint64(crc32(event, last)) != load4(last):
            break
        if action == MARKED:
            marks[marked] = at - begin
            marked += 1
        at = _copied(event, size, at)
        cursor += size
        position += _PREFIX + size
    return position, at - begin, marked
