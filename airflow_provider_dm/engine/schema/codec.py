"""How a column's value is read, written and hashed: one table from data type to `Codec`.

`Value` is the canonical value of a cell, `None` or bytes: what the server's text protocol sends under the pinned
session (`character_set_results = NULL`, time zone UTC), with two exceptions that make it exact and comparable: FLOAT
and DOUBLE are `repr` of the stored number, and ZEROFILL's zeros are dropped. The copier (SELECT) and the binlog decoder
(`binlog/cells.py`) give identical bytes for the same cell: tests/integration/binlog holds them to it.

A type that is not in the table stops with UnsupportedColumnType; there is no default.

The SELECT list expects cells as bytes: a connection from `mysql.connection` whose `decoders` are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.schema import numbers, strings, temporal
from airflow_provider_dm.engine.schema.model import Column, Table

Value: TypeAlias = bytes | None
Row: TypeAlias = tuple[Value, ...]
Transform: TypeAlias = Callable[[bytes], bytes]

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})

_LEAVE_OUT: Final = "Leave the table out by block-allow-list, or change the column's type at the source."


@dataclass(eq=False)
class UnsupportedColumnType(DmError):
    """A column whose values cannot be carried exactly by this release."""

    table: str
    column: str
    type: str
    way_out: str = _LEAVE_OUT

    code: ClassVar[str] = "DM-5101"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "column `{column}` of {table} has the type {type}, which is not supported yet. {way_out}"


def _plain(name: str) -> str:
    return name


def _as_double(name: str) -> str:
    # A FLOAT is printed with six digits, and `+ 0e0` would turn -0.0 into 0.0.
    return f"{name} * 1e0"


def _identity(value: bytes) -> bytes:
    return value


@dataclass(frozen=True)
class Codec:
    """The ways of one column's values."""

    literal: Transform
    """Canonical value -> SQL literal; NULL is the caller's."""
    key_form: Transform | None
    """Coarse normal form for bucket hashing: values that a target may hold equal have the same form. None: such a form
    does not exist without the collation's tables. It knows only its own column's collation: hash by it only where the
    *target's* column has a key form as well."""
    select: Callable[[str], str] = _plain
    """Quoted column name -> SELECT expression."""
    from_text: Transform | None = None
    """What that expression sent -> canonical value; None: the same."""


def codec_for(table: TableName, column: Column) -> Codec:
    """The codec of a column. Raises UnsupportedColumnType."""
    if column.generated:
        raise UnsupportedColumnType(str(table), column.name, f"{column.column_type} (generated)")
    codec = _numeric_codec(column) or _temporal_codec(column) or _string_codec(table, column)
    if codec is None:
        raise UnsupportedColumnType(str(table), column.name, _described(column))
    return codec


def _described(column: Column) -> str:
    return f"{column.column_type} CHARACTER SET {column.charset}" if column.charset else column.column_type


def _numeric_codec(column: Column) -> Codec | None:
    zerofill = "zerofill" in column.column_type.lower().split()
    match column.data_type:
        case data_type if data_type in _INTEGERS:
            return Codec(_identity, numbers.integer_key, from_text=numbers.integer_from_text if zerofill else None)
        case "decimal":
            return Codec(_identity, numbers.decimal_key, from_text=numbers.decimal_from_text if zerofill else None)
        case "float" | "double":
            # No key form: the target may be a FLOAT, which makes one number of several.
            return Codec(numbers.float_literal, None, select=_as_double, from_text=numbers.float_from_text)
        case "bit":
            return Codec(numbers.bits_literal, numbers.bits_key)
    return None


def _temporal_codec(column: Column) -> Codec | None:
    match column.data_type:
        case "date" | "year":
            return Codec(temporal.quoted, _identity)
        case "time" | "datetime" | "timestamp":
            return Codec(temporal.quoted, temporal.time_key)
    return None


def _string_codec(table: TableName, column: Column) -> Codec | None:
    compressed = "compressed" in column.column_type.lower() and column.data_type not in ("enum", "set")
    if compressed:  # MariaDB: the binlog holds the compressed bytes
        return None
    if column.data_type in _BINARIES:
        return Codec(strings.binary_literal, strings.binary_key)
    if column.charset not in strings.CHARSETS:
        return None
    if column.data_type in ("enum", "set"):
        enum_members(table, column)
    elif column.data_type not in _TEXTS:
        return None
    return Codec(strings.text_literal(column.charset), strings.text_key(column.charset, column.collation))


def enum_members(table: TableName, column: Column) -> tuple[bytes, ...]:
    """The members of an ENUM or SET column in its charset. Raises UnsupportedColumnType where they cannot be known."""
    try:
        return strings.members(column.column_type, column.charset or "")
    except strings.MalformedMembers as error:
        raise UnsupportedColumnType(str(table), column.name, f"{_described(column)} ({error})") from error


def row_reader(table: Table) -> tuple[str, Callable[[Sequence[Value]], Row]]:
    """The SELECT list of a table (all columns, in order) and the function from a fetched row of bytes to a Row."""
    codecs = _codecs(table)
    select = ", ".join(codec.select(quote(column.name)) for codec, column in zip(codecs, table.columns, strict=True))
    converted = [(index, codec.from_text) for index, codec in enumerate(codecs) if codec.from_text is not None]
    if not converted:
        return select, tuple

    def read(cells: Sequence[Value]) -> Row:
        row = list(cells)
        for index, convert in converted:
            cell = row[index]
            if cell is not None:
                row[index] = convert(cell)
        return tuple(row)

    return select, read


def row_literals(table: Table) -> Callable[[Row], tuple[bytes, ...]]:
    """The function from a Row of `table` to its SQL literals, in column order."""
    writers = [codec.literal for codec in _codecs(table)]

    def literals(row: Row) -> tuple[bytes, ...]:
        return tuple([NULL if value is None else write(value) for value, write in zip(row, writers, strict=True)])

    return literals


def _codecs(table: Table) -> list[Codec]:
    return [codec_for(table.name, column) for column in table.columns]
