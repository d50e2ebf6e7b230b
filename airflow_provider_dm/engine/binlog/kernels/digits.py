"""Integers as decimal digits. Functions that write write to the address `out`, and return the address after them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, entry
from airflow_provider_dm.engine.binlog.kernels.machine import bit_length, load1, store1, store2

_ZERO, _MINUS = uint64(ord("0")), uint64(ord("-"))
_POWERS: Final = np.array([10**exponent for exponent in range(20)], np.uint64)
_LOG10_OF_2: Final = 1233  # * 2**-12
_PAIRS: Final = np.array([ord(str(n // 10)) | ord(str(n % 10)) << 8 for n in range(100)], np.uint64)


@njit(forceinline=True)
def count_digits(value: Any) -> int:
    """Return the number of digits of an unsigned number; 1 for zero."""
    estimate = (bit_length(value | uint64(1)) * _LOG10_OF_2) >> 12  # at most 1 too low
    return estimate + (1 if value >= _POWERS[estimate] or estimate == 0 else 0)


@njit
def write_padded(value: Any, digits: int, out: int) -> int:
    """Write the last `digits` digits of a number, with leading zeros."""
    end = out + digits
    place = end - 4
    while place >= out:
        rest = value // uint64(10000)
        four = value - rest * uint64(10000)
        upper = four // uint64(100)
        store2(place, _PAIRS[upper])
        store2(place + 2, _PAIRS[four - upper * uint64(100)])
        value = rest
        place -= 4
    place += 2
    if place >= out:
        rest = value // uint64(100)
        store2(place, _PAIRS[value - rest * uint64(100)])
        value = rest
        place -= 2
    if place + 1 == out:
        store1(out, _ZERO + value % uint64(10))
    return end


@njit(forceinline=True)
def write_two(value: int, out: int) -> int:
    """Write a number below 100, as two digits."""
    store2(out, _PAIRS[value])
    return out + 2


@njit
def write_unsigned(value: Any, out: int) -> int:
    """Write an unsigned number."""
    return write_padded(value, count_digits(value), out)


@njit(forceinline=True)
def write_signed(bits: Any, size: int, out: int) -> int:
    """Write a signed number of `size` bytes. `bits`: its two's complement, as an unsigned number."""
    top = uint64(1) << uint64(8 * size - 1)
    if bits & top:
        store1(out, _MINUS)
        out += 1
        bits = (top << uint64(1)) - bits  # with 64 bits the shift returns 0
    return write_unsigned(bits, out)


@entry(f"int64[::1]({BYTES}, {LIST}, int64, int64)")
def read_column(text: Any, ends: Any, width: int, column: int) -> Any:
    """Return the integers in a column of cells side by side (`images.Cells`: text, ends, `width` columns).

    Those above 2**63 are in two's complement; NULL is 0.
    """
    source, numbers = int64(text.ctypes.data), np.zeros(len(ends) // width, np.int64)
    for row in range(len(numbers)):
        cell = row * width + column
        end, at = ends[cell], int64(0)
        if cell:
            at = ends[cell - 1] ^ (ends[cell - 1] >> 63)
        is_negative = at < end and load1(source + at) == _MINUS
        value = uint64(0)
        for place in range(at + is_negative, end):
            value = value * uint64(10) + load1(source + place) - _ZERO
        numbers[row] = int64(uint64(0) - value if is_negative else value)
    return numbers
