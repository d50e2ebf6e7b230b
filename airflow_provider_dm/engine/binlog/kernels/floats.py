"""The shortest decimal text that reads back as the same double, as Python's `repr` writes it.

The digits are found by R. Giulietti's Schubfach ("The Schubfach way to render doubles", 2021): scale the interval that
rounds to the number by a power of ten so that it holds one or two integers, and take the nearest.
The powers of ten are 126-bit numbers, rounded up, made here with Python's own integers.

A number in text is read back by W. Clinger's fast path ("How to read floating point numbers accurately", 1990), or by
comparing its digits with the shortest ones of the doubles near it.
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
LONGEST: Final = 24
"""Bytes of the longest text of a double."""
_MOST_DIGITS: Final = 17
"""No double needs more."""
_EXACT_TENS, _LARGEST_TEN = 22, 290
"""Up to the first power of ten, a double is exact; up to the second, `_MOST_DIGITS` digits times or divided by it is a
double with all bits."""
_TENS: Final = np.array([float(f"1e{power}") for power in range(_LARGEST_TEN + 1)])
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


@njit(forceinline=True)
def _without_zeros(digits: Any, exponent: int) -> Any:
    """Return the same number, which is not zero, without zeros at its end."""
    while digits % uint64(10) == uint64(0):
        digits = digits // uint64(10)
        exponent += 1
    return digits, exponent


@njit
def write_double(bits: Any, out: int) -> int:
    """Write a double as `repr` does. -1: not finite."""
    if bits >> uint64(63):
        store1(out, _MINUS)
        out += 1
        bits &= uint64((1 << 63) - 1)
    if bits >> uint64(_FRACTION_BITS) == uint64(0x7FF):
        return -1
    digits, exponent = uint64(0), int64(0)
    if bits != uint64(0):
        digits, exponent = _without_zeros(*shortest(bits))
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


@njit
def rewrite_double(at: int, size: int, out: int) -> int:
    """Write the double of a server's text as `repr` does: digits, with a point or not, and with an exponent or not.

    -1: a text with more digits than a double needs, or of another form.
    """
    end, digits, exponent, found = at + size, uint64(0), int64(0), False
    negative = at < end and load1(at) == _MINUS
    at += 1 if negative else 0
    point = False
    while at < end:
        char = load1(at)
        if uint64(char - _ZERO) < uint64(10):
            digits = digits * uint64(10) + (char - _ZERO)
            exponent -= 1 if point else 0
            found = True
            if digits >= uint64(10**_MOST_DIGITS):
                return -1
        elif char == _POINT and not point:
            point = True
        else:
            break
        at += 1
    if not found:
        return -1
    if at < end:
        power = _exponent(at, end)
        if power == _NO_EXPONENT:
            return -1
        exponent += power
    sign = uint64(1 if negative else 0) << uint64(63)
    if digits == uint64(0):
        return write_double(sign, out)
    digits, exponent = _without_zeros(digits, exponent)
    if abs(exponent) > _LARGEST_TEN:
        return -1
    near = np.float64(digits) * _TENS[exponent] if exponent >= 0 else np.float64(digits) / _TENS[-exponent]
    bits = np.float64(near).view(np.uint64)
    if digits <= uint64(1 << 53) and abs(exponent) <= _EXACT_TENS:
        return write_double(bits | sign, out)
    for candidate in range(int64(bits) - 2, int64(bits) + 3):
        if _without_zeros(*shortest(uint64(candidate))) == (digits, exponent):
            return write_double(uint64(candidate) | sign, out)
    return -1


_NO_EXPONENT: Final = 1 << 20


@njit
def _exponent(at: int, end: int) -> int:
    """Return the exponent of a number: a small one, after the letter and maybe a sign. _NO_EXPONENT: it is none."""
    if load1(at) != _E or end - at > len("e-308"):
        return _NO_EXPONENT
    at += 1
    negative = at < end and load1(at) == _MINUS
    if negative or (at < end and load1(at) == _PLUS):
        at += 1
    power = int64(0)
    if at == end:
        return _NO_EXPONENT
    while at < end:
        digit = load1(at) - _ZERO
        if digit >= uint64(10):
            return _NO_EXPONENT
        power = power * 10 + int64(digit)
        at += 1
    return -power if negative else power
