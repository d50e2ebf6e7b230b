"""DECIMAL from its stored groups of nine digits to text. Reference: `schema.numbers.decimal_unpacker`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from airflow_provider_dm.engine.binlog.kernels.digits import count_digits, write_padded
from airflow_provider_dm.engine.binlog.kernels.machine import big, load1, store1
from airflow_provider_dm.engine.schema.numbers import BYTES_FOR_DIGITS

_MALFORMED: Final = -1
_DIGITS: Final = 9
_BYTES: Final = np.array(BYTES_FOR_DIGITS, np.int64)
_LIMITS: Final = np.array([10**digits for digits in range(10)], np.uint64)
_ZERO, _POINT, _MINUS = (uint64(ord(char)) for char in "0.-")
_SIGN = uint64(0x80)


@njit(forceinline=True)
def _group(source: int, size: int, first: bool, flip: Any) -> Any:
    """Return one group as a number.

    The sign bit of the first byte is stored inverted; of a negative number all bits are.
    """
    value = big(source, size)
    if first:
        value ^= _SIGN << uint64(8 * (size - 1))
    return value ^ (flip & ((uint64(1) << uint64(8 * size)) - uint64(1)))


@njit
def write_decimal(source: int, precision: int, scale: int, out: int) -> int:
    """Write a DECIMAL: `scale` digits after the point, no leading zeros, and no sign for zero.

    Return -1 for a group with too many digits.
    """
    negative = load1(source) & _SIGN == uint64(0)
    flip = ~uint64(0) if negative else uint64(0)
    begin = out
    if negative:
        store1(out, _MINUS)
        out += 1
    digits_at, first, left, is_zero = out, True, precision - scale, True
    while left:  # the incomplete group comes first
        digits = left % _DIGITS if left % _DIGITS else _DIGITS
        size = _BYTES[digits]
        value = _group(source, size, first, flip)
        if value >= _LIMITS[digits]:
            return _MALFORMED
        if out > digits_at:
            out = write_padded(value, digits, out)
        elif value:
            out = write_padded(value, count_digits(value), out)
        is_zero = is_zero and value == uint64(0)
        source, first, left = source + size, False, left - digits
    if out == digits_at:
        store1(out, _ZERO)
        out += 1
    if scale:
        store1(out, _POINT)
        out += 1
    left = scale
    while left:  # and last
        digits = min(left, _DIGITS)
        size = _BYTES[digits]
        value = _group(source, size, first, flip)
        if value >= _LIMITS[digits]:
            return _MALFORMED
        out = write_padded(value, digits, out)
        is_zero = is_zero and value == uint64(0)
        source, first, left = source + size, False, left - digits
    if negative and is_zero:
        for place in range(begin, out - 1):
            store1(place, load1(place + 1))
        out -= 1
    return out
