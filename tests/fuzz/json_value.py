"""MySQL's binary JSON, by the oracle's own hand: documents as Python values, to bytes and back.

A document is None, bool, int, float, str, list, dict, or Opaque (which is also what times and DECIMALs are). `written`
makes bytes as a server does; `read` takes any bytes apart and raises BadJson for what is none. Partial updates are in
`json_changes`, how a server prints a document in `json_text`, random documents in `json_seeds`.

Format: MySQL's `sql-common/json_binary.h`.
"""

import math
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

DEPTH: Final = 100


class BadJson(ValueError):
    """Bytes that are no document, or a text that is not the document's."""


@dataclass(frozen=True)
class Opaque:
    """A column's bytes, by the type code of the column."""

    code: int
    data: bytes


Document: TypeAlias = "bool | int | float | str | Opaque | list[Document] | dict[str, Document] | None"

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_INTEGERS: Final = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_LITERALS: Final[dict[int, Document]] = {0: None, 1: True, 2: False}
_INLINE: Final = {2: (_LITERAL, 5, 6), 4: (_LITERAL, 5, 6, 7, 8)}


# To bytes


def written(document: Document, *, large: bool = False) -> bytes:
    """`large`: containers with offsets of four bytes, as servers use for documents of more than 64 KiB."""
    kind, data = _value(document, large)
    return bytes([kind]) + data


def _value(document: Document, large: bool) -> tuple[int, bytes]:
    match document:
        case None | True | False:
            return _LITERAL, bytes([0 if document is None else 1 if document else 2])
        case int():
            for kind, layout in _INTEGERS.items():
                try:
                    return kind, struct.pack(layout, document)
                except struct.error:
                    continue
            raise BadJson(f"{document} has more than 64 bits")
        case float():
            return _DOUBLE, struct.pack("<d", document)
        case str():
            text = document.encode()
            return _STRING, _varlen(len(text)) + text
        case Opaque():
            return _OPAQUE, bytes([document.code]) + _varlen(len(document.data)) + document.data
        case list():
            return (_LARGE_ARRAY if large else _SMALL_ARRAY), _container([], document, large)
        case dict():
            pairs = sorted((key.encode(), value) for key, value in document.items())
            pairs.sort(key=lambda pair: len(pair[0]))
            keys, values = [key for key, _ in pairs], [value for _, value in pairs]
            return (_LARGE_OBJECT if large else _SMALL_OBJECT), _container(keys, values, large)


def _container(keys: list[bytes], values: list[Document], large: bool) -> bytes:
    width = 4 if large else 2
    number = "<I" if large else "<H"
    at = 2 * width + len(keys) * (width + 2) + len(values) * (1 + width)
    key_entries, value_entries, tail = b"", b"", b""
    for key in keys:
        key_entries += struct.pack(number, at + len(tail)) + struct.pack("<H", len(key))
        tail += key
    for value in values:
        kind, data = _value(value, large)
        if kind in _INLINE[width]:
            value_entries += bytes([kind]) + data.ljust(width, b"\0")
        else:
            value_entries += bytes([kind]) + struct.pack(number, at + len(tail))
            tail += data
    return struct.pack(number, len(values)) + struct.pack(number, at + len(tail)) + key_entries + value_entries + tail


def _varlen(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


# From bytes


def read(data: bytes) -> Document:
    """Raises BadJson. No bytes at all are null."""
    if not data:
        return None
    try:
        return _read(data, data[0], 1, 1, [len(data) + 1])
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise BadJson(str(error)) from error


def _read(data: bytes, kind: int, at: int, depth: int, left: list[int]) -> Document:
    left[0] -= 1
    if left[0] < 0:
        raise BadJson("more values than bytes")
    if kind in _INTEGERS:
        found: int = struct.unpack_from(_INTEGERS[kind], data, at)[0]
        return found
    if kind <= _LARGE_ARRAY:
        return _read_container(data, kind, at, depth, left)
    if kind == _LITERAL:
        if data[at] not in _LITERALS:
            raise BadJson("no literal")
        return _LITERALS[data[at]]
    if kind == _DOUBLE:
        number: float = struct.unpack_from("<d", data, at)[0]
        if not math.isfinite(number):
            raise BadJson("no number")
        return number
    if kind == _STRING:
        return _sized(data, at).decode()
    if kind == _OPAQUE:
        return Opaque(data[at], _sized(data, at + 1))
    raise BadJson(f"a value of type {kind}")


def _read_container(data: bytes, kind: int, at: int, depth: int, left: list[int]) -> Document:
    if depth > DEPTH:
        raise BadJson("too deep")
    width, number = (2, "<H") if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else (4, "<I")
    count, size = struct.unpack_from(number * 1 + number[1], data, at)
    if at + size > len(data):
        raise BadJson("a container longer than the document")
    of_keys = count if kind in (_SMALL_OBJECT, _LARGE_OBJECT) else 0
    first = at + 2 * width
    entries = first + of_keys * (width + 2)
    if entries + count * (1 + width) > len(data):
        raise BadJson("more entries than bytes")
    values = []
    for entry in range(entries, entries + count * (1 + width), 1 + width):
        inline = data[entry] in _INLINE[width]
        place = entry + 1 if inline else at + struct.unpack_from(number, data, entry + 1)[0]
        values.append(_read(data, data[entry], place, depth + 1, left))
    if not of_keys and kind in (_SMALL_ARRAY, _LARGE_ARRAY):
        return values
    keys = []
    for entry in range(first, entries, width + 2):
        offset, length = struct.unpack_from(number, data, entry)[0], struct.unpack_from("<H", data, entry + width)[0]
        if at + offset + length > len(data):
            raise BadJson("a key behind the document")
        keys.append(data[at + offset : at + offset + length].decode())
    if len(set(keys)) < len(keys):
        raise BadJson("a key twice")
    return dict(zip(keys, values, strict=True))


def _sized(data: bytes, at: int) -> bytes:
    length = 0
    for index in range(5):
        byte = data[at + index]
        length |= (byte & 127) << 7 * index
        if byte < 128:
            start = at + index + 1
            if start + length > len(data):
                raise BadJson("a value longer than the document")
            return data[start : start + length]
    raise BadJson("no length")
