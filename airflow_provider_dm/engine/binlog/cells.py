"""One column's cell in a row image: its length, and the conversion of its bytes to the canonical value.

A `Cell` is data: the plain decoder (`row_decoder.decoder_of`, through `reader`) and the compiled kernels are both
derived from it. It is made from the table map (type code, metadata) and the catalogue (`Column`). If the two contradict
each other, `cell_for` raises Contradiction. The canonical value equals the value that `schema.codec.row_reader` returns
for a SELECT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from typing import Final

from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.errors import Contradiction
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema import addresses, numbers, strings, temporal
from airflow_provider_dm.engine.schema.codec import GEOMETRIES, Transform, enum_members
from airflow_provider_dm.engine.schema.compression import LARGEST_VALUE, decompress_cell
from airflow_provider_dm.engine.schema.errors import MalformedValue, UnsupportedColumnType
from airflow_provider_dm.engine.schema.json_binary import json_text
from airflow_provider_dm.engine.schema.model import Column

# Missing in mysql-replication: MySQL 9's vectors, MariaDB's compressed columns.
VECTOR: Final = 242
MARIADB_BLOB_COMPRESSED: Final = 140
MARIADB_VARCHAR_COMPRESSED: Final = 141

METADATA_SIZE: Final = {
    **dict.fromkeys((
        FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.NULL, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.LONGLONG,
        FIELD_TYPE.INT24, FIELD_TYPE.DATE, FIELD_TYPE.TIME, FIELD_TYPE.DATETIME, FIELD_TYPE.YEAR, FIELD_TYPE.NEWDATE,
    ), 0),
    **dict.fromkeys((
        FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE, FIELD_TYPE.TIMESTAMP2, FIELD_TYPE.DATETIME2, FIELD_TYPE.TIME2, VECTOR,
        FIELD_TYPE.JSON, FIELD_TYPE.BLOB, FIELD_TYPE.GEOMETRY, MARIADB_BLOB_COMPRESSED,
    ), 1),
    **dict.fromkeys((
        FIELD_TYPE.VARCHAR, FIELD_TYPE.BIT, FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.ENUM, FIELD_TYPE.SET,
        FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, MARIADB_VARCHAR_COMPRESSED,
    ), 2),
}  # fmt: skip
"""Bytes of metadata in a table map, by type code. A missing code makes the map unreadable."""


class CellKind(IntEnum):
    """The conversion of a cell's bytes to the canonical value."""

    SIGNED = 0  # little-endian
    UNSIGNED = 1
    FLOAT = 2
    DOUBLE = 3
    DECIMAL = 4  # precision, scale
    BITS = 5  # big-endian, unchanged
    YEAR = 6
    DATE = 7
    TIME2 = 8  # precision: digits of the fraction
    DATETIME2 = 9
    TIMESTAMP2 = 10
    OLD_TIME = 11  # the forms before MySQL 5.6, without fraction
    OLD_DATETIME = 12
    OLD_TIMESTAMP = 13
    BYTES = 14  # unchanged
    PADDED = 15  # right-padded with zeros to `precision` bytes
    ENUM = 16  # members
    SET = 17  # members
    JSON = 18  # MySQL's binary JSON
    UUID = 19  # MariaDB's types, up to COMPRESSED
    INET4 = 20
    INET6 = 21
    COMPRESSED = 22  # a byte with the method, and the value
    HIDDEN = 23  # a column that the catalogue does not show: its cell has bytes but no value


_INTEGERS: Final = {
    "tinyint": (FIELD_TYPE.TINY, 1),
    "smallint": (FIELD_TYPE.SHORT, 2),
    "mediumint": (FIELD_TYPE.INT24, 3),
    "int": (FIELD_TYPE.LONG, 4),
    "bigint": (FIELD_TYPE.LONGLONG, 8),
}
_LOB_LENGTH: Final = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_PREFIXES: Final = {**dict.fromkeys(GEOMETRIES, FIELD_TYPE.GEOMETRY), "json": FIELD_TYPE.JSON, "vector": VECTOR}
"""Types whose metadata is the size of their length field, always four bytes."""
_ADDRESSES: Final = {
    "uuid": (addresses.UUID_SIZE, CellKind.UUID),
    "inet4": (addresses.INET4_SIZE, CellKind.INET4),
    "inet6": (addresses.INET6_SIZE, CellKind.INET6),
}
_LOBS: Final = {f"{size}{kind}": length for size, length in _LOB_LENGTH.items() for kind in ("text", "blob")}
_OLD_TIMES: Final = {
    "time": (FIELD_TYPE.TIME, 3, CellKind.OLD_TIME),
    "datetime": (FIELD_TYPE.DATETIME, 8, CellKind.OLD_DATETIME),
    "timestamp": (FIELD_TYPE.TIMESTAMP, 4, CellKind.OLD_TIMESTAMP),
}
_NEW_TIMES: Final = {
    "time": (FIELD_TYPE.TIME2, 3, CellKind.TIME2),
    "datetime": (FIELD_TYPE.DATETIME2, 5, CellKind.DATETIME2),
    "timestamp": (FIELD_TYPE.TIMESTAMP2, 4, CellKind.TIMESTAMP2),
}
NUMERIC: Final = frozenset({
    FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.FLOAT,
    FIELD_TYPE.DOUBLE, FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.YEAR,
})  # fmt: skip
"""Types with a bit in the table map's list of unsigned columns."""


@dataclass(frozen=True)
class Cell:
    """A cell of `size` bytes, or (size 0) of a little-endian length in `prefix` bytes and as many bytes of data."""

    kind: CellKind
    size: int = 0
    prefix: int = 0
    precision: int = 0
    """The precision of a DECIMAL; digits of a fraction; length of a BINARY; maximum size of a compressed value."""
    scale: int = 0
    members: tuple[bytes, ...] = ()


def reader(cell: Cell) -> Transform | None:
    """Return the plain function from the cell's bytes to the canonical value; None if they are the same.

    The function raises ValueError or IndexError for bytes that no server writes.
    """
    return _READERS[cell.kind](cell)


def cell_for(table: TableName, column: Column, code: int, metadata: bytes) -> Cell:
    """Return the cell of a column. Raises Contradiction, UnsupportedColumnType."""
    try:
        cell = _cell(table, column, code, metadata)
    except MalformedValue as error:
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
    if kind in _ADDRESSES:
        return _address(column, code, metadata)
    if code in (MARIADB_BLOB_COMPRESSED, MARIADB_VARCHAR_COMPRESSED):
        return _compressed(column, code, metadata)
    if kind in _PREFIXES and code == _PREFIXES[kind]:
        _expect(metadata[0] == 4, f"a length of {metadata[0]} bytes")
        return Cell(CellKind.JSON if kind == "json" else CellKind.BYTES, prefix=4)
    if kind in _LOBS:
        _expect(code == FIELD_TYPE.BLOB and metadata[0] == _LOBS[kind], f"a LOB of type {code}/{metadata.hex()}")
        return Cell(CellKind.BYTES, prefix=_LOBS[kind])
    match kind:
        case "decimal":
            _expect(code == FIELD_TYPE.NEWDECIMAL, f"type {code}")
            _expect(tuple(metadata) == (column.numeric_precision, column.numeric_scale), f"DECIMAL{tuple(metadata)}")
            precision, scale = metadata
            size = numbers.decimal_size(precision, scale)
            return Cell(CellKind.DECIMAL, size, precision=precision, scale=scale)
        case "float":
            _expect(code == FIELD_TYPE.FLOAT and metadata[0] == 4, f"type {code}/{metadata.hex()}")
            return Cell(CellKind.FLOAT, 4)
        case "double":
            _expect(code == FIELD_TYPE.DOUBLE and metadata[0] == 8, f"type {code}/{metadata.hex()}")
            return Cell(CellKind.DOUBLE, 8)
        case "bit":
            return _bits(column, code, metadata)
        case "year":
            _expect(code == FIELD_TYPE.YEAR, f"type {code}")
            return Cell(CellKind.YEAR, 1)
        case "date":
            _expect(code in (FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE), f"type {code}")
            return Cell(CellKind.DATE, 3)
        case "varchar" | "varbinary" | "vector":  # MariaDB's VECTOR is a VARBINARY
            length = int.from_bytes(metadata, "little")
            _expect(code == FIELD_TYPE.VARCHAR and length == column.octet_length, f"type {code} of {length} bytes")
            return Cell(CellKind.BYTES, prefix=1 if length < 256 else 2)
        case "char" | "binary" | "enum" | "set":
            _expect(code == FIELD_TYPE.STRING, f"type {code}")
            return _string(table, column, *real_type(metadata))
    return None


def _expect(agreed: bool, found: str) -> None:
    if not agreed:
        raise Contradiction(found)


def _integer(column: Column, code: int) -> Cell:
    expected, size = _INTEGERS[column.data_type]
    _expect(code == expected, f"type {code}")
    return Cell(CellKind.UNSIGNED if column.unsigned else CellKind.SIGNED, size)


def _time(column: Column, code: int, metadata: bytes) -> Cell:
    new_code, size, kind = _NEW_TIMES[column.data_type]
    fsp = column.datetime_precision or 0
    if code == new_code:
        _expect(metadata[0] == fsp, f"a precision of {metadata[0]}")
        return Cell(kind, size + temporal.fraction_size(fsp), precision=fsp)
    old_code, size, kind = _OLD_TIMES[column.data_type]
    _expect(code == old_code, f"type {code}")
    _expect(fsp == 0, f"type {code}, the format before MySQL 5.6, which has no fraction (ALTER TABLE … FORCE)")
    return Cell(kind, size)


def _bits(column: Column, code: int, metadata: bytes) -> Cell:
    # Whole bytes and the remaining bits. Eight remaining bits count as another byte.
    bits = metadata[1] * 8 + metadata[0] if code == FIELD_TYPE.BIT and metadata[0] < 8 else 0
    _expect(bits == column.numeric_precision, f"type {code} of {bits} bits")
    return Cell(CellKind.BITS, (bits + 7) // 8)


def _address(column: Column, code: int, metadata: bytes) -> Cell:
    size, kind = _ADDRESSES[column.data_type]
    _expect(
        code == FIELD_TYPE.STRING and real_type(metadata) == (FIELD_TYPE.STRING, size), f"type {code}/{metadata.hex()}"
    )
    return Cell(kind, prefix=1)


def _compressed(column: Column, code: int, metadata: bytes) -> Cell:
    """Return the cell of a compressed column.

    The metadata are those of the plain column, except that a VARCHAR's length includes the leading byte.
    """
    _expect("COMPRESSED" in column.column_type, f"type {code}, which is compressed")
    most = min(column.octet_length or 0, LARGEST_VALUE)
    if code == MARIADB_BLOB_COMPRESSED:
        _expect(metadata[0] == _LOBS.get(column.data_type), f"a compressed LOB of {metadata[0]} bytes of length")
        return Cell(CellKind.COMPRESSED, prefix=metadata[0], precision=most)
    length = int.from_bytes(metadata, "little")
    _expect(length == (column.octet_length or 0) + 1, f"a compressed string of {length} bytes")
    return Cell(CellKind.COMPRESSED, prefix=1 if length < 256 else 2, precision=most)


def real_type(metadata: bytes) -> tuple[int, int]:
    """Return (type, length) of a STRING: two bits of the length are stored, inverted, in the type's byte."""
    first, length = metadata
    if first & 0x30 != 0x30:
        return first | 0x30, length | (((first & 0x30) ^ 0x30) << 4)
    return first, length


def _string(table: TableName, column: Column, real_type: int, length: int) -> Cell:
    if column.data_type in ("enum", "set"):
        names = enum_members(table, column)
        enum = column.data_type == "enum"
        _expect(real_type == (FIELD_TYPE.ENUM if enum else FIELD_TYPE.SET), f"type {real_type}")
        _expect(length == ((1 if len(names) < 256 else 2) if enum else _set_size(len(names))), f"{length} bytes")
        return Cell(CellKind.ENUM if enum else CellKind.SET, length, members=names)
    _expect(real_type == FIELD_TYPE.STRING and length == column.octet_length, f"type {real_type} of {length} bytes")
    prefix = 1 if length < 256 else 2
    if column.data_type == "binary":
        return Cell(CellKind.PADDED, prefix=prefix, precision=length)
    return Cell(CellKind.BYTES, prefix=prefix)


def _set_size(count: int) -> int:
    size = (count + 7) // 8
    return size if size <= 4 else 8


# The plain readers


def _unpack_signed(data: bytes) -> bytes:
    return b"%d" % int.from_bytes(data, "little", signed=True)


def _unpack_unsigned(data: bytes) -> bytes:
    return b"%d" % int.from_bytes(data, "little")


def _padder(length: int) -> Transform:
    """Return a function that pads a BINARY(n) with zeros: the log omits trailing ones."""

    def pad(data: bytes) -> bytes:
        if len(data) > length:
            raise ValueError(f"a BINARY({length}) of {len(data)} bytes")
        return data.ljust(length, b"\0")

    return pad


def enum_reader(names: tuple[bytes, ...]) -> Transform:
    r"""Return a function from an ENUM's index to its member; 0 is the value of an invalid insert.

    >>> enum_reader((b"a", b"b"))(b"\x02")
    b'b'
    """
    texts = (strings.INVALID_MEMBER, *names)
    return lambda data: texts[int.from_bytes(data, "little")]


def set_reader(names: tuple[bytes, ...]) -> Transform:
    r"""Return a function from a SET's bits to its members, separated by commas.

    >>> set_reader((b"a", b"b", b"c"))(b"\x05")
    b'a,c'
    """

    @lru_cache(maxsize=4096)
    def read(data: bytes) -> bytes:
        bits = int.from_bytes(data, "little")
        if bits >> len(names):
            raise MalformedValue(f"a SET of {len(names)} members with the bits {bits:#x}")
        return b",".join(name for index, name in enumerate(names) if bits >> index & 1)

    return read


_READERS: Final[dict[CellKind, Callable[[Cell], Transform | None]]] = {
    CellKind.SIGNED: lambda _: _unpack_signed,
    CellKind.UNSIGNED: lambda _: _unpack_unsigned,
    CellKind.FLOAT: lambda _: numbers.unpack_float,
    CellKind.DOUBLE: lambda _: numbers.unpack_double,
    CellKind.DECIMAL: lambda cell: numbers.decimal_unpacker(cell.precision, cell.scale),
    CellKind.BITS: lambda _: None,
    CellKind.YEAR: lambda _: temporal.unpack_year,
    CellKind.DATE: lambda _: temporal.unpack_old_date,
    CellKind.TIME2: lambda cell: temporal.time2_unpacker(cell.precision),
    CellKind.DATETIME2: lambda cell: temporal.datetime2_unpacker(cell.precision),
    CellKind.TIMESTAMP2: lambda cell: temporal.timestamp2_unpacker(cell.precision),
    CellKind.OLD_TIME: lambda _: temporal.unpack_old_time,
    CellKind.OLD_DATETIME: lambda _: temporal.unpack_old_datetime,
    CellKind.OLD_TIMESTAMP: lambda _: temporal.unpack_old_timestamp,
    CellKind.BYTES: lambda _: None,
    CellKind.PADDED: lambda cell: _padder(cell.precision),
    CellKind.ENUM: lambda cell: enum_reader(cell.members),
    CellKind.SET: lambda cell: set_reader(cell.members),
    CellKind.JSON: lambda _: json_text,
    CellKind.UUID: lambda _: addresses.uuid_text,
    CellKind.INET4: lambda _: addresses.inet4_text,
    CellKind.INET6: lambda _: addresses.inet6_text,
    CellKind.COMPRESSED: lambda cell: partial(decompress_cell, most=cell.precision),
    CellKind.HIDDEN: lambda _: None,
}
