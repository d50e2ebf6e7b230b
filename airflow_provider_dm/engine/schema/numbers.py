"""Numbers and bits: their canonical bytes, from the text that a server sends and from a row image.

A canonical number is the text of the server's text protocol, without the padding of ZEROFILL. FLOAT and DOUBLE are the
exception, as the server shortens a FLOAT to six digits: they are `repr` of the exact stored value, so that a FLOAT
read by SELECT (as a DOUBLE, see `codec.py`) and a FLOAT decoded from four bytes are the same text. This module
uses neither tables nor events.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Final, NamedTuple

from airflow_provider_dm.engine.schema.errors import MalformedValue

DIGITS_PER_GROUP: Final = 9
BYTES_PER_GROUP: Final = 4
BYTES_FOR_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of an incomplete group of 0 to 9 digits of a DECIMAL (MySQL `dig2bytes`)."""


class DecimalLimits(NamedTuple):
    """The maximum number of digits, and of digits after the point."""

    precision: int
    scale: int


OF_COLUMNS: Final = DecimalLimits(65, 38)  # MariaDB's; in MySQL at most 30 after the point
OF_VALUES: Final = DecimalLimits(81, 72)
"""The limits of the server's internal numbers (nine groups of nine, one before the point), which apply to JSON."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


# Text from the server -> canonical


def integer_from_text(text: bytes) -> bytes:
    """Return an integer without leading zeros (ZEROFILL).

    >>> integer_from_text(b"0000000042"), integer_from_text(b"0000")
    (b'42', b'0')
    """
    return text.lstrip(b"0") or b"0"


def decimal_from_text(text: bytes) -> bytes:
    """Return a decimal without leading zeros (ZEROFILL), keeping one digit before the point.

    >>> decimal_from_text(b"001.20"), decimal_from_text(b"000.50"), decimal_from_text(b"00000")
    (b'1.20', b'0.50', b'0')
    """
    stripped = text.lstrip(b"0")
    return stripped if stripped and not stripped.startswith(b".") else b"0" + stripped


def float_from_text(text: bytes) -> bytes:
    """Return the shortest text of the same double.

    >>> float_from_text(b"1e22"), float_from_text(b"0.10000000149011612"), float_from_text(b"-0")
    (b'1e+22', b'0.10000000149011612', b'-0.0')
    """
    return float_text(float(text))


# Row image -> canonical


def float_text(value: float) -> bytes:
    """Return a double as canonical text. Raises MalformedValue for NaN and infinities, which no column can hold."""
    if not isfinite(value):
        raise MalformedValue(f"{value} is not a number that a column can hold")
    return repr(value).encode("ascii")


def unpack_float(data: bytes) -> bytes:
    """Return a FLOAT, four bytes, little-endian, as canonical text.

    >>> unpack_float(struct.pack("<f", 0.1))
    b'0.10000000149011612'
    """
    return float_text(_FLOAT.unpack(data)[0])


def unpack_double(data: bytes) -> bytes:
    """Return a DOUBLE, eight bytes, little-endian, as canonical text."""
    return float_text(_DOUBLE.unpack(data)[0])


def double_from_bytes(data: bytes) -> float:
    """Return the double of eight bytes, little-endian."""
    value: float = _DOUBLE.unpack(data)[0]
    return value


_SMALLEST_PLAIN: Final = -14
_LARGEST_PLAIN: Final = 15
"""Digits before the point (negative: zeros after it) for which the server writes no exponent: DBL_DIG."""


def short_double_text(value: float) -> bytes:
    """Return a double as the server prints it in JSON: with the fewest digits that identify it (MySQL `my_gcvt`, and
    `.0`).

    Raises MalformedValue for NaN and infinities.

    >>> short_double_text(1e15), short_double_text(1.5e-15), short_double_text(100.0), short_double_text(-0.0)
    (b'1e15', b'0.0000000000000015', b'100.0', b'-0.0')
    >>> short_double_text(1234567890123456.8), short_double_text(5e-324)
    (b'1234567890123456.8', b'5e-324')
    """
    if not isfinite(value):
        raise MalformedValue(f"{value} is not a number that JSON can hold")
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0".encode()
    places = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if places < _SMALLEST_PLAIN or places > max(_LARGEST_PLAIN, len(digits) - 1):
        point = "." if len(digits) > 1 else ""
        text = f"{digits[0]}{point}{digits[1:]}e{places - 1}"
    elif places <= 0:
        text = f"0.{'0' * -places}{digits}"
    elif places < len(digits):
        text = f"{digits[:places]}.{digits[places:]}"
    else:
        text = f"{digits}{'0' * (places - len(digits))}.0"
    return (sign + text).encode()


def decimal_size(precision: int, scale: int, most: DecimalLimits = OF_COLUMNS) -> int:
    """Return the size of a NEWDECIMAL in a row image. Raises MalformedValue for an impossible precision or scale.

    `most`: a column has fewer digits than a computed value.

    >>> decimal_size(65, 30), decimal_size(3, 1)
    (30, 2)
    """
    if not (0 < precision <= most.precision and 0 <= scale <= min(precision, most.scale)):
        raise MalformedValue(f"DECIMAL({precision},{scale})")
    return _digits_size(precision - scale) + _digits_size(scale)


def _digits_size(digits: int) -> int:
    groups, rest = divmod(digits, DIGITS_PER_GROUP)
    return groups * BYTES_PER_GROUP + BYTES_FOR_DIGITS[rest]


@lru_cache(maxsize=1024)
def decimal_unpacker(precision: int, scale: int, most: DecimalLimits = OF_COLUMNS) -> Callable[[bytes], bytes]:
    r"""Return a reader of one NEWDECIMAL: big-endian groups of nine digits, sign bit flipped (MySQL `bin2decimal`).

    >>> decimal_unpacker(3, 1)(b"\x8c\x03"), decimal_unpacker(3, 1)(b"\x73\xfc")
    (b'12.3', b'-12.3')
    """
    size = decimal_size(precision, scale, most)
    whole = _groups(precision - scale, leading=True)
    fraction = _groups(scale, leading=False)
    sign_bit, all_ones = 1 << (8 * size - 1), (1 << (8 * size)) - 1
    shifts = _shifts(size, whole + fraction)
    limit = 10**precision
    power = 10**scale

    def unpack(data: bytes) -> bytes:
        bits = int.from_bytes(data, "big")
        negative = not bits & sign_bit
        bits ^= sign_bit
        if negative:
            bits ^= all_ones
        number = 0
        for shift, mask, modulus in shifts:
            group = (bits >> shift) & mask
            if group >= modulus:
                raise MalformedValue(f"DECIMAL({precision},{scale}) with the bytes {data.hex()}")
            number = number * modulus + group
        if number >= limit:
            raise MalformedValue(f"DECIMAL({precision},{scale}) with the bytes {data.hex()}")
        sign = b"-" if negative and number else b""
        if not scale:
            return b"%b%d" % (sign, number)
        integer, decimals = divmod(number, power)
        return b"%b%d.%0*d" % (sign, integer, scale, decimals)

    return unpack


def _groups(digits: int, *, leading: bool) -> list[tuple[int, int]]:
    """Return (bytes, digits) of each group in the order stored; the incomplete one comes first before the point."""
    groups, rest = divmod(digits, DIGITS_PER_GROUP)
    full = [(BYTES_PER_GROUP, DIGITS_PER_GROUP)] * groups
    partial = [(BYTES_FOR_DIGITS[rest], rest)] if rest else []
    return partial + full if leading else full + partial


def _shifts(size: int, groups: list[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return (right shift, mask, 10**digits) of each group inside the whole value read as one big-endian integer."""
    shifts = []
    rest = size
    for length, digits in groups:
        rest -= length
        shifts.append((8 * rest, (1 << (8 * length)) - 1, 10**digits))
    return tuple(shifts)


# Canonical -> literal and key form


def float_literal(value: bytes) -> bytes:
    """Write a number with an exponent: without it the server reads a DECIMAL, which has neither -0.0 nor all digits.

    >>> float_literal(b"0.1"), float_literal(b"1e+22")
    (b'0.1e0', b'1e+22')
    """
    return value if b"e" in value else value + b"e0"


def decimal_key(value: bytes) -> bytes:
    """Return the same text for equal numbers of different scale.

    >>> decimal_key(b"1.50"), decimal_key(b"1.5"), decimal_key(b"10"), decimal_key(b"-0.00")
    (b'1.5', b'1.5', b'10', b'0')
    """
    if b"." not in value:
        return value
    short = value.rstrip(b"0").rstrip(b".")
    return b"0" if short == b"-0" else short


def bits_literal(value: bytes) -> bytes:
    r"""Write a BIT as a number: MariaDB compares a BIT with x'…' as text, and warns that the text is not a number.

    >>> bits_literal(b"\x01\xff")
    b'511'
    """
    return b"%d" % int.from_bytes(value, "big")


def bits_key(value: bytes) -> bytes:
    """Drop leading zero bytes: BIT columns of different width hold the same number."""
    return value.lstrip(b"\0")
