"""The type that a server makes of the type in a statement: lengths, widths, charset, collation and size.

    TEXT(300) CHARACTER SET utf8mb4  ─▶ text (a tinytext holds 255 bytes, and 300 characters can take 1200)
    JSON in MariaDB                  ─▶ longtext, utf8mb4, utf8mb4_bin
    VARCHAR(9) CHARACTER SET binary  ─▶ varbinary(9)
    INT(11)                          ─▶ int(11), and plain int since MySQL 8.0.19

Resolving a resolved type returns the same type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.collations import (
    BINARY,
    Collation,
    binary_collation,
    character_bytes,
    collation_named,
    default_collation,
)
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import ColumnType
from airflow_provider_dm.engine.schema.codec import GEOMETRIES
from airflow_provider_dm.engine.schema.strings import ASCII_CHARSETS, UTF8_CHARSETS

TEXT_SIZES: Final = {"tinytext": 0xFF, "text": 0xFFFF, "mediumtext": 0xFFFFFF, "longtext": 0xFFFFFFFF}
BLOBS: Final = {"tinyblob": 0xFF, "blob": 0xFFFF, "mediumblob": 0xFFFFFF, "longblob": 0xFFFFFFFF}
"""Maximum length in bytes."""
CHARACTER_TYPES: Final = frozenset({"char", "varchar", "enum", "set", *TEXT_SIZES})
"""Types that have a collation."""
MEMBERS: Final = frozenset({"enum", "set"})
LARGE: Final = frozenset({*TEXT_SIZES, *BLOBS, *GEOMETRIES, "json"})
"""Types of values whose length is not limited by a column's definition; not MySQL's vectors."""
_BYTES: Final = dict(zip(TEXT_SIZES, BLOBS, strict=True)) | {"char": "binary", "varchar": "varbinary"}
"""The type that a character type becomes under the charset `binary`."""
_WITH_ASCII: Final = ASCII_CHARSETS | UTF8_CHARSETS | {BINARY}
LONGEST_VARCHAR: Final = 0xFFFF

WIDTHS: Final = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
}  # fmt: skip
"""Display width of integers (signed, unsigned)."""
_FRACTIONS: Final = frozenset({"time", "datetime", "timestamp"})
_MYSQL_VECTOR: Final = "2048"
_VECTOR_ELEMENT: Final = 4

_PACKED: Final = {
    "tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "float": 4, "double": 8, "year": 1, "date": 3,
    "time": 3, "datetime": 5, "timestamp": 4, "uuid": 16, "inet4": 4, "inet6": 16,
}  # fmt: skip
_GROUP: Final = 9
_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4)
"""In a key, `_GROUP` digits of a DECIMAL take 4 bytes, and fewer digits the bytes that `_OF_DIGITS` lists."""
_SMALL_ENUM: Final = 255
_SET_SIZES: Final = (1, 2, 3, 4, 8)


def resolved_type(server: Server, kind: ColumnType, table: Collation, chosen: Mapping[str, str]) -> ColumnType:
    """Return the type as the server stores it. `table`: the table's default; `chosen`: the session's charset defaults.

    Raises CannotTrack.
    """
    if kind.name == "json" and server.mariadb:
        kind = replace(kind, name="longtext", collation=kind.collation or "utf8mb4_bin")
    if kind.name in ("varchar", "varbinary") and not kind.arguments:
        raise CannotTrack(f"a {kind.name} has no length")
    if kind.name in CHARACTER_TYPES:
        return _character_type(server, kind, _collation(server, kind, table, chosen))
    kind = replace(kind, charset=None, collation=None, binary=False)
    if kind.name in WIDTHS:
        return _integer(server, kind)
    return replace(_sized(server, kind, 1), arguments=_arguments(server, _sized(server, kind, 1)))


def with_collation(server: Server, kind: ColumnType, collation: Collation) -> ColumnType:
    """Return a resolved type after CONVERT TO, which keeps the maximum number of characters. Raises CannotTrack.

    A TEXT in latin1 holds 65,535 characters; in utf8mb4 only a MEDIUMTEXT does.
    """
    if kind.name not in CHARACTER_TYPES or kind.charset in (None, BINARY):
        return kind
    if kind.name in MEMBERS and not _keep_meaning(kind, collation.charset):
        # Both flavours reinterpret the bytes of the members in the new charset: 'a','bcd' in ucs2 are '','扣'.
        raise CannotTrack(f"the members of {kind.name} {kind.arguments} are not known in {collation.charset}")
    if kind.name in TEXT_SIZES:
        characters = TEXT_SIZES[kind.name] // character_bytes(str(kind.collation))
        kind = replace(kind, name=_smallest(TEXT_SIZES, characters * character_bytes(collation.name)))
    return _character_type(server, kind, collation)


def _keep_meaning(kind: ColumnType, charset: str) -> bool:
    """Return True if the bytes of the members have the same meaning in another charset."""
    if {str(kind.charset), charset} <= UTF8_CHARSETS | {BINARY}:
        return True
    ascii_only = all(member.isascii() for member in kind.arguments)
    return kind.charset == charset or (ascii_only and {str(kind.charset), charset} <= _WITH_ASCII)


def _collation(server: Server, kind: ColumnType, table: Collation, chosen: Mapping[str, str]) -> Collation:
    """Return the collation of a character type: its own, else the table's."""
    collation = table
    if kind.charset is not None:
        collation = default_collation(server, kind.charset, chosen)
    if kind.collation is not None:
        collation = collation_named(server, kind.collation, collation.charset)
    return binary_collation(collation.charset) if kind.binary else collation


def _character_type(server: Server, kind: ColumnType, collation: Collation) -> ColumnType:
    kind = replace(kind, charset=collation.charset, collation=collation.name, binary=False)
    if kind.name in MEMBERS:
        if collation.charset != BINARY:
            kind = replace(kind, arguments=tuple(member.rstrip(" ") for member in kind.arguments))
        return kind
    if collation.charset == BINARY:
        kind = replace(kind, name=_BYTES[kind.name], charset=None, collation=None)
    kind = _sized(server, kind, character_bytes(collation.name))
    return replace(kind, arguments=_arguments(server, kind))


def _sized(server: Server, kind: ColumnType, character_bytes: int) -> ColumnType:
    """Return the type that holds the declared length: for TEXT(n), BLOB(n) and a VARCHAR that is too long."""
    family = BLOBS if kind.name in BLOBS or kind.name == "varbinary" else TEXT_SIZES
    if kind.name in ("text", "blob") and kind.arguments:
        size = int(kind.arguments[0])
        # MariaDB ignores a length of zero.
        name = kind.name if not size and server.mariadb else _smallest(family, size * character_bytes)
        return replace(kind, name=name, arguments=())
    if kind.name in ("varchar", "varbinary") and kind.arguments:
        size = int(kind.arguments[0]) * character_bytes
        if size > LONGEST_VARCHAR:  # accepted by a session that is not strict
            return replace(kind, name=_smallest(family, size), arguments=())
    return kind


def _smallest(family: Mapping[str, int], size: int) -> str:
    return next((name for name, most in family.items() if size <= most), list(family)[-1])


def _integer(server: Server, kind: ColumnType) -> ColumnType:
    width = kind.arguments[0] if kind.arguments and int(kind.arguments[0]) else ""
    if not server.can.shows_widths and not kind.zerofill:
        is_bool = kind.name == "tinyint" and width == "1" and not kind.unsigned
        return replace(kind, arguments=("1",) if is_bool else ())
    return replace(kind, arguments=(width or str(WIDTHS[kind.name][kind.unsigned]),))


def _arguments(server: Server, kind: ColumnType) -> tuple[str, ...]:
    """Return the type's arguments with those that the server adds or drops."""
    given = kind.arguments
    match kind.name:
        case "decimal":
            precision = given[0] if given and int(given[0]) else "10"
            return (precision, given[1] if len(given) > 1 else "0")
        case "bit" | "char" | "binary":
            return given or ("1",)
        case "year":
            return ("4",) if server.can.shows_widths else ()
        case "vector":
            return given or (_MYSQL_VECTOR,)
        case name if name in _FRACTIONS:
            return given if given and int(given[0]) else ()
    return given


def octets(kind: ColumnType) -> int | None:
    """Return the maximum bytes of a resolved string type; None for other types."""
    if kind.name in TEXT_SIZES or kind.name in BLOBS:
        return (TEXT_SIZES | BLOBS)[kind.name]
    if kind.name == "vector":
        return int(kind.arguments[0]) * _VECTOR_ELEMENT
    if kind.name in ("binary", "varbinary"):
        return int(kind.arguments[0])
    if kind.name not in CHARACTER_TYPES:
        return None
    sizes = [_length(kind, member) for member in kind.arguments] if kind.name in MEMBERS else [int(kind.arguments[0])]
    size = sum(sizes) + len(sizes) - 1 if kind.name == "set" else max(sizes)
    return size * character_bytes(str(kind.collation))


def _length(kind: ColumnType, member: str) -> int:
    return len(member.encode()) if kind.charset == BINARY else len(member)


def packed_bytes(kind: ColumnType) -> int:
    """Return the bytes that a value of a type other than a string takes in a key.

    >>> packed_bytes(ColumnType("decimal", ("12", "4"))), packed_bytes(ColumnType("datetime", ("6",)))
    (6, 8)
    """
    sizes = [int(argument) for argument in kind.arguments if argument.isdecimal()]
    match kind.name:
        case "decimal":
            precision, scale = sizes
            return _digits_bytes(precision - scale) + _digits_bytes(scale)
        case "bit":
            return (sizes[0] + 7) // 8
        case "enum":
            return 1 if len(kind.arguments) <= _SMALL_ENUM else 2
        case "set":
            return next(size for size in _SET_SIZES if len(kind.arguments) <= size * 8)
        case "time" | "datetime" | "timestamp":
            return _PACKED[kind.name] + (sum(sizes) + 1) // 2
    return _PACKED.get(kind.name, 0)


def _digits_bytes(count: int) -> int:
    return count // _GROUP * 4 + _OF_DIGITS[count % _GROUP]
