"""Reading, writing and hashing of a column's values: one table from data type to `Codec`.

`Value` is the canonical value of a cell, `None` or bytes: the bytes that the server's text protocol sends in the pinned
session (`character_set_results = NULL`, time zone UTC), with three exceptions that make it exact and comparable: FLOAT
and DOUBLE are `repr` of the stored number, leading zeros of ZEROFILL are dropped, and members of ENUM and SET are in
UTF-8, an ENUM's index 0 being `strings.INVALID_MEMBER`. The copier (SELECT) and the binlog decoder (`binlog/cells.py`)
return identical bytes for the same cell, which tests/integration/binlog verify.

A type that is not in the table raises UnsupportedColumnType; there is no default.

The SELECT list expects cells as bytes: a connection from `mysql.connection` with empty `decoders`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, TypeAlias

from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.literals import NULL, hexadecimal, introduced, quote_utf8
from airflow_provider_dm.engine.schema import json_text, numbers, strings, temporal
from airflow_provider_dm.engine.schema.charsets import text_of
from airflow_provider_dm.engine.schema.errors import MalformedValue, UnknownCharacter, UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Column, Table

Value: TypeAlias = bytes | None
Row: TypeAlias = tuple[Value, ...]
Transform: TypeAlias = Callable[[bytes], bytes]

INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})

_SHAPES: Final = "geometry point linestring polygon multipoint multilinestring multipolygon"
GEOMETRIES: Final = frozenset({*_SHAPES.split(), "geometrycollection", "geomcollection"})
RAW: Final = GEOMETRIES | {"vector"}
"""Types whose bytes are the same in both flavours: SRID and WKB, or floats."""


def _as_double(name: str) -> str:
    # A FLOAT is printed with six digits, and `+ 0e0` would turn -0.0 into 0.0.
    return f"{name} * 1e0"


def _as_utf8(name: str) -> str:
    return f"CONVERT({name} USING utf8mb4)"


def _as_member(name: str) -> str:
    # The text of the invalid value equals that of a member that is the empty string. Binary, as x'ff' is not UTF-8.
    return f"IF({name} + 0 = 0, x'{strings.INVALID_MEMBER.hex()}', CAST({_as_utf8(name)} AS BINARY))"


ENUM_INVALID: Final = b"0"
"""The literal of an ENUM's index 0, which a strict session rejects (see downstream/row_statements.py)."""


class LiteralStyle(IntEnum):
    """The conversion of a canonical value to a SQL literal."""

    PLAIN = 0  # unchanged: integers, decimals
    FLOAT = 1  # with an exponent
    BITS = 2  # big-endian bytes as a decimal number
    QUOTED = 3  # in quotes, nothing to escape
    TEXT = 4  # UTF-8: in quotes, escaped
    CHARSET = 5  # ASCII in quotes, escaped; else hexadecimal after the charset's introducer
    CHARSET_HEX = 6  # always hexadecimal: in these charsets some bytes below 128 are not ASCII
    HEX = 7
    JSON = 8  # the target's flavour decides
    ENUM = 9  # TEXT, but the invalid value is the number 0


@dataclass(frozen=True)
class Codec:
    style: LiteralStyle
    key_form: Transform | None
    """A coarse normal form for hashing rows to buckets: values that a target may treat as equal have the same form.
    None: no such form is known without the collation's weights. It considers only its own column's collation: use it
    only if the *target's* column has a key form as well."""
    select: Callable[[str], str] = str
    """Quoted column name -> SELECT expression."""
    from_text: Transform | None = None
    """Result of that expression -> canonical value; None if they are the same."""
    introducer: bytes = b""
    """The charset's name for CHARSET and CHARSET_HEX."""
    column: str = ""
    """The column, for error messages about its text."""

    def literal(self, target: Flavour | None = None) -> Transform:
        """Return the function from a canonical value other than None to its SQL literal for a server of this flavour,
        or of any flavour if None.
        """
        return _LITERALS[self.style](self, target)


def _charset_literal(codec: Codec, target: Flavour | None) -> Transform:
    beyond_ascii = _charset_hex_literal(codec, target)

    def literal(value: bytes) -> bytes:
        return quote_utf8(value) if value.isascii() else beyond_ascii(value)

    return literal


def _charset_hex_literal(codec: Codec, target: Flavour | None) -> Transform:
    if target is None or not CAPABILITIES[target].text_is_utf8:
        return lambda value: introduced(codec.introducer, value)
    charset = codec.introducer.decode()

    def literal(value: bytes) -> bytes:
        try:
            return quote_utf8(text_of(charset, value).encode())
        except UnicodeError:
            raise UnknownCharacter(codec.column, charset) from None  # None: the message would quote the value

    return literal


def _json_literal(_codec: Codec, target: Flavour | None) -> Transform:
    return json_text.mysql_literal if target and CAPABILITIES[target].json_keeps_decimals else quote_utf8


def _enum_literal(value: bytes) -> bytes:
    return ENUM_INVALID if value == strings.INVALID_MEMBER else quote_utf8(value)


_LITERALS: Final[dict[LiteralStyle, Callable[[Codec, Flavour | None], Transform]]] = {
    LiteralStyle.PLAIN: lambda *_: bytes,
    LiteralStyle.FLOAT: lambda *_: numbers.float_literal,
    LiteralStyle.BITS: lambda *_: numbers.bits_literal,
    LiteralStyle.QUOTED: lambda *_: temporal.quoted_time,
    LiteralStyle.TEXT: lambda *_: quote_utf8,
    LiteralStyle.CHARSET: _charset_literal,
    LiteralStyle.CHARSET_HEX: _charset_hex_literal,
    LiteralStyle.HEX: lambda *_: hexadecimal,
    LiteralStyle.JSON: _json_literal,
    LiteralStyle.ENUM: lambda *_: _enum_literal,
}


def codec_for(table: TableName, column: Column) -> Codec:
    """Return the codec of a column. Raises UnsupportedColumnType."""
    codec = _codec_of_type(column) or _string_codec(table, column)
    if codec is None:
        raise UnsupportedColumnType(str(table), column.name, _described(column))
    return codec


def check_source_column(table: TableName, column: Column) -> None:
    """Raise UnsupportedColumnType if the column has no codec or, as an ENUM or SET, members that are not known.

    A target's members need not be known: its values are read and written as text.
    """
    codec_for(table, column)
    if column.data_type in ("enum", "set"):
        enum_members(table, column)


def _described(column: Column) -> str:
    return f"{column.column_type} CHARACTER SET {column.charset}" if column.charset else column.column_type


def _codec_of_type(column: Column) -> Codec | None:
    """Return the codec of a column for types that do not depend on a charset."""
    zerofill = "zerofill" in column.column_type.lower().split()
    match column.data_type:
        case data_type if data_type in INTEGERS:
            return Codec(LiteralStyle.PLAIN, bytes, from_text=numbers.integer_from_text if zerofill else None)
        case "decimal":
            return Codec(
                LiteralStyle.PLAIN, numbers.decimal_key, from_text=numbers.decimal_from_text if zerofill else None
            )
        case "float" | "double":
            # No key form: the target may have a FLOAT, in which several of these numbers are equal.
            return Codec(LiteralStyle.FLOAT, None, select=_as_double, from_text=numbers.float_from_text)
        case "bit":
            return Codec(LiteralStyle.BITS, numbers.bits_key)
        case "date" | "year" | "uuid" | "inet4" | "inet6":
            return Codec(LiteralStyle.QUOTED, bytes)
        case "time" | "datetime" | "timestamp":
            return Codec(LiteralStyle.QUOTED, temporal.time_key)
        case "json":
            return Codec(LiteralStyle.JSON, None)
        case data_type if data_type in BINARIES:
            return Codec(LiteralStyle.HEX, strings.binary_key)
        case data_type if data_type in RAW:
            return Codec(LiteralStyle.HEX, None)
    return None


def _string_codec(table: TableName, column: Column) -> Codec | None:
    if column.data_type in ("enum", "set"):
        by_code_points = (column.collation or "").endswith("_bin")
        enum = column.data_type == "enum"
        return Codec(
            LiteralStyle.ENUM if enum else LiteralStyle.TEXT,
            strings.member_key if by_code_points else None,
            select=_as_member if enum else _as_utf8,
        )
    if column.data_type not in TEXTS or column.charset not in strings.CHARSETS:
        return None
    key_form = strings.text_key(column.charset, column.collation)
    if column.charset in strings.UTF8_CHARSETS:
        return Codec(LiteralStyle.TEXT, key_form)
    style = LiteralStyle.CHARSET if column.charset in strings.ASCII_CHARSETS else LiteralStyle.CHARSET_HEX
    return Codec(style, key_form, introducer=column.charset.encode(), column=f"{table}.{column.name}")


def enum_members(table: TableName, column: Column) -> tuple[bytes, ...]:
    """Return the members of an ENUM or SET column in UTF-8. Raises UnsupportedColumnType if they are not known."""
    try:
        members = strings.members(column.column_type, column.charset or "binary")
        if column.data_type == "set" and b"" in members:
            raise MalformedValue("with an empty member, different values have the same text")
        return members
    except MalformedValue as error:
        raise UnsupportedColumnType(str(table), column.name, f"{_described(column)} ({error})") from error


def selected(codec: Codec, column: Column) -> str:
    """Return the SELECT expression of a column; for a column that routing adds, the literal of its value."""
    if column.constant is None:
        return codec.select(quote(column.name))
    return codec.literal()(column.constant).decode("utf-8")


@dataclass(frozen=True)
class RowReader:
    """The conversion of a row of bytes, the result of a SELECT, to canonical values."""

    converted: tuple[tuple[int, Transform], ...]
    """The columns that the server does not write in the canonical way, and how they are converted."""

    def __call__(self, cells: Sequence[Value]) -> Row:
        if not self.converted:
            return tuple(cells)
        row = list(cells)
        for index, convert in self.converted:
            cell = row[index]
            if cell is not None:
                row[index] = convert(cell)
        return tuple(row)


def row_reader(table: Table) -> tuple[str, RowReader]:
    """Return the SELECT list of a table (all columns, in order), and the conversion of its rows."""
    codecs = _codecs(table)
    select = ", ".join(selected(codec, column) for codec, column in zip(codecs, table.columns, strict=True))
    return select, RowReader(
        tuple((index, codec.from_text) for index, codec in enumerate(codecs) if codec.from_text is not None)
    )


@lru_cache(maxsize=1024)
def row_literals(table: Table, target: Flavour) -> Callable[[Row], tuple[bytes, ...]]:
    """Return a function from a Row of `table` to its SQL literals for a target of this flavour, in column order."""
    writers = [codec.literal(target) for codec in _codecs(table)]

    def literals(row: Row) -> tuple[bytes, ...]:
        return tuple([NULL if value is None else write(value) for value, write in zip(row, writers, strict=True)])

    return literals


def _codecs(table: Table) -> list[Codec]:
    return [codec_for(table.name, column) for column in table.columns]
