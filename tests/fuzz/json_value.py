"""MySQL's binary JSON, by the oracle's own hand: documents as Python values, to bytes and back, and partial updates.

A document is None, bool, int, float, str, list, dict, Decimal, Time or Opaque. `written` makes bytes as a server does;
`read` takes any bytes apart and raises BadJson for what is none; `tells` holds a text, byte for byte, against a
document. A DOUBLE alone is compared as a number: how a server writes its digits is not the oracle's business.

Format: MySQL's `sql-common/json_binary.h`, of partial updates `sql-common/json_diff.h`.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random
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
_DATE, _TIME, _DATETIME, _TIMESTAMP, _DECIMAL = 10, 11, 12, 7, 246
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


# Against text


def tells(text: bytes, document: Document) -> bool:
    """Whether a server would print `document` as `text`."""
    try:
        return _match(text.decode(), 0, document) == len(text.decode())
    except (BadJson, UnicodeDecodeError):
        return False


_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e-?[1-9]\d*)?")


def _match(text: str, at: int, document: Document) -> int:
    """Where the document's text that begins at `at` ends. Raises BadJson where it is not that."""
    if isinstance(document, float):
        number = _NUMBER.match(text, at)
        if number is None or not (number[2] or number[3]) or repr(float(number[0])) != repr(document):
            raise BadJson(f"{document} is not at {at}")
        return number.end()
    if isinstance(document, list | dict):
        opened, closed = "[]" if isinstance(document, list) else "{}"
        at = _literally(text, at, opened)
        for index, key in enumerate(document):
            if index:
                at = _literally(text, at, ", ")
            if isinstance(document, dict):
                at = _literally(text, at, json.dumps(key, ensure_ascii=False) + ": ")
                at = _match(text, at, document[str(key)])
            else:
                at = _match(text, at, document[index])
        return _literally(text, at, closed)
    if isinstance(document, Opaque):
        return _literally(text, at, _opaque_text(document))
    return _literally(text, at, json.dumps(document, ensure_ascii=False))


def _literally(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        raise BadJson(f"{expected!r} is not at {at}")
    return at + len(expected)


def _opaque_text(value: Opaque) -> str:
    if value.code == _DECIMAL:
        return _decimal_text(value.data)
    if value.code in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if len(value.data) != 8:
            raise BadJson("a time of another size")
        return f'"{_time_text(value.code, struct.unpack("<q", value.data)[0])}"'
    encoded = base64.b64encode(value.data).decode()
    lines = "\\n".join(encoded[start : start + 76] for start in range(0, len(encoded), 76))
    return f'"base64:type{value.code}:{lines}"'


def _decimal_text(data: bytes) -> str:
    """Precision, scale, and groups of nine digits in four bytes, the sign in the first bit."""
    precision, scale = data[0], data[1]
    cell = bytearray(data[2:])
    if not cell or not 0 < precision <= 81 or scale > min(precision, 38):
        raise BadJson("no decimal")
    negative = not cell[0] & 0x80
    cell[0] ^= 0x80
    if negative:
        cell = bytearray(byte ^ 0xFF for byte in cell)
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    digits, at = "", 0
    for group in groups:
        number = int.from_bytes(cell[at : at + sizes[group]], "big")
        at += sizes[group]
        if len(str(number)) > group and number:
            raise BadJson("no decimal")
        digits += str(number).rjust(group, "0") if group else ""
    if at != len(cell):
        raise BadJson("a decimal of another size")
    text = digits[:whole].lstrip("0") or "0"
    text += "." + digits[whole:] if scale else ""
    return "-" + text if negative and digits.strip("0") else text


def _time_text(code: int, packed: int) -> str:
    """Microseconds in 24 bits, then what a TIME or DATETIME packs."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micro, rest = packed & 0xFFFFFF, packed >> 24
    clock, month = rest & 0x1FFFF, rest >> 22
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if code == _TIME:
        hour = rest >> 12 & 0x3FF
        if rest >> 22 or hour > 838 or minute > 59 or second > 59 or micro > 999_999:
            raise BadJson("no time")
        return f"{sign}{hour:02}:{minute:02}:{second:02}.{micro:06}"
    day = f"{month // 13:04}-{month % 13:02}-{rest >> 17 & 31:02}"
    if sign or month // 13 > 9999 or (code != _DATE and (hour > 23 or minute > 59 or second > 59 or micro > 999_999)):
        raise BadJson("no date")
    return day if code == _DATE else f"{day} {hour:02}:{minute:02}:{second:02}.{micro:06}"


def packed_time(year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int) -> bytes:
    """The bytes of a DATETIME in a document (of a TIME: without year, month and day)."""
    rest = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
    return struct.pack("<q", rest << 24 | micro)


# Partial updates

REPLACE, INSERT, REMOVE = range(3)
Leg: TypeAlias = str | int


@dataclass(frozen=True)
class Change:
    """One step of a partial update."""

    operation: int
    path: tuple[Leg, ...]
    value: Document = None


def length(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + struct.pack("<H", number)


def written_changes(changes: list[Change]) -> bytes:
    """As they stand behind their length in an after image."""
    found = b""
    for change in changes:
        path = "$" + "".join(_leg(leg) for leg in change.path)
        found += bytes([change.operation]) + length(len(path.encode())) + path.encode()
        if change.operation != REMOVE:
            value = written(change.value)
            found += length(len(value)) + value
    return found


def _leg(leg: Leg) -> str:
    if isinstance(leg, int):
        return f"[{leg}]"
    return f".{leg}" if re.fullmatch(r"[A-Za-z_]\w*", leg, re.ASCII) else f".{json.dumps(leg, ensure_ascii=False)}"


_LEGS: Final = re.compile(r'\.("(?:[^"\\]|\\.)*")|\.([^."\[\]]+)|\[(\d+)\]', re.DOTALL)


def read_changes(data: bytes) -> Iterator[Change]:
    """Raises BadJson."""
    at = 0

    def taken(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise BadJson("a change that is cut short")
        at += size
        return data[at - size : at]

    def sized() -> bytes:
        first = taken(1)[0]
        if first < 251:
            return taken(first)
        if first not in (0xFC, 0xFD, 0xFE):
            raise BadJson("no length")
        return taken(int.from_bytes(taken({0xFC: 2, 0xFD: 3, 0xFE: 8}[first]), "little"))

    while at < len(data):
        operation = taken(1)[0]
        if operation > REMOVE:
            raise BadJson("no operation")
        try:
            path = sized().decode()
        except UnicodeDecodeError as error:
            raise BadJson(str(error)) from error
        yield Change(operation, _read_path(path), None if operation == REMOVE else read(sized()))


def _read_path(path: str) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    at = 1
    while match := _LEGS.match(path, at):
        try:
            legs.append(json.loads(match[1], strict=False) if match[1] else int(match[3]) if match[3] else match[2])
        except ValueError as error:
            raise BadJson(str(error)) from error
        at = match.end()
    if not path.startswith("$") or at != len(path) or not legs:
        raise BadJson(f"the path {path!r}")
    return tuple(legs)


def changed(document: Document, changes: Iterator[Change] | list[Change]) -> Document:
    """The document behind the changes, which may share values with the one before. Raises BadJson where one does not
    fit."""
    document = _copy(document)
    for change in changes:
        if len(change.path) > DEPTH:
            raise BadJson("too deep")
        parent: Document = document
        for leg in change.path[:-1]:
            parent = _child(parent, leg)
        last = change.path[-1]
        if isinstance(parent, dict) and isinstance(last, str):
            if (last in parent) == (change.operation == INSERT):
                raise BadJson("a change that does not fit")
            if change.operation == REMOVE:
                del parent[last]
            else:
                parent[last] = change.value
                in_order = sorted(parent.items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode()))
                parent.clear()
                parent.update(in_order)
        elif isinstance(parent, list) and isinstance(last, int):
            if change.operation == INSERT:
                parent.insert(last, change.value)
            elif last >= len(parent):
                raise BadJson("a change that does not fit")
            elif change.operation == REMOVE:
                del parent[last]
            else:
                parent[last] = change.value
        else:
            raise BadJson("a change of what is no container")
    return document


def _child(document: Document, leg: Leg) -> Document:
    if isinstance(document, dict) and isinstance(leg, str) and leg in document:
        return document[leg]
    if isinstance(document, list) and isinstance(leg, int) and leg < len(document):
        return document[leg]
    raise BadJson("a place that is not there")


def _copy(document: Document) -> Document:
    match document:
        case list():
            return [_copy(value) for value in document]
        case dict():
            return {key: _copy(value) for key, value in document.items()}
    return document


# Random ones


def some(dice: Random, depth: int = 0) -> Document:
    """A random document."""
    if depth < 3 and dice.random() < (0.9 if depth == 0 else 0.3):
        count = dice.choice((0, 1, 2, 3))
        if dice.random() < 0.5:
            return [some(dice, depth + 1) for _ in range(count)]
        keys = dice.sample(("a", "b", "ab", "", "é", 'q"', "a key"), count)
        return {key: some(dice, depth + 1) for key in sorted(keys, key=lambda key: (len(key.encode()), key.encode()))}
    scalars: list[Document] = [
        *(None, True, False, 0, -1, 40_000, -(1 << 31), 1 << 40, (1 << 64) - 1, -(1 << 63), dice.getrandbits(16)),
        *(0.5, -0.0, 1e300, 1e-9, dice.uniform(-1, 1), "", 'x"\\\n\x01é😀', "t" * dice.choice((3, 130))),
        Opaque(_DECIMAL, b"\x05\x02" + _some_decimal(dice)),
        Opaque(_DATETIME, packed_time(dice.randint(0, 9999), 12, 31, 23, 59, 58, 999_999)),
        Opaque(_TIME, packed_time(0, 0, 0, dice.randint(0, 500), 1, 2, 30)),
        Opaque(_DATE, packed_time(2020, dice.randint(0, 12), 10, 0, 0, 0, 0)),
        Opaque(252, dice.randbytes(dice.choice((0, 5, 60)))),
    ]
    return dice.choice(scalars)


def _some_decimal(dice: Random) -> bytes:
    """DECIMAL(5,2): two bytes of three digits, one of two."""
    cell = dice.randrange(1000).to_bytes(2, "big") + bytes([dice.randrange(100)])
    if dice.random() < 0.5:
        return bytes([cell[0] | 0x80]) + cell[1:]
    return bytes(byte ^ 0xFF for byte in bytes([cell[0] | 0x80]) + cell[1:])


def some_changes(dice: Random, document: Document) -> list[Change]:
    """A few that fit."""
    changes: list[Change] = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        places = list(_places(document, ()))
        if not places:
            break
        path, container = dice.choice(places)
        if isinstance(container, dict):
            new = f"new{len(changes)}"
            keys = list(container)
            options = [Change(INSERT, (*path, new), some(dice, 3))]
            if keys:
                key = dice.choice(keys)
                options += [Change(REPLACE, (*path, key), some(dice, 2)), Change(REMOVE, (*path, key))]
        else:
            options = [Change(INSERT, (*path, dice.randint(0, len(container))), some(dice, 3))]
            if container:
                index = dice.randrange(len(container))
                options += [Change(REPLACE, (*path, index), some(dice, 2)), Change(REMOVE, (*path, index))]
        changes.append(dice.choice(options))
        document = changed(document, changes[-1:])
    return changes


def _places(
    document: Document, path: tuple[Leg, ...]
) -> Iterator[tuple[tuple[Leg, ...], list[Document] | dict[str, Document]]]:
    """Containers and how to get there."""
    if isinstance(document, dict):
        yield path, document
        for key, value in document.items():
            yield from _places(value, (*path, key))
    elif isinstance(document, list):
        yield path, document
        for index, value in enumerate(document):
            yield from _places(value, (*path, index))


def parsed(value: bytes) -> Document:
    """The document of a text that `text` made, for writing seeds: opaque values only as far as `some` makes them."""
    return _texts[value]


_texts: dict[bytes, Document] = {}


def some_text(dice: Random) -> bytes:
    """The text of a random document, which `parsed` knows again."""
    return text_of(some(dice))


def text_of(document: Document) -> bytes:
    """Its text, which `parsed` knows again."""
    found = text(document)
    _texts.setdefault(found, document)
    return found


def text(document: Document) -> bytes:
    """As a server prints it, for documents whose doubles Python prints alike (`some` makes no others)."""
    match document:
        case float():
            return _double(document).encode()
        case list():
            return b"[" + b", ".join(map(text, document)) + b"]"
        case dict():
            pairs = (json.dumps(key, ensure_ascii=False).encode() + b": " + text(document[key]) for key in document)
            return b"{" + b", ".join(pairs) + b"}"
        case Opaque():
            return _opaque_text(document).encode()
    return json.dumps(document, ensure_ascii=False).encode()


def _double(number: float) -> str:
    """Plain between 1e-15 and 1e15; with an exponent beyond."""
    if number == 0 or 1e-15 <= abs(number) < 1e15:
        plain = format(Decimal(repr(number)), "f")
        return plain if "." in plain else plain + ".0"
    digits, exponent = repr(number).split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"
