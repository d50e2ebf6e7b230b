"""One column's cell in a row image: how long it is, and how its bytes become the canonical value.

A `Cell` is made from what the table map says (type code, metadata) and what the catalogue says (`Column`); where the
two contradict each other there is no cell but a reason, which `table_map.py` turns into SchemaMismatch. The canonical
value is the one that SELECT gives through `schema.codec.row_reader`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema import numbers, temporal
from airflow_provider_dm.engine.schema.codec import Transform, UnsupportedColumnType, enum_members
from airflow_provider_dm.engine.schema.model import Column

TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE = 7, 8, 9, 10, 11, 12, 13, 14
VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 15, 16, 17, 18, 19
VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255
MARIADB_BLOB_COMPRESSED, MARIADB_VARCHAR_COMPRESSED = 140, 141

METADATA_SIZE: Final = {
    **dict.fromkeys((TINY, SHORT, LONG, 6, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE), 0),
    **dict.fromkeys((FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, VECTOR, JSON, BLOB, GEOMETRY), 1),
    **dict.fromkeys((VARCHAR, BIT, NEWDECIMAL, ENUM, SET, VAR_STRING, STRING), 2),
    MARIADB_BLOB_COMPRESSED: 1,
    MARIADB_VARCHAR_COMPRESSED: 2,
}
"""Bytes of metadata in a table map, by type code. A code that is missing ends the reading of the map."""

_INTEGERS: Final = {
    "tinyint": (TINY, 1, "b"),
    "smallint": (SHORT, 2, "h"),
    "mediumint": (INT24, 3, ""),
    "int": (LONG, 4, "i"),
    "bigint": (LONGLONG, 8, "q"),
}
_LOB_LENGTH: Final = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_LOBS: Final = {f"{size}{kind}": length for size, length in _LOB_LENGTH.items() for kind in ("text", "blob")}
_OLD_TIMES: Final[dict[str, tuple[int, int, Transform]]] = {
    "time": (TIME, 3, temporal.unpack_old_time),
    "datetime": (DATETIME, 8, temporal.unpack_old_datetime),
    "timestamp": (TIMESTAMP, 4, temporal.unpack_old_timestamp),
}
_NEW_TIMES: Final[dict[str, tuple[int, int, Callable[[int], Transform]]]] = {
    "time": (TIME2, 3, temporal.time2_unpacker),
    "datetime": (DATETIME2, 5, temporal.datetime2_unpacker),
    "timestamp": (TIMESTAMP2, 4, temporal.timestamp2_unpacker),
}
_NUMERIC: Final = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, YEAR})


class Contradiction(Exception):
    """The table map's type is not the catalogue's; the text says what the map has."""


@dataclass(frozen=True)
class Cell:
    """`size` bytes, or (size 0) a little-endian length of `prefix` bytes and as many bytes.

    `convert`: those bytes -> canonical value; None: the same. `number`: the struct code with which a fixed cell is an
    integer whose decimal digits are the canonical value (a shorter way to what `convert` does).
    """

    size: int = 0
    prefix: int = 0
    convert: Transform | None = None
    number: str = ""


def is_numeric(code: int) -> bool:
    """Whether a type has a bit in the table map's list of unsigned columns."""
    return code in _NUMERIC


def cell_for(table: TableName, column: Column, code: int, metadata: bytes) -> Cell:
    """The cell of a column. Raises Contradiction, UnsupportedColumnType."""
    try:
        cell = _cell(table, column, code, metadata)
    except (numbers.MalformedNumber, temporal.MalformedTime) as error:
        raise Contradiction(str(error)) from error
    if cell is None:
        raise UnsupportedColumnType(str(table), column.name, column.column_type)
    return cell


def _cell(table: TableName, column: Column, code: int, metadata: bytes) -> Cell | None:
    kind = column.data_type
    if kind in _INTEGERS:
        return _integer(column, code)
    if kind in _NEW_TIMES:
        return _time(column, code, metadata)
    if kind in _LOBS:
        _expect(code == BLOB and metadata[0] == _LOBS[kind], f"a LOB of type {code}/{metadata.hex()}")
        return Cell(prefix=_LOBS[kind])
    match kind:
        case "decimal":
            _expect(code == NEWDECIMAL, f"type {code}")
            _expect(tuple(metadata) == (column.numeric_precision, column.numeric_scale), f"DECIMAL{tuple(metadata)}")
            precision, scale = metadata
            return Cell(numbers.decimal_size(precision, scale), convert=numbers.decimal_unpacker(precision, scale))
        case "float":
            _expect(code == FLOAT and metadata[0] == 4, f"type {code}/{metadata.hex()}")
            return Cell(4, convert=numbers.unpack_float)
        case "double":
            _expect(code == DOUBLE and metadata[0] == 8, f"type {code}/{metadata.hex()}")
            return Cell(8, convert=numbers.unpack_double)
        case "bit":
            return _bits(column, code, metadata)
        case "year":
            _expect(code == YEAR, f"type {code}")
            return Cell(1, convert=temporal.unpack_year)
        case "date":
            _expect(code in (DATE, NEWDATE), f"type {code}")
            return Cell(3, convert=temporal.unpack_old_date)
        case "varchar" | "varbinary":
            length = int.from_bytes(metadata, "little")
            _expect(code == VARCHAR and length == column.octet_length, f"type {code} of {length} bytes")
            return Cell(prefix=1 if length < 256 else 2)
        case "char" | "binary" | "enum" | "set":
            _expect(code == STRING, f"type {code}")
            return _string(table, column, *_real_type(metadata))
    return None


def _expect(agreed: bool, found: str) -> None:
    if not agreed:
        raise Contradiction(found)


def _integer(column: Column, code: int) -> Cell:
    expected, size, number = _INTEGERS[column.data_type]
    _expect(code == expected, f"type {code}")
    convert = _unpack_unsigned if column.unsigned else _unpack_signed
    return Cell(size, convert=convert, number=number.upper() if column.unsigned else number)


def _unpack_signed(data: bytes) -> bytes:
    return b"%d" % int.from_bytes(data, "little", signed=True)


def _unpack_unsigned(data: bytes) -> bytes:
    return b"%d" % int.from_bytes(data, "little")


def _time(column: Column, code: int, metadata: bytes) -> Cell:
    new_code, size, unpacker = _NEW_TIMES[column.data_type]
    fsp = column.datetime_precision or 0
    if code == new_code:
        _expect(metadata[0] == fsp, f"a precision of {metadata[0]}")
        return Cell(size + temporal.fraction_size(fsp), convert=unpacker(fsp))
    old_code, size, unpack = _OLD_TIMES[column.data_type]
    _expect(code == old_code, f"type {code}")
    _expect(fsp == 0, f"type {code}, the form of before MySQL 5.6, which has no fraction (ALTER TABLE … FORCE)")
    return Cell(size, convert=unpack)


def _bits(column: Column, code: int, metadata: bytes) -> Cell:
    bits = metadata[1] * 8 + metadata[0] if code == BIT else 0
    _expect(bits == column.numeric_precision, f"type {code} of {bits} bits")
    return Cell((bits + 7) // 8)


def _real_type(metadata: bytes) -> tuple[int, int]:
    """(type, length) of a STRING: two bits of the length hide, inverted, in the type's byte."""
    first, length = metadata
    if first & 0x30 != 0x30:
        return first | 0x30, length | (((first & 0x30) ^ 0x30) << 4)
    return first, length


def _string(table: TableName, column: Column, real_type: int, length: int) -> Cell:
    if column.data_type in ("enum", "set"):
        names = enum_members(table, column)
        enum = column.data_type == "enum"
        _expect(real_type == (ENUM if enum else SET), f"type {real_type}")
        _expect(length == (_enum_size(len(names)) if enum else _set_size(len(names))), f"{length} bytes")
        return Cell(length, convert=enum_reader(names) if enum else set_reader(names))
    _expect(real_type == STRING and length == column.octet_length, f"type {real_type} of {length} bytes")
    prefix = 1 if length < 256 else 2
    return Cell(prefix=prefix, convert=_padder(length) if column.data_type == "binary" else None)


def _enum_size(count: int) -> int:
    return 1 if count < 256 else 2


def _set_size(count: int) -> int:
    size = (count + 7) // 8
    return size if size <= 4 else 8


def _padder(length: int) -> Transform:
    """BINARY(n): the log drops trailing zeros."""
    return lambda data: data.ljust(length, b"\0")


def enum_reader(names: tuple[bytes, ...]) -> Transform:
    r"""An ENUM's index to its member; 0 is the empty value of an invalid insert.

    >>> enum_reader((b"a", b"b"))(b"\x02")
    b'b'
    """
    texts = (b"", *names)
    return lambda data: texts[int.from_bytes(data, "little")]


def set_reader(names: tuple[bytes, ...]) -> Transform:
    r"""A SET's bits to its members, separated by commas.

    >>> set_reader((b"a", b"b", b"c"))(b"\x05")
    b'a,c'
    """

    @lru_cache(maxsize=4096)
    def read(data: bytes) -> bytes:
        bits = int.from_bytes(data, "little")
        if bits >> len(names):
            raise numbers.MalformedNumber(f"a SET of {len(names)} members with the bits {bits:#x}")
        return b",".join(name for index, name in enumerate(names) if bits >> index & 1)

    return read
