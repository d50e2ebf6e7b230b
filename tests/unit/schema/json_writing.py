"""Binary JSON as a server writes it, in the plainest way: the counterpart that the reader is tested with."""

import struct
from collections.abc import Callable

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


def document(value: Value, *, large: bool = False) -> bytes:
    kind, data = encoded(value, large=large)
    return bytes([kind]) + data


def encoded(value: Value, *, large: bool) -> tuple[int, bytes]:
    """(type, bytes). `large`: containers with offsets of four bytes."""
    match value:
        case None | True | False:
            return 4, bytes([{None: 0, True: 1, False: 2}[value]])
        case int():
            return integer(value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            return 12, sized(value.encode())
        case list():
            return (3 if large else 2), container([], value, large=large)
        case dict():
            keys = sorted((key.encode() for key in value), key=lambda key: (len(key), key))
            return (1 if large else 0), container(keys, [value[key.decode()] for key in keys], large=large)


def integer(value: int) -> tuple[int, bytes]:
    for kind, size, signed in ((5, 2, True), (6, 2, False), (7, 4, True), (8, 4, False), (9, 8, True), (10, 8, False)):
        try:
            return kind, value.to_bytes(size, "little", signed=signed)
        except OverflowError:
            continue
    raise OverflowError(value)


def sized(data: bytes) -> bytes:
    length, prefix = len(data), b""
    while True:
        length, low = length >> 7, length & 0x7F
        prefix += bytes([low | (0x80 if length else 0)])
        if not length:
            return prefix + data


def opaque(kind: int, data: bytes) -> bytes:
    """A whole document that is a column's bytes."""
    return bytes([15, kind]) + sized(data)


def container(keys: list[bytes], values: list[Value], *, large: bool) -> bytes:
    width = 4 if large else 2
    number: Callable[[int], bytes] = lambda value: value.to_bytes(width, "little")  # noqa: E731
    inlined = {4, 5, 6, 7, 8} if large else {4, 5, 6}
    at = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    key_entries = value_entries = behind = b""
    for key in keys:
        key_entries += number(at) + len(key).to_bytes(2, "little")
        behind += key
        at += len(key)
    for value in values:
        kind, data = encoded(value, large=large)
        if kind in inlined:
            value_entries += bytes([kind]) + data.ljust(width, b"\0")
            continue
        value_entries += bytes([kind]) + number(at)
        behind += data
        at += len(data)
    return number(len(values)) + number(at) + key_entries + value_entries + behind
