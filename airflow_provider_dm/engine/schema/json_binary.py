r"""Converts MySQL's binary JSON, as in row images, to the text that the server prints.

A document is a type byte and a value. Containers hold a count, their size, and tables of entries with offsets, relative
to the container's first byte, of keys and values; small scalars are in the entry itself (MySQL `sql/json_binary.h`).
DECIMAL, temporal values and binary strings are "opaque": a column type, a length, and the bytes of such a column.

The text equals the server's byte for byte: keys in stored order (by length, then by bytes), `", "` and `": "` as
separators, a DOUBLE with the fewest digits that identify it, a DECIMAL with its scale, times with six fractional
digits, other opaque values as `"base64:type<column type>:…"`.

A partial update (`binlog_row_value_options=PARTIAL_JSON`) is a list of changes to the previous document, which
`apply_diffs` applies.

Offsets are not trusted. The parts of a document may not be larger in total than the document, so that a crafted one
cannot expand to more than a few times its length. Damaged documents raise only MalformedValue.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

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


Node: TypeAlias = "bytes | list[Node] | dict[bytes, Node]"
"""A parsed document; scalars are stored as their text."""


def json_text(data: bytes) -> bytes:
    r"""Return a binary document as the server's text. Raises MalformedValue.

    Empty data is the literal null: the server writes it for a row whose value it had to invent.

    >>> json_text(b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"), json_text(b"")
    (b'{"a": 1}', b'null')
    """
    return _text(_parse(data))


def apply_diffs(before: bytes, diffs: bytes) -> bytes:
    """Return the text of the document `before` (binary) after a partial update. Raises MalformedValue.

    `diffs` are the bytes after the four-byte length in an after image: a sequence of operation, path and (except for a
    removal) binary value.
    """
    document = _parse(before)
    reader = _DiffReader(diffs)
    while reader.left:
        document = _applied(document, reader.next())
    return _text(_sorted(document, 1))


# From binary to nodes


def _parse(data: bytes) -> Node:
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

    def value(self, kind: int, start: int, depth: int) -> Node:
        """Return the value of a type that begins at `start`. `depth`: that of a container at this position."""
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

    def container(self, kind: int, start: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise MalformedValue(f"more than {MAX_DEPTH} nested containers")
        width = 2 if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else 4
        header = self.take(start, 2 * width)
        count, size = int.from_bytes(header[:width], "little"), int.from_bytes(header[width:], "little")
        if start + size > len(self.data):
            raise MalformedValue(f"a container of {size} bytes")
        entries = start + 2 * width
        if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
            return [self.entry(start, entries + index * (1 + width), width, depth) for index in range(count)]
        values = entries + count * (width + 2)
        members: dict[bytes, Node] = {}
        for index in range(count):
            pointer = self.take(entries + index * (width + 2), width + 2)
            offset, length = int.from_bytes(pointer[:width], "little"), int.from_bytes(pointer[width:], "little")
            key = _utf8(self.take(start + offset, length))
            if key in members:
                raise MalformedValue("an object with a duplicate key")
            members[key] = self.entry(start, values + index * (1 + width), width, depth)
        return members

    def entry(self, start: int, at: int, width: int, depth: int) -> Node:
        """Return the value of an entry of the container that begins at `start`."""
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


# From nodes to text


def _text(node: Node) -> bytes:
    if isinstance(node, bytes):
        return node
    if isinstance(node, list):
        return b"[" + b", ".join(map(_text, node)) + b"]"
    return b"{" + b", ".join([quoted(key) + b": " + _text(value) for key, value in node.items()]) + b"}"


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


# Partial updates (MySQL `sql/json_diff.cc`)

_REPLACE, _INSERT, _REMOVE = range(3)


@dataclass(frozen=True)
class _Cell:
    """A step of a path into an array: from its start, or from its end (`last-2`)."""

    index: int
    from_end: bool = False

    def within(self, length: int) -> int | None:
        """Return the index in an array of this length; None if it does not exist."""
        if self.index >= length:
            return None
        return length - 1 - self.index if self.from_end else self.index

    def insertion(self, length: int) -> int:
        """Return the index at which a new element is inserted."""
        place = self.within(length)
        if place is not None:
            return place
        return 0 if self.from_end else length


_Leg: TypeAlias = "bytes | _Cell"


@dataclass(frozen=True)
class _Diff:
    operation: int
    path: tuple[_Leg, ...]
    value: Node


class _DiffReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise MalformedValue(f"a change that is {size - self.left} bytes too short")
        self.position += size
        return self.data[self.position - size : self.position]

    def sized(self) -> bytes:
        first = self.take(1)[0]
        if first < 0xFB:
            return self.take(first)
        if first not in _LENGTH_SIZES:
            raise MalformedValue(f"a length that begins with {first:#x}")
        return self.take(int.from_bytes(self.take(_LENGTH_SIZES[first]), "little"))

    def next(self) -> _Diff:
        operation = self.take(1)[0]
        if operation > _REMOVE:
            raise MalformedValue(f"a change of kind {operation}")
        path = _path(self.sized())
        return _Diff(operation, path, b"" if operation == _REMOVE else _parse(self.sized()))


_LENGTH_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_LEG: Final = re.compile(
    rb"""\.(?P<string>"(?:[^"\\]|\\.)*")|\.(?P<name>[^."\[\]]+)|\[(?P<index>\d{1,10})\]"""
    rb"""|\[last(?:-(?P<back>\d{1,10}))?\]""",
    re.DOTALL,
)


def _path(text: bytes) -> tuple[_Leg, ...]:
    r"""Return the steps of a path in the server's format.

    >>> _path(b'$.a."b c"[3]')
    (b'a', b'b c', _Cell(index=3, from_end=False))
    """
    legs: list[_Leg] = []
    position = 1
    while position < len(text):
        match = _LEG.match(text, position)
        if match is None:
            break
        if match["string"] is not None:
            legs.append(_unquoted(match["string"]))
        elif match["name"] is not None:
            legs.append(_utf8(match["name"]))
        elif match["index"] is not None:
            legs.append(_Cell(int(match["index"])))
        else:
            legs.append(_Cell(int(match["back"] or 0), from_end=True))
        position = match.end()
    if not text.startswith(b"$") or position != len(text) or not 0 < len(legs) <= MAX_DEPTH:
        raise MalformedValue(f"the path {text!r}")
    return tuple(legs)


def _unquoted(string: bytes) -> bytes:
    try:
        name = json.loads(string.decode("utf-8"), strict=False)
        return bytes(name.encode("utf-8"))
    except ValueError as error:
        raise MalformedValue(f"the name {string!r} in a path") from error


def _applied(document: Node, diff: _Diff) -> Node:
    """Apply one change to the document in place and return it."""
    parent = document
    for leg in diff.path[:-1]:
        parent = _child(parent, leg)
    last = diff.path[-1]
    if isinstance(parent, dict) and isinstance(last, bytes):
        if (last in parent) is (diff.operation == _INSERT):
            raise MalformedValue(f"a change of {last!r}, which does not fit the document before")
        if diff.operation == _REMOVE:
            del parent[last]
        else:
            parent[last] = diff.value  # a new key comes last; _sorted moves it
    elif isinstance(parent, list) and isinstance(last, _Cell):
        if diff.operation == _INSERT:
            parent.insert(last.insertion(len(parent)), diff.value)
            return document
        position = last.within(len(parent))
        if position is None:
            raise MalformedValue(f"a change of element {last.index} in an array of {len(parent)}")
        if diff.operation == _REMOVE:
            del parent[position]
        else:
            parent[position] = diff.value
    else:
        raise MalformedValue("a change inside a value that is not a container")
    return document


def _sorted(node: Node, depth: int) -> Node:
    """Return the value with all keys in the server's order: by length, then by bytes. Raises MalformedValue if it is
    nested too deeply.
    """
    if isinstance(node, bytes):
        return node
    if depth > MAX_DEPTH:
        raise MalformedValue(f"changes that result in more than {MAX_DEPTH} nested containers")
    if isinstance(node, list):
        return [_sorted(value, depth + 1) for value in node]
    ordered = sorted(node.items(), key=lambda item: (len(item[0]), item[0]))
    return {key: _sorted(value, depth + 1) for key, value in ordered}


def _child(node: Node, leg: _Leg) -> Node:
    if isinstance(node, dict) and isinstance(leg, bytes) and leg in node:
        return node[leg]
    if isinstance(node, list) and isinstance(leg, _Cell):
        position = leg.within(len(node))
        if position is not None:
            return node[position]
    raise MalformedValue("a change at a path that the previous document lacks")
