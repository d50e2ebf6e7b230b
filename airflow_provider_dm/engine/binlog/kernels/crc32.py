"""CRC-32 as binlogs use it (ISO 3309, reflected polynomial EDB88320).

Long inputs are folded sixteen bytes at a time by carry-less multiplication (Gopal et al., "Fast CRC Computation for
Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009; the constants are x**n mod P for the distances of that
paper), short ones and processors without that instruction take eight table look-ups for eight bytes (Kounavis and
Berry, "slicing-by-8", 2005).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from airflow_provider_dm.engine.binlog.kernels.machine import HAS_CLMUL, carryless_product, load1, load8

_POLYNOMIAL: Final = 0xEDB88320
_BLOCK, _PIECE = 64, 16
_EVERY_BIT = uint64(2**64 - 1)

# x**(512+32), x**(512-32), x**(128+32), x**(128-32) mod P, reflected: over four blocks of 16 bytes, and over one.
_FOUR_LOW, _FOUR_HIGH = uint64(0x154442BD4), uint64(0x1C6E41596)
_ONE_LOW, _ONE_HIGH = uint64(0x1751997D0), uint64(0x0CCAA009E)


def _slices() -> Any:
    """slices[k][b]: the checksum state that byte b leaves when k zero bytes follow."""
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
    """One to seven bytes: as `_after_word`, all look-ups at once instead of one after the other."""
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


@njit(inline="always")
def _folded(low: Any, high: Any, low_factor: Any, high_factor: Any) -> Any:
    """Sixteen bytes moved over the distance of the factors."""
    low_low, low_high = carryless_product(low, low_factor)
    high_low, high_high = carryless_product(high, high_factor)
    return low_low ^ high_low, low_high ^ high_high


@njit(forceinline=True)
def _by_blocks(a: Any, b: Any, start: int, end: int) -> Any:
    """Go on with (a, b), the sixteen bytes before `start`, in blocks; gives (a, b, where the rest begins)."""
    c, d = load8(start), load8(start + 8)
    e, f = load8(start + 16), load8(start + 24)
    g, h = load8(start + 32), load8(start + 40)
    start += _BLOCK - _PIECE
    while start + _BLOCK <= end:
        a, b = _folded(a, b, _FOUR_LOW, _FOUR_HIGH)
        c, d = _folded(c, d, _FOUR_LOW, _FOUR_HIGH)
        e, f = _folded(e, f, _FOUR_LOW, _FOUR_HIGH)
        g, h = _folded(g, h, _FOUR_LOW, _FOUR_HIGH)
        a, b = a ^ load8(start), b ^ load8(start + 8)
        c, d = c ^ load8(start + 16), d ^ load8(start + 24)
        e, f = e ^ load8(start + 32), f ^ load8(start + 40)
        g, h = g ^ load8(start + 48), h ^ load8(start + 56)
        start += _BLOCK
    a, b = _folded(a, b, _ONE_LOW, _ONE_HIGH)
    a, b = _folded(a ^ c, b ^ d, _ONE_LOW, _ONE_HIGH)
    a, b = _folded(a ^ e, b ^ f, _ONE_LOW, _ONE_HIGH)
    return a ^ g, b ^ h, start


@njit(forceinline=True)
def _with_tail(a: Any, b: Any, start: int, count: int) -> Any:
    """(a, b) and then the 1 to 15 bytes from `start` on, as sixteen bytes again.

    The tail pushes as many bytes out at the front, and those are folded. What lies before `start` may be read.
    """
    tail_low, tail_high = load8(start + count - _PIECE), load8(start + count - 8)
    if count < 8:
        bits = uint64(8 * count)
        back = uint64(64) - bits
        out_low, out_high = uint64(0), a << back
        a, b = (a >> bits) | (b << back), (b >> bits) | (tail_high & ~(_EVERY_BIT >> bits))
    elif count == 8:
        out_low, out_high = uint64(0), a
        a, b = b, tail_high
    else:
        bits = uint64(8 * (count - 8))
        back = uint64(64) - bits
        out_low, out_high = a << back, (b << back) | (a >> bits)
        a, b = (b >> bits) | (tail_low & ~(_EVERY_BIT >> bits)), tail_high
    low, high = _folded(out_low, out_high, _ONE_LOW, _ONE_HIGH)
    return a ^ low, b ^ high


@njit(forceinline=True)
def _long(start: int, end: int, state: Any) -> Any:
    """At least sixteen bytes."""
    a, b = load8(start) ^ uint64(state), load8(start + 8)
    start += _PIECE
    if start + _BLOCK - _PIECE <= end:
        a, b, start = _by_blocks(a, b, start, end)
    while start + _PIECE <= end:
        a, b = _folded(a, b, _ONE_LOW, _ONE_HIGH)
        a, b = a ^ load8(start), b ^ load8(start + 8)
        start += _PIECE
    if start < end:
        a, b = _with_tail(a, b, start, end - start)
    # What is left is as if these sixteen bytes were the whole input so far, from a state of zero.
    return _after_word(b ^ uint64(_after_word(a)))


@njit
def _by_table(start: int, end: int) -> Any:
    return ~_short(start, end, uint32(0xFFFFFFFF)) & uint32(0xFFFFFFFF)


@njit
def _by_clmul(start: int, end: int) -> Any:
    state = uint32(0xFFFFFFFF)
    state = _long(start, end, state) if end - start >= _PIECE else _short(start, end, state)
    return ~state & uint32(0xFFFFFFFF)


crc32 = _by_clmul if HAS_CLMUL else _by_table
"""(address, end address) -> the checksum of the bytes between, equal to `zlib.crc32`."""
