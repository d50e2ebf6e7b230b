"""Strings as SQL literals, under the pinned session. The plain twin is `mysql.literals`.

`source` and `out` are addresses; each function gives the place behind what it wrote.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from airflow_provider_dm.engine.binlog.kernels.lanes import LANE, lane_of, load_lane, store_lane, which_are
from airflow_provider_dm.engine.binlog.kernels.machine import load1, load8, store1, store2, store8

_QUOTE, _BACKSLASH, _X = (uint64(ord(char)) for char in "'\\x")
_HEX: Final = np.array([int.from_bytes(b"%02x" % byte, "little") for byte in range(256)], np.uint64)
_TOPS = uint64(0x8080808080808080)


@njit(forceinline=True)
def _special(lane: Any) -> Any:
    """Tell which bytes of a lane need a backslash: a bit each."""
    return which_are(lane, _QUOTE) | which_are(lane, _BACKSLASH)


@njit(forceinline=True)
def write_escaped(source: int, size: int, out: int) -> int:
    """Write a string with a backslash before each quote and backslash."""
    end, begin, place = source + size, source, out
    found = uint64(0)
    if size >= LANE:
        while source + LANE < end:
            lane = load_lane(source)
            found |= _special(lane)
            store_lane(place, lane)
            source += LANE
            place += LANE
        # The last sixteen, some of them once more: no loop over single bytes, whose number nobody can foresee.
        lane = load_lane(end - LANE)
        found |= _special(lane)
        store_lane(out + size - LANE, lane)
    elif size >= 8:
        first, last = load8(source), load8(end - 8)
        found = _special(lane_of(first, last))
        store8(place, first)
        store8(place + size - 8, last)
    else:
        while source < end:
            byte = load1(source)
            if byte == _QUOTE or byte == _BACKSLASH:
                found = uint64(1)
            store1(place, byte)
            source += 1
            place += 1
    return out + size if found == uint64(0) else _escaped_slowly(begin, end, out)


@njit
def _escaped_slowly(source: int, end: int, out: int) -> int:
    while source < end:
        byte = load1(source)
        if byte == _QUOTE or byte == _BACKSLASH:
            store1(out, _BACKSLASH)
            out += 1
        store1(out, byte)
        source += 1
        out += 1
    return out


@njit(forceinline=True)
def write_text_literal(source: int, size: int, out: int) -> int:
    r"""Write a text literal, such as 'it\'s'."""
    store1(out, _QUOTE)
    out = write_escaped(source, size, out + 1)
    store1(out, _QUOTE)
    return out + 1


@njit
def write_hexadecimal(source: int, size: int, out: int) -> int:
    """Write a hexadecimal literal, such as x'00ff'."""
    store1(out, _X)
    store1(out + 1, _QUOTE)
    out += 2
    for place in range(source, source + size):
        store2(out, _HEX[load1(place)])
        out += 2
    store1(out, _QUOTE)
    return out + 1


@njit
def is_ascii(source: int, size: int) -> bool:
    """Tell whether no byte has its top bit set."""
    end, found = source + size, uint64(0)
    while source + 8 <= end:
        found |= load8(source)
        source += 8
    while source < end:
        found |= load1(source)
        source += 1
    return found & _TOPS == uint64(0)
