"""How a value lies in a row image: the oracle's own encoder, from canonical value to the bytes of a cell.

Written from the formats' descriptions and not from the engine's decoder, and in the other direction: a decoder that is
wrong in the same way would have to be wrong twice. `form_of` says how a column's cells lie for what a table map names
(type code, metadata), or that the map contradicts the catalogue. `Form.write` takes canonical text only: "05" is not a
number here.

Two cells may mean the same value; `Form.normal` turns a cell into the one that a server would have written:

- DECIMAL: minus zero is zero.
- TIME, DATETIME, TIMESTAMP of 1, 3 or 5 digits: the fraction is stored with one digit more, which nobody can see.
- BINARY(n): a server drops trailing zeros; a cell that kept them pads to the same.
- JSON and compressed columns: many encodings of one value, so a cell is read and compared with the value (`Form.says`).
"""

from __future__ import annotations

import calendar
import math
import re
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from typing import Final, NoReturn

from airflow_provider_dm.engine.schema.model import Column
from tests.fuzz import json_value

Bytes = Callable[[bytes], bytes]

INTEGERS: Final = {"tinyint": (1, 1), "smallint": (2, 2), "mediumint": (9, 3), "int": (3, 4), "bigint": (8, 8)}
"""data type -> (type code, bytes)"""
LOBS: Final = {
    f"{size}{kind}": length
    for kind in ("text", "blob")
    for size, length in (("tiny", 1), ("", 2), ("medium", 3), ("long", 4))
}
GEOMETRIES: Final = frozenset(
    [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    ]
)
_FRACTION: Final = (0, 1, 1, 2, 2, 3, 3)
_GROUP: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


INVALID_MEMBER: Final = b"\xff"
"""Canonical value of an ENUM's index 0, which an invalid insert leaves: a byte that no member's text is."""


class NotSo(ValueError):
    """A value that this column cannot hold, or text that is not its canonical form."""


def _same(cell: bytes) -> bytes:
    return cell


@dataclass(frozen=True)
class Form:
    """One column's cells: `size` bytes, or `prefix` bytes of a little-endian length and as many bytes."""

    write: Bytes
    """Canonical value -> cell, without its prefix. Raises NotSo."""
    size: int = 0
    prefix: int = 0
    normal: Bytes = _same
    """Cell -> the cell that a server would have written for the same value."""
    says: Callable[[bytes, bytes], bool] | None = None
    """(cell, value) -> whether it is that, where many cells mean one value and none is the normal one."""

    def extent(self, data: bytes, position: int) -> tuple[int, int]:
        """(start, end) of the cell that begins there; the end may lie behind the data."""
        start = position + self.prefix
        return start, start + (int.from_bytes(data[position:start], "little") if self.prefix else self.size)

    def agrees(self, cell: bytes, value: bytes) -> bool:
        """Whether `cell` says `value`."""
        try:
            if self.says is not None:
                return self.says(cell, value)
            return self.normal(cell) == self.write(value)
        except NotSo:
            return False


def form_of(column: Column, code: int, metadata: bytes) -> Form | None:
    """How the cells of `column` lie in rows whose map has this code and metadata; None: the map means another type."""
    if code in (140, 141):
        return _compressed_column(column, code, metadata) if "COMPRESSED" in column.column_type else None
    make = _FORMS.get(column.data_type)
    return None if make is None else make(column, code, metadata)


_FORMS: Final[dict[str, Callable[[Column, int, bytes], Form | None]]] = {}


_Make = Callable[[Column, int, bytes], Form | None]


def _form(*data_types: str) -> Callable[[_Make], _Make]:
    def register(make: _Make) -> _Make:
        for data_type in data_types:
            _FORMS[data_type] = make
        return make

    return register


def _not(value: bytes, what: str) -> NoReturn:
    raise NotSo(f"{value[:80]!r} is not {what}")


def _parts(pattern: re.Pattern[bytes], value: bytes, what: str) -> tuple[bytes, ...]:
    match = pattern.fullmatch(value)
    if match is None:
        _not(value, what)
    return tuple(group or b"" for group in match.groups())


# Numbers

_INTEGER: Final = re.compile(rb"(0|-?[1-9][0-9]*)")
_DECIMAL: Final = re.compile(rb"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")


@_form(*INTEGERS)
def _integer(column: Column, code: int, metadata: bytes) -> Form | None:
    expected, size = INTEGERS[column.data_type]
    signed = not column.unsigned

    def write(value: bytes) -> bytes:
        (digits,) = _parts(_INTEGER, value, "an integer")
        try:
            return int(digits).to_bytes(size, "little", signed=signed)
        except OverflowError:
            _not(value, column.column_type)

    return Form(write, size) if code == expected else None


@_form("decimal")
def _decimal(column: Column, code: int, metadata: bytes) -> Form | None:
    precision, scale = column.numeric_precision or 0, column.numeric_scale or 0
    if code != 246 or tuple(metadata) != (precision, scale):
        return None

    def write(value: bytes) -> bytes:
        sign, whole, fraction = _parts(_DECIMAL, value, column.column_type)
        if len(fraction) != scale or len(whole.lstrip(b"0")) > precision - scale:
            _not(value, column.column_type)
        if sign and not (whole + fraction).strip(b"0"):
            _not(value, "a zero")
        whole = whole.lstrip(b"0").rjust(precision - scale, b"0")
        groups = [*_pieces(whole, len(whole) % 9), *_pieces(fraction, 9)]
        packed = b"".join(int(group).to_bytes(_GROUP[len(group)], "big") for group in groups)
        if sign:
            packed = bytes(byte ^ 0xFF for byte in packed)
        return bytes([packed[0] ^ 0x80]) + packed[1:]

    zero = write(b"0" + (b"." + b"0" * scale if scale else b""))
    minus_zero = bytes(byte ^ 0xFF for byte in zero)

    def normal(cell: bytes) -> bytes:
        return zero if cell == minus_zero else cell

    return Form(write, len(zero), normal=normal)


def _pieces(digits: bytes, first: int) -> list[bytes]:
    """Cut into a first piece and then nine digits each; none is empty."""
    cuts = [0, *range(first, len(digits), 9), len(digits)]
    return [digits[a:b] for a, b in pairwise(cuts) if b > a]


@_form("float", "double")
def _float(column: Column, code: int, metadata: bytes) -> Form | None:
    layout, expected, size = ("<f", 4, 4) if column.data_type == "float" else ("<d", 5, 8)

    def write(value: bytes) -> bytes:
        try:
            number = float(value)
            packed = struct.pack(layout, number)
        except (ValueError, OverflowError):
            _not(value, "a float")
        if not math.isfinite(number) or repr(number).encode() != value or struct.unpack(layout, packed)[0] != number:
            _not(value, column.data_type)
        return packed

    return Form(write, size) if (code, metadata) == (expected, bytes([size])) else None


@_form("bit")
def _bit(column: Column, code: int, metadata: bytes) -> Form | None:
    bits = column.numeric_precision or 0
    size = (bits + 7) // 8
    if code != 16 or tuple(metadata) != (bits % 8, bits // 8):
        return None
    return Form(_exactly(size), size)


def _exactly(size: int) -> Bytes:
    def write(value: bytes) -> bytes:
        if len(value) != size:
            _not(value, f"{size} bytes")
        return value

    return write


# Dates and times

_YEAR: Final = re.compile(rb"([0-9]{4})")
_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")
_TIME: Final = re.compile(rb"(-?)([0-9]{2,3}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")


@_form("year")
def _year(column: Column, code: int, metadata: bytes) -> Form | None:
    def write(value: bytes) -> bytes:
        (year,) = map(int, _parts(_YEAR, value, "a year"))
        if year and not 1901 <= year <= 2155:
            _not(value, "a year")
        return bytes([year - 1900 if year else 0])

    return Form(write, 1) if code == 13 else None


@_form("date")
def _date(column: Column, code: int, metadata: bytes) -> Form | None:
    def write(value: bytes) -> bytes:
        year, month, day = map(int, _parts(_DATE, value, "a date"))
        return _checked(value, month <= 12 and day <= 31, year << 9 | month << 5 | day).to_bytes(3, "little")

    return Form(write, 3) if code in (10, 14) else None


def _checked(value: bytes, fits: bool, number: int) -> int:
    if not fits:
        _not(value, "a time that a column can hold")
    return number


def _fraction_of(value: bytes, digits: bytes, fsp: int) -> tuple[int, int]:
    """(the fraction as it is stored, its bytes)."""
    if len(digits) != fsp:
        _not(value, f"a time of {fsp} digits")
    size = _FRACTION[fsp]
    return int(digits.ljust(2 * size, b"0") or b"0"), size


def _without_hidden_digit(fsp: int, whole: int, *, offset: int = 0) -> Bytes:
    """Odd precisions store one digit that nobody sees. `offset`: of TIME, whose negative numbers lie below it."""
    if fsp % 2 == 0:
        return _same
    shift = 8 * _FRACTION[fsp]

    def normal(cell: bytes) -> bytes:
        number = int.from_bytes(cell, "big") - (offset << shift)
        sign, number = (-1, -number) if number < 0 else (1, number)
        fraction = number & ((1 << shift) - 1)
        number = sign * (number - fraction % 10) + (offset << shift)
        return number.to_bytes(whole + _FRACTION[fsp], "big")

    return normal


@_form("time")
def _time(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def clock(value: bytes) -> tuple[int, int, int, int, bytes]:
        sign, *parts, digits = _parts(_TIME, value, "a time")
        hour, minute, second = map(int, parts)
        if hour > 838 or minute > 59 or second > 59 or len(parts[0]) == 3 > len(str(hour)):
            _not(value, "a time")
        return (-1 if sign else 1), hour, minute, second, digits

    def write(value: bytes) -> bytes:
        sign, hour, minute, second, digits = clock(value)
        fraction, size = _fraction_of(value, digits, fsp)
        number = sign * ((hour << 12 | minute << 6 | second) << 8 * size | fraction)
        return (number + (0x800000 << 8 * size)).to_bytes(3 + size, "big")

    def write_old(value: bytes) -> bytes:
        sign, hour, minute, second, digits = clock(value)
        number = _checked(value, not digits, sign * (hour * 10_000 + minute * 100 + second))
        return number.to_bytes(3, "little", signed=True)

    if (code, metadata) == (19, bytes([fsp])):
        return Form(write, 3 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 3, offset=0x800000))
    return Form(write_old, 3) if code == 11 and not fsp else None


@_form("datetime")
def _datetime(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def parts(value: bytes) -> tuple[list[int], bytes]:
        *numbers, digits = _parts(_DATETIME, value, "a datetime")
        found = [int(number) for number in numbers]
        _, month, day, hour, minute, second = found
        if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
            _not(value, "a datetime")
        return found, digits

    def write(value: bytes) -> bytes:
        (year, month, day, hour, minute, second), digits = parts(value)
        fraction, size = _fraction_of(value, digits, fsp)
        number = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
        return (number + 0x8000000000).to_bytes(5, "big") + fraction.to_bytes(size, "big")

    def write_old(value: bytes) -> bytes:
        numbers, digits = parts(value)
        text = "{:04}{:02}{:02}{:02}{:02}{:02}".format(*numbers)
        return _checked(value, not digits, int(text)).to_bytes(8, "little")

    if (code, metadata) == (18, bytes([fsp])):
        return Form(write, 5 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 5))
    return Form(write_old, 8) if code == 12 and not fsp else None


@_form("timestamp")
def _timestamp(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def seconds(value: bytes) -> tuple[int, bytes]:
        *_, digits = _parts(_DATETIME, value, "a timestamp")
        text = value[:19].decode()
        if text == "0000-00-00 00:00:00":
            return 0, digits
        try:
            number = calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))
        except ValueError:
            _not(value, "a timestamp")
        return _checked(value, 0 <= number < 1 << 32 and (number > 0 or bool(digits)), number), digits

    def write(value: bytes) -> bytes:
        number, digits = seconds(value)
        fraction, size = _fraction_of(value, digits, fsp)
        return number.to_bytes(4, "big") + fraction.to_bytes(size, "big")

    def write_old(value: bytes) -> bytes:
        number, digits = seconds(value)
        return _checked(value, not digits, number).to_bytes(4, "little")

    if (code, metadata) == (17, bytes([fsp])):
        return Form(write, 4 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 4))
    return Form(write_old, 4) if code == 7 and not fsp else None


# Strings

_MEMBERS: Final = re.compile(r"'((?:[^']|'')*)'")


def members_of(column: Column) -> tuple[bytes, ...]:
    """The members of an ENUM or SET. Ours hold no backslash."""
    return tuple(text.replace("''", "'").encode() for text in _MEMBERS.findall(column.column_type))


def _hidden_length(metadata: bytes) -> tuple[int, int]:
    """(type, length) of a STRING: two bits of a CHAR's length lie, inverted, in the byte of its type."""
    kind, length = metadata
    return kind | 0x30, length | ((kind & 0x30) ^ 0x30) << 4


@_form("varchar", "varbinary")
def _varchar(column: Column, code: int, metadata: bytes) -> Form | None:
    length = column.octet_length or 0
    if code != 15 or metadata != struct.pack("<H", length):
        return None
    return Form(_same, prefix=1 if length < 256 else 2)


@_form("char", "binary")
def _char(column: Column, code: int, metadata: bytes) -> Form | None:
    length = column.octet_length or 0
    if code != 254 or _hidden_length(metadata) != (254, length):
        return None
    prefix = 1 if length < 256 else 2
    if column.data_type == "char":
        return Form(_same, prefix=prefix)

    def write(value: bytes) -> bytes:
        if len(value) < length:
            _not(value, column.column_type)
        return value.rstrip(b"\0")

    return Form(write, prefix=prefix, normal=lambda cell: cell.rstrip(b"\0"))


@_form("enum")
def _enum(column: Column, code: int, metadata: bytes) -> Form | None:
    members = members_of(column)
    size = 1 if len(members) < 256 else 2
    if code != 254 or tuple(metadata) != (247, size):
        return None

    def write(value: bytes) -> bytes:
        if value == INVALID_MEMBER:
            return bytes(size)
        if value not in members:
            _not(value, column.column_type)
        return (members.index(value) + 1).to_bytes(size, "little")

    return Form(write, size)


@_form("set")
def _set(column: Column, code: int, metadata: bytes) -> Form | None:
    members = members_of(column)
    size = (len(members) + 7) // 8
    size = size if size <= 4 else 8
    if code != 254 or tuple(metadata) != (248, size):
        return None

    def write(value: bytes) -> bytes:
        chosen = value.split(b",") if value else []
        if any(one not in members for one in chosen) or chosen != [one for one in members if one in chosen]:
            _not(value, column.column_type)
        return sum(1 << members.index(one) for one in chosen).to_bytes(size, "little")

    return Form(write, size)


@_form(*LOBS)
def _lob(column: Column, code: int, metadata: bytes) -> Form | None:
    length = LOBS[column.data_type]
    return Form(_same, prefix=length) if (code, metadata) == (252, bytes([length])) else None


@_form(*GEOMETRIES)
def _geometry(column: Column, code: int, metadata: bytes) -> Form | None:
    return Form(_same, prefix=4) if (code, metadata) == (255, b"\4") else None


@_form("vector")
def _vector(column: Column, code: int, metadata: bytes) -> Form | None:
    """MySQL has a type for it; MariaDB's is a VARBINARY."""
    if code == 15:
        return _varchar(column, code, metadata)
    return Form(_same, prefix=4) if (code, metadata) == (242, b"\4") else None


@_form("json")
def _json(column: Column, code: int, metadata: bytes) -> Form | None:
    """MySQL's; MariaDB's is a LONGTEXT."""
    if (code, metadata) != (245, b"\4"):
        return None

    def write(value: bytes) -> bytes:
        return json_value.written(json_value.parsed(value))

    def says(cell: bytes, value: bytes) -> bool:
        try:
            return json_value.tells(value, json_value.read(cell))
        except json_value.BadJson:
            return False

    return Form(write, prefix=4, says=says)


_UUID: Final = re.compile(rb"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})")


def _uuid_bytes(value: bytes) -> bytes:
    return bytes.fromhex(b"".join(_parts(_UUID, value, "a uuid")).decode())


def _ip_bytes(make: Callable[[str], IPv4Address | IPv6Address]) -> Bytes:
    def write(value: bytes) -> bytes:
        try:
            return make(value.decode("ascii")).packed
        except ValueError:
            _not(value, "an address")

    return write


_ADDRESSES: Final[dict[str, tuple[int, Bytes]]] = {
    "uuid": (16, _uuid_bytes),
    "inet4": (4, _ip_bytes(IPv4Address)),
    "inet6": (16, _ip_bytes(IPv6Address)),
}


@_form(*_ADDRESSES)
def _address(column: Column, code: int, metadata: bytes) -> Form | None:
    """MariaDB's, stored like a CHAR whose zeros at the end are dropped."""
    size, whole = _ADDRESSES[column.data_type]
    if code != 254 or _hidden_length(metadata) != (254, size):
        return None

    def normal(cell: bytes) -> bytes:
        if len(cell) > size:
            _not(cell, column.data_type)
        return cell.rstrip(b"\0")

    return Form(lambda value: whole(value).rstrip(b"\0"), prefix=1, normal=normal)


def _compressed_column(column: Column, code: int, metadata: bytes) -> Form | None:
    """MariaDB's COMPRESSED: a VARCHAR's length counts the byte that says how."""
    if code == 140:
        expected, prefix = bytes([LOBS.get(column.data_type, 0)]), LOBS.get(column.data_type, 0)
    else:
        length = (column.octet_length or 0) + 1
        expected, prefix = struct.pack("<H", length), 1 if length < 256 else 2
    if metadata != expected or not prefix:
        return None

    def write(value: bytes) -> bytes:
        if len(value) < 8:
            return b"\0" + value if value else b""
        size = (len(value).bit_length() + 7) // 8
        packer = zlib.compressobj(wbits=-15)
        return bytes([0x88 | size]) + len(value).to_bytes(size, "big") + packer.compress(value) + packer.flush()

    return Form(write, prefix=prefix, says=_decompresses)


def _decompresses(cell: bytes, value: bytes) -> bool:
    if not cell or cell[0] >> 4 == 0:
        return cell[1:] == value
    size = cell[0] & 7
    if cell[0] >> 4 != 8 or int.from_bytes(cell[1 : 1 + size], "big") != len(value) or not value:
        return False
    try:
        unpacker = zlib.decompressobj(-15 if cell[0] & 8 else 15)
        return unpacker.decompress(cell[1 + size :], len(value) + 1) == value and unpacker.eof
    except zlib.error:
        return False


@lru_cache(maxsize=4096)
def cached_form(column: Column, code: int, metadata: bytes) -> Form | None:
    """`form_of`, remembered: a campaign asks for the same few again and again."""
    return form_of(column, code, metadata)
