"""Dates and times from their stored bits to the server's text. -1: bits that no server writes.

Reference: `schema.temporal`, with the sources of the formats. `source` and `out` are addresses; each function
returns the address after its output.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.digits import write_padded, write_two
from airflow_provider_dm.engine.binlog.kernels.machine import big, little, store1

_COLON, _DASH, _SPACE, _POINT = (uint64(ord(char)) for char in ":- .")
_MALFORMED: Final = -1
_MOST_HOURS: Final = 838
_LAST_HOUR: Final = 23
_DATETIME_OFFSET, _TIME_OFFSET = 0x8000000000, 0x800000
_SECONDS_OF_A_DAY: Final = 86400
_FRACTIONS: Final = np.array([1, 100, 100, 10**4, 10**4, 10**6, 10**6], np.uint64)
"""The number of units of the stored fraction in a second, by precision."""


@njit
def _write_day(year: int, month: int, day: int, out: int) -> int:
    if year > 9999 or month > 12 or day > 31:
        return _MALFORMED
    write_two(year // 100, out)
    write_two(year % 100, out + 2)
    store1(out + 4, _DASH)
    write_two(month, out + 5)
    store1(out + 7, _DASH)
    return write_two(day, out + 8)


@njit
def _write_clock(hour: int, minute: int, second: int, most_hours: int, out: int) -> int:
    if hour > most_hours or minute > 59 or second > 59:
        return _MALFORMED
    out = write_two(hour, out) if hour < 100 else write_padded(uint64(hour), 3, out)
    store1(out, _COLON)
    write_two(minute, out + 1)
    store1(out + 3, _COLON)
    return write_two(second, out + 4)


@njit
def _write_fraction(value: Any, precision: int, out: int) -> int:
    """Write a fraction of a second.

    `value`: in hundredths, ten-thousandths or millionths, the first of these with at least `precision` digits.
    """
    if precision == 0:
        return out
    if value >= _FRACTIONS[precision]:
        return _MALFORMED
    store1(out, _POINT)
    write_padded(value, (precision + 1) // 2 * 2, out + 1)
    return out + 1 + precision


@njit
def write_year(value: int, out: int) -> int:
    return write_padded(uint64(1900 + value if value else 0), 4, out)


@njit
def write_date(source: int, out: int) -> int:
    packed = int64(little(source, 3))
    return _write_day(packed >> 9, (packed >> 5) & 15, packed & 31, out)


@njit
def write_time2(source: int, size: int, precision: int, out: int) -> int:
    shift = 8 * (size - 3)
    bits = int64(big(source, size)) - (int64(_TIME_OFFSET) << shift)
    if bits < 0:
        store1(out, _DASH)
        out += 1
        bits = -bits
    clock = bits >> shift
    out = _write_clock(clock >> 12, (clock >> 6) & 63, clock & 63, _MOST_HOURS, out)
    if out < 0:
        return out
    return _write_fraction(uint64(bits & ((1 << shift) - 1)), precision, out)


@njit
def write_datetime2(source: int, size: int, precision: int, out: int) -> int:
    bits = int64(big(source, 5)) - int64(_DATETIME_OFFSET)
    if bits < 0:
        return _MALFORMED
    months, day, clock = bits >> 22, (bits >> 17) & 31, bits & 0x1FFFF
    out = _write_day(months // 13, months % 13, day, out)
    if out < 0:
        return out
    store1(out, _SPACE)
    out = _write_clock(clock >> 12, (clock >> 6) & 63, clock & 63, _LAST_HOUR, out + 1)
    if out < 0:
        return out
    return _write_fraction(big(source + 5, size - 5), precision, out)


@njit
def _write_zero(out: int) -> int:
    out = _write_day(0, 0, 0, out)
    store1(out, _SPACE)
    return _write_clock(0, 0, 0, _LAST_HOUR, out + 1)


@njit
def _write_moment(seconds: int, out: int) -> int:
    """Write seconds since 1970 as UTC (H. Hinnant, "civil_from_days")."""
    shifted = seconds // _SECONDS_OF_A_DAY + 719468
    era, day_of_era = shifted // 146097, shifted % 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_index + 2) // 5 + 1
    month = month_index + 3 if month_index < 10 else month_index - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    out = _write_day(year, month, day, out)
    store1(out, _SPACE)
    rest = seconds % _SECONDS_OF_A_DAY
    return _write_clock(rest // 3600, rest // 60 % 60, rest % 60, _LAST_HOUR, out + 1)


@njit
def write_timestamp2(source: int, size: int, precision: int, out: int) -> int:
    seconds, fraction = int64(big(source, 4)), big(source + 4, size - 4)
    # 1970-01-01 00:00:00.5 is a value of its own; the zero date has no fraction.
    zero = seconds == 0 and fraction == uint64(0)
    out = _write_zero(out) if zero else _write_moment(seconds, out)
    return _write_fraction(fraction, precision, out)


@njit
def write_old_time(source: int, out: int) -> int:
    number = int64(little(source, 3))
    if number >= 0x800000:
        store1(out, _DASH)
        out += 1
        number = 0x1000000 - number
    return _write_clock(number // 10000, number // 100 % 100, number % 100, _MOST_HOURS, out)


@njit
def write_old_datetime(source: int, out: int) -> int:
    number = little(source, 8)
    day, clock = int64(number // uint64(1_000_000)), int64(number % uint64(1_000_000))
    out = _write_day(day // 10000, day // 100 % 100, day % 100, out)
    if out < 0:
        return out
    store1(out, _SPACE)
    return _write_clock(clock // 10000, clock // 100 % 100, clock % 100, _LAST_HOUR, out + 1)


@njit
def write_old_timestamp(source: int, out: int) -> int:
    seconds = int64(little(source, 4))
    return _write_moment(seconds, out) if seconds else _write_zero(out)
