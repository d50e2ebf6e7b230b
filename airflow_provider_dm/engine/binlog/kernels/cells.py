"""One cell of a row image as canonical text or as a SQL literal: `cells.reader` and `Codec.literal` in one step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64

from airflow_provider_dm.engine.binlog.cells import CellKind
from airflow_provider_dm.engine.binlog.kernels import times
from airflow_provider_dm.engine.binlog.kernels.decimals import write_decimal
from airflow_provider_dm.engine.binlog.kernels.digits import write_signed, write_unsigned
from airflow_provider_dm.engine.binlog.kernels.floats import write_double
from airflow_provider_dm.engine.binlog.kernels.machine import big, copy, little, load1, load8, store1
from airflow_provider_dm.engine.binlog.kernels.quoting import is_ascii, write_hexadecimal, write_text_literal
from airflow_provider_dm.engine.binlog.layout import Field
from airflow_provider_dm.engine.schema.codec import Style

MALFORMED: Final = -1
_FIELDS: Final = len(Field)
_NUMBER: Final = 8  # bytes of a number in the arrays of a layout
_MEMBER: Final = 4  # numbers of a member

_KIND, _PRECISION, _SCALE, _STYLE = (int(field) for field in (Field.KIND, Field.PRECISION, Field.SCALE, Field.STYLE))
_FIRST_MEMBER, _MEMBERS = int(Field.FIRST_MEMBER), int(Field.MEMBERS)
_NAME_AT, _NAME_SIZE = int(Field.NAME_AT), int(Field.NAME_SIZE)

_SIGNED, _UNSIGNED, _FLOAT, _DOUBLE = (
    int(CellKind.SIGNED),
    int(CellKind.UNSIGNED),
    int(CellKind.FLOAT),
    int(CellKind.DOUBLE),
)
_DECIMAL, _BITS, _YEAR, _DATE = int(CellKind.DECIMAL), int(CellKind.BITS), int(CellKind.YEAR), int(CellKind.DATE)
_TIME2, _DATETIME2, _TIMESTAMP2 = int(CellKind.TIME2), int(CellKind.DATETIME2), int(CellKind.TIMESTAMP2)
_OLD_TIME, _OLD_DATETIME, _OLD_TIMESTAMP = (
    int(CellKind.OLD_TIME),
    int(CellKind.OLD_DATETIME),
    int(CellKind.OLD_TIMESTAMP),
)
_BYTES, _PADDED, _ENUM, _SET = int(CellKind.BYTES), int(CellKind.PADDED), int(CellKind.ENUM), int(CellKind.SET)
_FIRST_TIME, _LAST_TIME = _YEAR, _OLD_TIMESTAMP

_TEXT, _CHARSET, _CHARSET_HEX, _HEX = int(Style.TEXT), int(Style.CHARSET), int(Style.CHARSET_HEX), int(Style.HEX)
_QUOTE, _COMMA, _ZERO_BYTE, _ZERO = uint64(ord("'")), uint64(ord(",")), uint64(0), uint64(ord("0"))


@njit(forceinline=True)
def field_of(columns: int, index: int, field: int) -> int:
    """Return a number of `LayoutArrays.columns`, which begins at the address `columns`."""
    return int64(load8(columns + (index * _FIELDS + field) * _NUMBER))


@njit(forceinline=True)
def write_cell(
    columns: int, index: int, constants: int, members: int, literal: bool, source: int, size: int, out: int
) -> int:
    """Write the cell of column `index`, `size` bytes at `source`, to `out`.

    All but the numbers and `literal` are addresses.
    Gives the place behind it, or MALFORMED for bytes that no server writes. NULL is the caller's.
    """
    kind = field_of(columns, index, _KIND)
    if kind == _SIGNED:
        return write_signed(little(source, size), size, out)
    if kind == _UNSIGNED:
        return write_unsigned(little(source, size), out)
    if kind == _BYTES:
        if not literal:
            return copy(source, size, out)
        return _write_string(columns, index, constants, source, size, out)
    if kind == _DECIMAL:
        precision, scale = field_of(columns, index, _PRECISION), field_of(columns, index, _SCALE)
        return write_decimal(source, precision, scale, out)
    if _FIRST_TIME <= kind <= _LAST_TIME:
        return _write_time(kind, field_of(columns, index, _PRECISION), literal, source, size, out)
    if kind == _DOUBLE:
        return write_double(load8(source), literal, out)
    if kind == _FLOAT:
        return write_double(_widened(uint32(little(source, 4))), literal, out)
    if kind == _ENUM:
        return _write_enum(columns, index, constants, members, literal, int64(little(source, size)), out)
    if kind == _SET:
        return _write_set(columns, index, constants, members, literal, little(source, size), out)
    if kind == _BITS:
        return write_unsigned(big(source, size), out) if literal else copy(source, size, out)
    if kind == _PADDED:
        return _write_padded(field_of(columns, index, _PRECISION), literal, source, size, out)
    return MALFORMED


@njit(forceinline=True)
def _widened(bits: Any) -> Any:
    """Return the bits of the double that is the float of these bits."""
    return uint64(np.float64(np.uint32(bits).view(np.float32)).view(np.uint64))


@njit
def _write_time(kind: int, precision: int, literal: bool, source: int, size: int, out: int) -> int:
    if literal:
        store1(out, _QUOTE)
        out += 1
    if kind == _DATETIME2:
        out = times.write_datetime2(source, size, precision, out)
    elif kind == _TIMESTAMP2:
        out = times.write_timestamp2(source, size, precision, out)
    elif kind == _DATE:
        out = times.write_date(source, out)
    elif kind == _TIME2:
        out = times.write_time2(source, size, precision, out)
    elif kind == _YEAR:
        out = times.write_year(int64(load1(source)), out)
    elif kind == _OLD_TIME:
        out = times.write_old_time(source, out)
    elif kind == _OLD_DATETIME:
        out = times.write_old_datetime(source, out)
    else:
        out = times.write_old_timestamp(source, out)
    if literal and out >= 0:
        store1(out, _QUOTE)
        out += 1
    return out


@njit(forceinline=True)
def _write_string(columns: int, index: int, constants: int, source: int, size: int, out: int) -> int:
    style = field_of(columns, index, _STYLE)
    if style == _TEXT or (style == _CHARSET and is_ascii(source, size)):
        return write_text_literal(source, size, out)
    if style == _CHARSET or style == _CHARSET_HEX:
        name, name_size = field_of(columns, index, _NAME_AT), field_of(columns, index, _NAME_SIZE)
        return write_hexadecimal(source, size, copy(constants + name, name_size, out))
    if style == _HEX:
        return write_hexadecimal(source, size, out)
    return MALFORMED


@njit
def _write_padded(length: int, literal: bool, source: int, size: int, out: int) -> int:
    """Write a BINARY(n) with its trailing zeros, which the log drops."""
    missing = length - size
    if missing < 0:
        return MALFORMED
    if not literal:
        out = copy(source, size, out)
        for place in range(out, out + missing):
            store1(place, _ZERO_BYTE)
        return out + missing
    out = write_hexadecimal(source, size, out) - 1
    for place in range(out, out + 2 * missing):
        store1(place, _ZERO)
    store1(out + 2 * missing, _QUOTE)
    return out + 2 * missing + 1


@njit(forceinline=True)
def _copy_member(constants: int, members: int, member: int, literal: bool, out: int) -> int:
    described = members + member * _MEMBER * _NUMBER + (2 * _NUMBER if literal else 0)
    return copy(constants + int64(load8(described)), int64(load8(described + _NUMBER)), out)


@njit
def _write_enum(columns: int, index: int, constants: int, members: int, literal: bool, number: int, out: int) -> int:
    """Write an ENUM's member. Index 0 is one, too: the value of an invalid insert."""
    if number >= field_of(columns, index, _MEMBERS):
        return MALFORMED
    return _copy_member(constants, members, field_of(columns, index, _FIRST_MEMBER) + number, literal, out)


@njit
def _write_set(columns: int, index: int, constants: int, members: int, literal: bool, bits: Any, out: int) -> int:
    count = field_of(columns, index, _MEMBERS)
    if count < 64 and bits >> uint64(count):
        return MALFORMED
    if literal:
        store1(out, _QUOTE)
        out += 1
    first = True
    for bit in range(count):
        if (bits >> uint64(bit)) & uint64(1):
            if not first:
                store1(out, _COMMA)
                out += 1
            first = False
            out = _copy_member(constants, members, field_of(columns, index, _FIRST_MEMBER) + bit, literal, out)
    if literal:
        store1(out, _QUOTE)
        out += 1
    return out
