r"""Converts MySQL's binary JSON, as in row images, to the text that the server prints.

A document is a type byte and a value. Containers hold a count, their size, and tables of entries with offsets, relative
to the container's first byte, of keys and values; small scalars are in the entry itself (MySQL `sql/json_binary.h`).
DECIMAL, temporal values and binary strings are "opaque": a column type, a length, and the bytes of such a column.

The text equals the server's byte for byte: keys in stored order (by length, then by bytes), `", "` and `": "` as
separators, a DOUBLE with the fewest digits that identify it, a DECIMAL with its scale, times with six fractional
digits, other opaque values as `"base64:type<column type>:…"`.

Offsets are not trusted. The parts of a document may not be larger in total than the document, so that a crafted one
cannot expand to more than a few times its length. Damaged documents raise only MalformedValue.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.schema import numbers, temporal
from airflow_provider_dm.engine.schema.errors import MalformedValue

MAX_DEPTH: Final = 100
"""The maximum depth of containers; the server refuses more."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE: Final = 15
_LITERALS: Final = {0: b"null", 1: b"true", 2: b"false"}
_INTEGERS: Final = {
    _INT16: (2, True),
    _UINT16: (2, False),
    _INT32: (4, True),
    _UINT32: (4, False),
    _INT64: (8, True),
    _UINT64: (8, False),
}
_INLINED: Final = {2: frozenset({_LITERAL, _INT16, _UINT16}), 4: frozenset({_LITERAL, *range(_INT16, _UINT32 + 1)})}
"""The types whose value is in the entry, by the size of an offset."""

_BASE64_LINE: Final = 76


def json_text(data: bytes) -> bytes:
    r"""Return a binary document as the server's text. Raises MalformedValue.

    Empty data is the literal null: the server writes it for a row whose value it had to invent.

    >>> json_text(b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"), json_text(b"")
    (b'{"a": 1}', b'null')
    """
    if not data:
        return b"null"
    try:
        return _Document(data).value(data[0], 1, 1)
    except (IndexError, ValueError, OverflowError) as error:
        raise MalformedValue(str(error)) from error


class _Document:
    """One pass over a document. `budget`: bytes that may still be read; shared parts count each time they are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = len(data)

    def take(self, start: int, size: int) -> bytes:
        end = start + size
        if end > len(self.data):
            raise MalformedValue(f"a value that ends {end - len(self.data)} bytes after the document")
        self.budget -= size
        if self.budget < 0:
            raise MalformedValue("overlapping values")
        return self.data[start:end]

    def value(self, kind: int, start: int, depth: int) -> bytes:
        """Return the text of a value at `start`. `depth`: that of a container at this position."""
        if kind in _INTEGERS:
            size, signed = _INTEGERS[kind]
            return b"%d" % int.from_bytes(self.take(start, size), "little", signed=signed)
        if kind <= _LARGE_ARRAY:
            return self.container(kind, start, depth)
        if kind == _LITERAL:
            return _literal(self.take(start, 1)[0])
        if kind == _DOUBLE:
            return numbers.short_double_text(numbers.double_from_bytes(self.take(start, 8)))
        if kind == _STRING:
            return quoted(self.sized(start))
        if kind == _OPAQUE:
            return _opaque(self.take(start, 1)[0], self.sized(start + 1))
        raise MalformedValue(f"a value of type {kind}")

    def sized(self, start: int) -> bytes:
        """Return the bytes at `start`, after their length in bytes of seven bits, the lowest first."""
        length = 0
        for index in range(5):
            byte = self.take(start + index, 1)[0]
            length |= (byte & 0x7F) << (7 * index)
            if not byte & 0x80:
                return self.take(start + index + 1, length)
        raise MalformedValue("a length of more than five bytes")

    def container(self, kind: int, start: int, depth: int) -> bytes:
        if depth > MAX_DEPTH:
            raise MalformedValue(f"more than {MAX_DEPTH} nested containers")
        width = 2 if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else 4
        header = self.take(start, 2 * width)
        count, size = int.from_bytes(header[:width], "little"), int.from_bytes(header[width:], "little")
        if start + size > len(self.data):
            raise MalformedValue(f"a container of {size} bytes")
        entries = start + 2 * width
        if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
            elements = [self.entry(start, entries + index * (1 + width), width, depth) for index in range(count)]
            return b"[" + b", ".join(elements) + b"]"
        values = entries + count * (width + 2)
        members: dict[bytes, bytes] = {}
        for index in range(count):
            pointer = self.take(entries + index * (width + 2), width + 2)
            offset, length = int.from_bytes(pointer[:width], "little"), int.from_bytes(pointer[width:], "little")
            key = _utf8(self.take(start + offset, length))
            if key in members:
                raise MalformedValue("an object with a duplicate key")
            members[key] = self.entry(start, values + index * (1 + width), width, depth)
        return b"{" + b", ".join([quoted(key) + b": " + value for key, value in members.items()]) + b"}"

    def entry(self, start: int, at: int, width: int, depth: int) -> bytes:
        """Return the text of an entry of the container that begins at `start`."""
        entry = self.take(at, 1 + width)
        kind = entry[0]
        if kind in _INLINED[width]:
            self.budget += width  # it is read again inside the entry
            return self.value(kind, at + 1, depth + 1)
        return self.value(kind, start + int.from_bytes(entry[1:], "little"), depth + 1)


def _literal(code: int) -> bytes:
    if code not in _LITERALS:
        raise MalformedValue(f"a literal of code {code}")
    return _LITERALS[code]


def _opaque(column_type: int, data: bytes) -> bytes:
    """Return the text of an opaque value: the bytes of a column, by that column's type code."""
    if column_type == FIELD_TYPE.NEWDECIMAL:
        precision, scale = data[0], data[1]
        if len(data) != 2 + numbers.decimal_size(precision, scale, numbers.OF_VALUES):
            raise MalformedValue(f"a DECIMAL({precision},{scale}) of {len(data) - 2} bytes")
        return numbers.decimal_unpacker(precision, scale, numbers.OF_VALUES)(data[2:])
    if column_type in _PACKED:
        if len(data) != 8:
            raise MalformedValue(f"a time of {len(data)} bytes")
        return b'"%b"' % _PACKED[column_type](int.from_bytes(data, "little", signed=True))
    encoded = base64.b64encode(data)
    lines = [encoded[start : start + _BASE64_LINE] for start in range(0, len(encoded), _BASE64_LINE)]
    return b'"base64:type%d:%b"' % (column_type, rb"\n".join(lines))


_PACKED: Final[dict[int, Callable[[int], bytes]]] = {
    FIELD_TYPE.DATE: temporal.packed_date_text,
    FIELD_TYPE.TIME: temporal.packed_time_text,
    FIELD_TYPE.DATETIME: temporal.packed_datetime_text,
    FIELD_TYPE.TIMESTAMP: temporal.packed_datetime_text,
}


_ESCAPED: Final = re.compile(rb'["\\\x00-\x1f]')
_SHORT_ESCAPES: Final = {
    b'"': rb"\"",
    b"\\": rb"\\",
    b"\b": rb"\b",
    b"\f": rb"\f",
    b"\n": rb"\n",
    b"\r": rb"\r",
    b"\t": rb"\t",
}
_ESCAPES: Final = {bytes([code]): b"\\u%04x" % code for code in range(32)} | _SHORT_ESCAPES


def quoted(string: bytes) -> bytes:
    r"""Return UTF-8 as a JSON string, escaped as by the server. Raises MalformedValue if it is not UTF-8.

    >>> quoted(b'a"\n\x01\x7f')
    b'"a\\"\\n\\u0001\x7f"'
    """
    return b'"' + _ESCAPED.sub(lambda match: _ESCAPES[match[0]], _utf8(string)) + b'"'


def _utf8(string: bytes) -> bytes:
    try:
        string.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedValue("a string that is not UTF-8") from error
    return string
