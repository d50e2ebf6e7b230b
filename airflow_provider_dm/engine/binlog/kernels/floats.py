"""The shortest decimal text that reads back as the same double, as Python's `repr` writes it.

The digits are found by R. Giulietti's Schubfach ("The Schubfach way to render doubles", 2021): scale the interval that
rounds to the number by a power of ten so that it holds one or two integers, and take the nearest.
The powers of ten are 126-bit numbers, rounded up, made here with Python's own integers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.digits import count_digits, write_padded
from airflow_provider_dm.engine.binlog.kernels.machine import load1, store1, wide_product

_SMALLEST_POWER, _LARGEST_POWER = -292, 324
_FRACTION_BITS: Final = 52
_BIAS: Final = 1075  # of an exponent that counts from the last bit of the fraction
_FIRST_EXPONENT: Final = 16
"""`repr` writes 1e+16 with an exponent, and 0.0001 without one."""
_ZERO, _POINT, _MINUS, _PLUS, _E = (uint64(ord(char)) for char in "0.-+e")


def _powers() -> Any:
    """Return powers[k - smallest] = (high, low): 10**k, scaled into [2**127, 2**128) and rounded up."""
    rows = []
    for power in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        shift = 127 - _floor_log2_of_power(power)
        scaled = 10 ** max(power, 0) << max(shift, 0)
        divisor = 10 ** max(-power, 0) << max(-shift, 0)
        value = -(-scaled // divisor)
        rows.append((value >> 64, value & (2**64 - 1)))
    return np.array(rows, np.uint64)


def _floor_log2_of_power(power: int) -> int:
    return (power * 1741647) >> 19


_POWERS: Final = _powers()


@njit(inline="always")
def _scaled(high: Any, low: Any, factor: Any) -> Any:
    """Return the upper 64 bits of a 128-bit power times `factor`; their last bit is set if anything lies below it."""
    _, carried = wide_product(low, factor)
    middle, upper = wide_product(high, factor)
    total = middle + carried
    if total < middle:
        upper += uint64(1)
    return upper | (uint64(1) if total > uint64(1) else uint64(0))


@njit
def shortest(bits: Any) -> Any:
    """Return (digits, exponent) of a positive, finite double given by its bits.

    digits * 10**exponent is in its interval.
    """
    fraction = bits & uint64((1 << _FRACTION_BITS) - 1)
    raw = int64(bits >> uint64(_FRACTION_BITS))
    significand = fraction
    exponent = int64(1 - _BIAS)
    if raw:
        significand |= uint64(1 << _FRACTION_BITS)
        exponent = raw - _BIAS
        if -_FRACTION_BITS <= exponent <= 0:
            whole = significand >> uint64(-exponent)
            if whole << uint64(-exponent) == significand:
                return whole, int64(0)
    uneven = fraction == uint64(0) and raw > 1  # the next smaller double is only half as far away
    power = (exponent * 1262611 - (524031 if uneven else 0)) >> 22
    shift = uint64(exponent + ((-power * 1741647) >> 19) + 1)
    high, low = _POWERS[-power - _SMALLEST_POWER, 0], _POWERS[-power - _SMALLEST_POWER, 1]
    four = significand << uint64(2)
    lower = _scaled(high, low, (four - uint64(2) + (uint64(1) if uneven else uint64(0))) << shift)
    value = _scaled(high, low, four << shift)
    upper = _scaled(high, low, (four + uint64(2)) << shift)
    if significand & uint64(1):  # the ends of the interval round to an even neighbour
        lower += uint64(1)
        upper -= uint64(1)
    ones = value >> uint64(2)
    if ones >= uint64(10):
        tens = ones // uint64(10)
        below, above = lower <= uint64(40) * tens, uint64(40) * tens + uint64(40) <= upper
        if below != above:
            return tens + (uint64(1) if above else uint64(0)), power + 1
    below, above = lower <= uint64(4) * ones, uint64(4) * ones + uint64(4) <= upper
    if below != above:
        return ones + (uint64(1) if above else uint64(0)), power
    half = uint64(4) * ones + uint64(2)
    up = value > half or (value == half and ones & uint64(1) != uint64(0))
    return ones + (uint64(1) if up else uint64(0)), power


@njit
def write_double(bits: Any, out: int) -> int:
    """Write a double as `repr` does. -1: not finite."""
    if bits >> uint64(63):
        store1(out, _MINUS)
        out += 1
        bits &= uint64((1 << 63) - 1)
    if bits >> uint64(_FRACTION_BITS) == uint64(0x7FF):
        return -1
    if bits == uint64(0):
        digits, exponent = uint64(0), int64(0)
    else:
        digits, exponent = shortest(bits)
        while digits % uint64(10) == uint64(0):
            digits = digits // uint64(10)
            exponent += 1
    count = int64(count_digits(digits))
    point = count + exponent  # digits before the point
    if not -4 < point <= _FIRST_EXPONENT:
        return _scientific(digits, count, point - 1, out)
    return _positional(digits, count, point, out)


@njit
def _positional(digits: Any, count: int, point: int, out: int) -> int:
    if point <= 0:
        store1(out, _ZERO)
        store1(out + 1, _POINT)
        return write_padded(digits, count, write_padded(uint64(0), -point, out + 2))
    if count <= point:
        out = write_padded(uint64(0), point - count, write_padded(digits, count, out))
        store1(out, _POINT)
        store1(out + 1, _ZERO)
        return out + 2
    write_padded(digits, count, out + 1)
    for index in range(point):
        store1(out + index, load1(out + index + 1))
    store1(out + point, _POINT)
    return out + count + 1


@njit
def _scientific(digits: Any, count: int, exponent: int, out: int) -> int:
    write_padded(digits, count, out + 1)
    store1(out, load1(out + 1))
    if count > 1:
        store1(out + 1, _POINT)
        out += count
    out += 1
    store1(out, _E)
    store1(out + 1, _MINUS if exponent < 0 else _PLUS)
    magnitude = uint64(abs(exponent))
    return write_padded(magnitude, 2 if magnitude < uint64(100) else 3, out + 2)
