"""Dates and times: canonical text from the bits in a row image.

The text is what the server prints in a session with time zone UTC, with all `fsp` digits of the column. Python's
`datetime` supports neither `0000-00-00`, nor `2020-00-10`, nor `-838:59:59`, so it is only used for days since 1970.
The packed formats are those of MySQL 5.6 and later (`my_time.cc`); the older formats without fractions are supported
too, for tables that were never rebuilt. A value outside the server's range raises MalformedValue.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.schema.errors import MalformedValue

MAX_FSP: Final = 6
_DATETIME_OFFSET: Final = 0x8000000000
_TIME_OFFSET: Final = 0x800000
_TWO: Final = tuple(b"%02d" % number for number in range(100))
_FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_MAX_TIME_HOURS: Final = 838
_EPOCH: Final = date(1970, 1, 1).toordinal()


def fraction_size(fsp: int) -> int:
    """Return the size of the fraction of TIME2, DATETIME2 and TIMESTAMP2 in bytes. Raises MalformedValue."""
    if not 0 <= fsp <= MAX_FSP:
        raise MalformedValue(f"a precision of {fsp}")
    return _FRACTION_BYTES[fsp]


def fraction_text(value: int, fsp: int) -> bytes:
    """Return `.ddd` for a stored fraction, which counts 1/100, 1/10000 or 1/1000000 seconds.

    >>> fraction_text(50, 1), fraction_text(1, 6), fraction_text(0, 0)
    (b'.5', b'.000001', b'')
    """
    if not fsp:
        return b""
    digits = 2 * _FRACTION_BYTES[fsp]
    if value >= 10**digits:
        raise MalformedValue(f"a fraction of {value}/{10**digits} seconds")
    return (b".%0*d" % (digits, value))[: fsp + 1]


@lru_cache(maxsize=65536)
def date_text(packed: int) -> bytes:
    """Return a DATE's 24 bits as text: year * 512 + month * 32 + day; zero parts are kept.

    >>> date_text((2020 << 9) | (0 << 5) | 10), date_text(0)
    (b'2020-00-10', b'0000-00-00')
    """
    return _year_month_day(packed >> 9, (packed >> 5) & 15, packed & 31)


def _year_month_day(year: int, month: int, day: int) -> bytes:
    if year > 9999 or month > 12 or day > 31:
        raise MalformedValue(f"the date {year}-{month}-{day}")
    return b"%04d-%02d-%02d" % (year, month, day)


@lru_cache(maxsize=65536)
def _packed_day(packed: int) -> bytes:
    """Return the date part of DATETIME2, 22 bits, as text: (year * 13 + month) * 32 + day."""
    year, month = divmod(packed >> 5, 13)
    return _year_month_day(year, month, packed & 31) + b" "


@lru_cache(maxsize=131072)
def _packed_clock(packed: int) -> bytes:
    """Return the clock part of DATETIME2, 17 bits, as text: hour * 4096 + minute * 64 + second."""
    hour, minute, second = packed >> 12, (packed >> 6) & 63, packed & 63
    if hour > 23 or minute > 59 or second > 59:
        raise MalformedValue(f"the time of day {hour}:{minute}:{second}")
    return b"%b:%b:%b" % (_TWO[hour], _TWO[minute], _TWO[second])


def datetime2_text(packed: int) -> bytes:
    """Return DATETIME2 without its fraction as text, from 40 bits, big-endian, with an offset.

    >>> datetime2_text(0x8000000000), datetime2_text(0x99A5420000 + (12 << 12))
    (b'0000-00-00 00:00:00', b'2020-01-01 12:00:00')
    """
    bits = packed - _DATETIME_OFFSET
    if bits < 0:
        raise MalformedValue(f"the negative date 0x{packed:010x}")
    return _packed_day(bits >> 17) + _packed_clock(bits & 0x1FFFF)


@lru_cache(maxsize=65536)
def _epoch_day(days: int) -> bytes:
    """Return days since 1970-01-01 as a date."""
    return date.fromordinal(_EPOCH + days).isoformat().encode() + b" "


@lru_cache(maxsize=86400)
def _clock(seconds: int) -> bytes:
    return b"%b:%b:%b" % (_TWO[seconds // 3600], _TWO[seconds // 60 % 60], _TWO[seconds % 60])


def timestamp_text(seconds: int, *, zero: bool | None = None) -> bytes:
    """Return seconds since 1970 as UTC text; `zero` (default: seconds == 0) is the value 0000-00-00 00:00:00.

    >>> timestamp_text(0), timestamp_text(1), timestamp_text(2**31 - 1)
    (b'0000-00-00 00:00:00', b'1970-01-01 00:00:01', b'2038-01-19 03:14:07')
    """
    if zero is None:
        zero = seconds == 0
    if zero:
        return b"0000-00-00 00:00:00"
    days, rest = divmod(seconds, 86400)
    return _epoch_day(days) + _clock(rest)


def timestamp2_unpacker(fsp: int) -> Callable[[bytes], bytes]:
    """Return a reader of TIMESTAMP2: four bytes of seconds, big-endian, then the fraction."""
    size = fraction_size(fsp)
    if not size:
        return lambda data: timestamp_text(int.from_bytes(data, "big"))
    shift, mask = 8 * size, (1 << 8 * size) - 1

    def unpack(data: bytes) -> bytes:
        bits = int.from_bytes(data, "big")
        # 1970-01-01 00:00:00.5 is a valid value; the zero date has no fraction.
        return timestamp_text(bits >> shift, zero=bits == 0) + fraction_text(bits & mask, fsp)

    return unpack


def datetime2_unpacker(fsp: int) -> Callable[[bytes], bytes]:
    """Return a reader of DATETIME2: five bytes, big-endian, then the fraction."""
    size = fraction_size(fsp)
    if not size:
        return lambda data: datetime2_text(int.from_bytes(data, "big"))
    shift, mask = 8 * size, (1 << 8 * size) - 1

    def unpack(data: bytes) -> bytes:
        bits = int.from_bytes(data, "big")
        return datetime2_text(bits >> shift) + fraction_text(bits & mask, fsp)

    return unpack


def time2_unpacker(fsp: int) -> Callable[[bytes], bytes]:
    r"""Return a reader of TIME2: three bytes and the fraction are one big-endian number with an offset, negative for
    negative times.

    >>> time2_unpacker(6)(b"\x7f\xff\xff\xff\xff\xff"), time2_unpacker(0)(b"\x80\x10\x83")
    (b'-00:00:00.000001', b'01:02:03')
    """
    size = fraction_size(fsp)
    offset, shift, mask = _TIME_OFFSET << (8 * size), 8 * size, (1 << 8 * size) - 1

    def unpack(data: bytes) -> bytes:
        bits = int.from_bytes(data, "big") - offset
        sign = b""
        if bits < 0:
            sign, bits = b"-", -bits
        clock = bits >> shift
        return sign + time_text(clock >> 12, (clock >> 6) & 63, clock & 63) + fraction_text(bits & mask, fsp)

    return unpack


def time_text(hour: int, minute: int, second: int) -> bytes:
    """Return `HH:MM:SS`, three digits of hours where needed. Raises MalformedValue.

    >>> time_text(838, 59, 59)
    b'838:59:59'
    """
    if hour > _MAX_TIME_HOURS or minute > 59 or second > 59:
        raise MalformedValue(f"the time {hour}:{minute}:{second}")
    return b"%02d:%02d:%02d" % (hour, minute, second)


# The packed 64-bit formats in binary JSON: the bits as above and 24 bits of microseconds

_MICROSECOND_BITS: Final = 24


def packed_datetime_text(packed: int) -> bytes:
    """Return a DATETIME or TIMESTAMP as text, always with six fractional digits.

    >>> packed_datetime_text(((((2020 * 13 + 1) << 5 | 2) << 17 | 3 << 12 | 4 << 6 | 5) << 24) + 678)
    b'2020-01-02 03:04:05.000678'
    """
    if packed < 0:
        raise MalformedValue(f"the negative date {packed}")
    whole, microseconds = packed >> _MICROSECOND_BITS, packed & ((1 << _MICROSECOND_BITS) - 1)
    day = whole >> 17
    if day >> 22:
        raise MalformedValue(f"the date {packed}")
    return _packed_day(day) + _packed_clock(whole & 0x1FFFF) + fraction_text(microseconds, MAX_FSP)


def packed_date_text(packed: int) -> bytes:
    """Return a DATE as text: packed as a DATETIME at midnight."""
    return packed_datetime_text(packed)[:10]


def packed_time_text(packed: int) -> bytes:
    """Return a TIME as text.

    >>> packed_time_text(-((838 << 12 | 59 << 6 | 59) << 24))
    b'-838:59:59.000000'
    """
    sign, packed = (b"-", -packed) if packed < 0 else (b"", packed)
    clock, microseconds = packed >> _MICROSECOND_BITS, packed & ((1 << _MICROSECOND_BITS) - 1)
    return sign + time_text(clock >> 12, (clock >> 6) & 63, clock & 63) + fraction_text(microseconds, MAX_FSP)


# The formats before MySQL 5.6, little-endian and without fraction


def unpack_old_date(data: bytes) -> bytes:
    """Return a DATE or NEWDATE as text, from three bytes."""
    return date_text(int.from_bytes(data, "little"))


def unpack_old_time(data: bytes) -> bytes:
    """Return a TIME as text, from three bytes: signed, HHMMSS as a decimal number."""
    number = int.from_bytes(data, "little", signed=True)
    sign, number = (b"-", -number) if number < 0 else (b"", number)
    return sign + time_text(number // 10000, number // 100 % 100, number % 100)


def unpack_old_datetime(data: bytes) -> bytes:
    """Return a DATETIME as text, from eight bytes: YYYYMMDDHHMMSS as a decimal number."""
    day, clock = divmod(int.from_bytes(data, "little"), 1_000_000)
    if clock // 10000 > 23 or clock // 100 % 100 > 59 or clock % 100 > 59:
        raise MalformedValue(f"the time of day {clock}")
    text = _year_month_day(day // 10000, day // 100 % 100, day % 100)
    return text + b" " + time_text(clock // 10000, clock // 100 % 100, clock % 100)


def unpack_old_timestamp(data: bytes) -> bytes:
    """Return a TIMESTAMP as text, from four bytes of seconds, little-endian."""
    return timestamp_text(int.from_bytes(data, "little"))


def unpack_year(data: bytes) -> bytes:
    r"""Return a YEAR as text, from one byte: years since 1900, or zero for the year 0000.

    >>> unpack_year(b"\x00"), unpack_year(b"\x01"), unpack_year(b"\xff")
    (b'0000', b'1901', b'2155')
    """
    return b"%04d" % (1900 + data[0]) if data[0] else b"0000"


# Canonical -> literal and key form


def quoted_time(value: bytes) -> bytes:
    """Put a temporal value in quotes: digits and punctuation need no escaping."""
    return b"'" + value + b"'"


def time_key(value: bytes) -> bytes:
    """Return the same text for equal times of different precision.

    >>> time_key(b"01:02:03.500"), time_key(b"01:02:03.000"), time_key(b"01:02:00")
    (b'01:02:03.5', b'01:02:03', b'01:02:00')
    """
    return value.rstrip(b"0").rstrip(b".") if b"." in value else value
