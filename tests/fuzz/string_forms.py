"""The layout of values of variable length in a row image: strings and types that are stored like strings.

ENUM, SET and MariaDB's addresses come as a STRING with a real type in the metadata; LOBs, geometries, vectors and JSON
have a length of one to four bytes; COMPRESSED columns of MariaDB have type codes of their own.
"""

import re
import struct
import zlib
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from airflow_provider_dm.engine.schema.model import Column
from tests.fuzz import json_seeds, json_text, json_value
from tests.fuzz.cell import Bytes, Form, Make, parts_of, refuse, same

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
INVALID_MEMBER: Final = b"\xff"
"""Canonical value of an ENUM's index 0, which an invalid insert leaves: a byte that no member's text is."""
_MEMBERS: Final = re.compile(r"'((?:[^']|'')*)'")


def members_of(column: Column) -> tuple[bytes, ...]:
    """The members of an ENUM or SET. Ours hold no backslash."""
    return tuple(text.replace("''", "'").encode() for text in _MEMBERS.findall(column.column_type))


def _hidden_length(metadata: bytes) -> tuple[int, int]:
    """(type, length) of a STRING: two bits of a CHAR's length lie, inverted, in the byte of its type."""
    kind, length = metadata
    return kind | 0x30, length | ((kind & 0x30) ^ 0x30) << 4


def _varchar(column: Column, code: int, metadata: bytes) -> Form | None:
    length = column.octet_length or 0
    if code != 15 or metadata != struct.pack("<H", length):
        return None
    return Form(same, prefix=1 if length < 256 else 2)


def _char(column: Column, code: int, metadata: bytes) -> Form | None:
    length = column.octet_length or 0
    if code != 254 or _hidden_length(metadata) != (254, length):
        return None
    prefix = 1 if length < 256 else 2
    if column.data_type == "char":
        return Form(same, prefix=prefix)

    def write(value: bytes) -> bytes:
        if len(value) < length:
            refuse(value, column.column_type)
        return value.rstrip(b"\0")

    return Form(write, prefix=prefix, normal=lambda cell: cell.rstrip(b"\0"))


def _enum(column: Column, code: int, metadata: bytes) -> Form | None:
    members = members_of(column)
    size = 1 if len(members) < 256 else 2
    if code != 254 or tuple(metadata) != (247, size):
        return None

    def write(value: bytes) -> bytes:
        if value == INVALID_MEMBER:
            return bytes(size)
        if value not in members:
            refuse(value, column.column_type)
        return (members.index(value) + 1).to_bytes(size, "little")

    return Form(write, size)


def _set(column: Column, code: int, metadata: bytes) -> Form | None:
    members = members_of(column)
    size = (len(members) + 7) // 8
    size = size if size <= 4 else 8
    if code != 254 or tuple(metadata) != (248, size):
        return None

    def write(value: bytes) -> bytes:
        chosen = value.split(b",") if value else []
        if any(one not in members for one in chosen) or chosen != [one for one in members if one in chosen]:
            refuse(value, column.column_type)
        return sum(1 << members.index(one) for one in chosen).to_bytes(size, "little")

    return Form(write, size)


def _lob(column: Column, code: int, metadata: bytes) -> Form | None:
    length = LOBS[column.data_type]
    return Form(same, prefix=length) if (code, metadata) == (252, bytes([length])) else None


def _geometry(column: Column, code: int, metadata: bytes) -> Form | None:
    return Form(same, prefix=4) if (code, metadata) == (255, b"\4") else None


def _vector(column: Column, code: int, metadata: bytes) -> Form | None:
    """MySQL has a type for it; MariaDB's is a VARBINARY."""
    if code == 15:
        return _varchar(column, code, metadata)
    return Form(same, prefix=4) if (code, metadata) == (242, b"\4") else None


def _json(column: Column, code: int, metadata: bytes) -> Form | None:
    """MySQL's; MariaDB's is a LONGTEXT."""
    if (code, metadata) != (245, b"\4"):
        return None

    def write(value: bytes) -> bytes:
        return json_value.written(json_seeds.parsed(value))

    def says(cell: bytes, value: bytes) -> bool:
        try:
            return json_text.tells(value, json_value.read(cell))
        except json_value.BadJson:
            return False

    return Form(write, prefix=4, says=says)


_UUID: Final = re.compile(rb"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})")


def _uuid_bytes(value: bytes) -> bytes:
    return bytes.fromhex(b"".join(parts_of(_UUID, value, "a uuid")).decode())


def _ip_bytes(make: Callable[[str], IPv4Address | IPv6Address]) -> Bytes:
    def write(value: bytes) -> bytes:
        try:
            return make(value.decode("ascii")).packed
        except ValueError:
            refuse(value, "an address")

    return write


_ADDRESSES: Final[dict[str, tuple[int, Bytes]]] = {
    "uuid": (16, _uuid_bytes),
    "inet4": (4, _ip_bytes(IPv4Address)),
    "inet6": (16, _ip_bytes(IPv6Address)),
}


def _address(column: Column, code: int, metadata: bytes) -> Form | None:
    """MariaDB's, stored like a CHAR whose zeros at the end are dropped."""
    size, whole = _ADDRESSES[column.data_type]
    if code != 254 or _hidden_length(metadata) != (254, size):
        return None

    def normal(cell: bytes) -> bytes:
        if len(cell) > size:
            refuse(cell, column.data_type)
        return cell.rstrip(b"\0")

    return Form(lambda value: whole(value).rstrip(b"\0"), prefix=1, normal=normal)


def compressed_form(column: Column, code: int, metadata: bytes) -> Form | None:
    """MariaDB's COMPRESSED: a VARCHAR's length includes the byte with the method."""
    length = (column.octet_length or 0) + 1
    if code == 140:
        expected, prefix = bytes([LOBS.get(column.data_type, 0)]), LOBS.get(column.data_type, 0)
    elif length <= 0xFFFF:
        expected, prefix = struct.pack("<H", length), 1 if length < 256 else 2
    else:
        return None  # a damaged code: no VARCHAR is so long
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


FORMS: Final[dict[str, Make]] = {
    **dict.fromkeys(("varchar", "varbinary"), _varchar),
    **dict.fromkeys(("char", "binary"), _char),
    **dict.fromkeys(LOBS, _lob),
    **dict.fromkeys(GEOMETRIES, _geometry),
    **dict.fromkeys(_ADDRESSES, _address),
    "enum": _enum,
    "set": _set,
    "vector": _vector,
    "json": _json,
}
