"""CRC-32 as binlogs use it (ISO 3309, reflected polynomial EDB88320).

Long inputs are folded sixteen bytes at a time by carry-less multiplication (Gopal et al., "Fast CRC Computation for
Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009; the constants are x**n mod P for the distances of that
paper), short inputs, and processors without that instruction, need eight table look-ups for eight bytes (Kounavis and
Berry, "slicing-by-8", 2005).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from airflow_provider_dm.engine.binlog.kernels.lanes import (
    HAS_CLMUL,
    LANE,
    both,
    crossed_product,
    difference,
    half_of,
    lane_of,
    load_lane,
    lower_product,
    moved_down,
    moved_up,
    upper_product,
)
from airflow_provider_dm.engine.binlog.kernels.machine import load1, load8

_BLOCK: Final = 4 * LANE
_POLYNOMIAL: Final = 0xEDB88320
_LOW_BITS = uint64(0xFFFFFFFF)

# x**(512+32), x**(512-32), x**(128+32), x**(128-32) mod P, reflected: over four blocks of 16 bytes, and over one.
_FOUR_LOW, _FOUR_HIGH = uint64(0x154442BD4), uint64(0x1C6E41596)
_ONE_LOW, _ONE_HIGH = uint64(0x1751997D0), uint64(0x0CCAA009E)
# x**64 mod P, reflected; P itself, and x**64 / P, for Barrett's reduction.
_HALF, _MODULUS, _QUOTIENT = uint64(0x163CD6124), uint64(0x1DB710641), uint64(0x1F7011641)


def _slices() -> Any:
    """Return slices[k][b]: the checksum state that byte b leaves when k zero bytes follow."""
    slices = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
        slices[0, byte] = state
    for distance in range(1, 8):
        for byte in range(256):
            state = int(slices[distance - 1, byte])
            slices[distance, byte] = (state >> 8) ^ int(slices[0, state & 0xFF])
    return slices


_SLICES: Final = _slices()


@njit(inline="always")
def _after_word(word: Any) -> Any:
    low, shift = uint64(0xFF), uint64(8)
    state = _SLICES[7, word & low]
    for distance in range(6, -1, -1):
        word >>= shift
        state ^= _SLICES[distance, word & low]
    return state


@njit(inline="always")
def _after_bytes(start: int, count: int, state: Any) -> Any:
    """Return the state after one to seven bytes.

    As in `_after_word`, all look-ups are done at once instead of one after the other.
    """
    word = uint64(state)
    for index in range(count):
        word ^= load1(start + index) << uint64(8 * index)
    state = uint32(word >> uint64(8 * count))
    for index in range(count):
        state ^= _SLICES[count - 1 - index, (word >> uint64(8 * index)) & uint64(0xFF)]
    return state


@njit(forceinline=True)
def _short(start: int, end: int, state: Any) -> Any:
    while start + 8 <= end:
        state = _after_word(load8(start) ^ uint64(state))
        start += 8
    return state if start == end else _after_bytes(start, end - start, state)


@njit(forceinline=True)
def _folded(lane: Any, low_factor: Any, high_factor: Any) -> Any:
    """Move sixteen bytes over the distance of the factors."""
    factors = lane_of(low_factor, high_factor)
    return difference(lower_product(lane, factors), upper_product(lane, factors))


@njit(forceinline=True)
def _by_lanes(first: Any, start: int, end: int) -> Any:
    """Continue with the sixteen bytes before `start`, in four lanes; return (lane, the beginning of the rest)."""
    second, third, fourth = load_lane(start), load_lane(start + LANE), load_lane(start + 2 * LANE)
    start += _BLOCK - LANE
    while start + _BLOCK <= end:
        first = difference(_folded(first, _FOUR_LOW, _FOUR_HIGH), load_lane(start))
        second = difference(_folded(second, _FOUR_LOW, _FOUR_HIGH), load_lane(start + LANE))
        third = difference(_folded(third, _FOUR_LOW, _FOUR_HIGH), load_lane(start + 2 * LANE))
        fourth = difference(_folded(fourth, _FOUR_LOW, _FOUR_HIGH), load_lane(start + 3 * LANE))
        start += _BLOCK
    second = difference(_folded(first, _ONE_LOW, _ONE_HIGH), second)
    third = difference(_folded(second, _ONE_LOW, _ONE_HIGH), third)
    return difference(_folded(third, _ONE_LOW, _ONE_HIGH), fourth), start


@njit(forceinline=True)
def _reduced(lane: Any) -> Any:
    """Return the state that sixteen bytes leave: reduced to 64 bits, and to 32 by Barrett's method."""
    lower_halves = lane_of(_LOW_BITS, _LOW_BITS)
    lane = difference(moved_down(lane, 8), crossed_product(lane, lane_of(_ONE_LOW, _ONE_HIGH)))
    lane = difference(moved_down(lane, 4), lower_product(both(lane, lower_halves), lane_of(_HALF, _HALF)))
    barrett = lane_of(_MODULUS, _QUOTIENT)
    quotient = both(crossed_product(both(lane, lower_halves), barrett), lower_halves)
    return uint32(half_of(difference(lane, lower_product(quotient, barrett)), 0) >> uint64(32))


@njit(forceinline=True)
def _long(start: int, end: int) -> Any:
    """Return the state after at least sixteen bytes.

    Zeros before a message change nothing while the state is zero. So the first lane takes the 1 to 16 bytes that
    exceed whole lanes, after zeros. The initial state is added to the first four bytes.
    """
    count = ((end - start - 1) & (LANE - 1)) + 1
    lane = moved_up(difference(load_lane(start), lane_of(_LOW_BITS, uint64(0))), LANE - count)
    start += count
    if start < end:
        state = _LOW_BITS >> uint64(min(8 * count, 63))  # the part that does not fit into the first lane
        following = difference(load_lane(start), lane_of(state, uint64(0)))
        lane = difference(_folded(lane, _ONE_LOW, _ONE_HIGH), following)
        start += LANE
    if start + _BLOCK - LANE <= end:
        lane, start = _by_lanes(lane, start, end)
    while start < end:
        lane = difference(_folded(lane, _ONE_LOW, _ONE_HIGH), load_lane(start))
        start += LANE
    return _reduced(lane)


@njit
def _by_table(start: int, end: int) -> Any:
    return ~_short(start, end, uint32(0xFFFFFFFF)) & uint32(0xFFFFFFFF)


@njit
def _by_clmul(start: int, end: int) -> Any:
    state = _long(start, end) if end - start >= LANE else _short(start, end, uint32(0xFFFFFFFF))
    return ~state & uint32(0xFFFFFFFF)


crc32 = _by_clmul if HAS_CLMUL else _by_table
"""(address, end address) -> the checksum of the bytes between, equal to `zlib.crc32`."""
