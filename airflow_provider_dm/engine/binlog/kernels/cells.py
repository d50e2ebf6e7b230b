"""One cell of a row image as canonical text. The reference implementation is `cells.reader`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64

from airflow_provider_dm.engine.binlog.cells import CellKind
from airflow_provider_dm.engine.binlog.kernels import times
from airflow_provider_dm.engine.binlog.kernels.decimals import write_decimal
from airflow_provider_dm.engine.binlog.kernels.digits import write_signed, write_unsigned
from airflow_provider_dm.engine.binlog.kernels.floats import write_double
from airflow_provider_dm.engine.binlog.kernels.machine import copy, little, load1, load8, store1
from airflow_provider_dm.engine.binlog.layout import Field

MALFORMED: Final = -1
_FIELDS: Final = len(Field)
_NUMBER: Final = 8  # bytes of a number in the arrays of a layout
_MEMBER: Final = 2  # numbers of a member

_KIND, _PRECISION, _SCALE = (int(field) for field in (Field.KIND, Field.PRECISION, Field.SCALE))
_FIRST_MEMBER, _MEMBERS = int(Field.FIRST_MEMBER), int(Field.MEMBERS)

_FIRST_TIME, _LAST_TIME = int(CellKind.YEAR), int(CellKind.OLD_TIMESTAMP)

_COMMA, _ZERO_BYTE = uint64(ord(",")), uint64(0)


@njit(forceinline=True)
def field_of(columns: int, index: int, field: int) -> int:
    """Return a number of `LayoutArrays.columns`, which begins at the address `columns`."""
    return int64(load8(columns + (index * _FIELDS + field) * _NUMBER))


@njit(forceinline=True)
def write_cell(columns: int, index: int, constants: int, members: int, source: int, size: int, out: int) -> int:
    """Write the cell of column `index`, `size` bytes at `source`, to `out`.

    `columns`, `constants`, `members`, `source` and `out` are addresses. The caller handles NULL.
    Return the address after the written text, or MALFORMED for bytes that no server writes.
    """
    kind = field_of(columns, index, _KIND)
    if kind == CellKind.SIGNED:
        return write_signed(little(source, size), size, out)
    if kind == CellKind.UNSIGNED:
        return write_unsigned(little(source, size), out)
    if kind == CellKind.BYTES:
        return copy(source, size, out)
    if kind == CellKind.DECIMAL:
        precision, scale = field_of(columns, index, _PRECISION), field_of(columns, index, _SCALE)
        return write_decimal(source, precision, scale, out)
    if _FIRST_TIME <= kind <= _LAST_TIME:
        return _write_time(kind, field_of(columns, index, _PRECISION), source, size, out)
    if kind == CellKind.DOUBLE:
        return write_double(load8(source), out)
    if kind == CellKind.FLOAT:
        return write_double(_widened(uint32(little(source, 4))), out)
    if kind == CellKind.ENUM:
        return _write_enum(columns, index, constants, members, int64(little(source, size)), out)
    if kind == CellKind.SET:
        return _write_set(columns, index, constants, members, little(source, size), out)
    if kind == CellKind.BITS:
        return copy(source, size, out)
    if kind == CellKind.PADDED:
        return _write_padded(field_of(columns, index, _PRECISION), source, size, out)
    return MALFORMED


@njit(forceinline=True)
def _widened(bits: Any) -> Any:
    """Return the bits of the double that is the float of these bits."""
    return uint64(np.float64(np.uint32(bits).view(np.float32)).view(np.uint64))


@njit
def _write_time(kind: int, precision: int, source: int, size: int, out: int) -> int:
    if kind == CellKind.DATETIME2:
        return times.write_datetime2(source, size, precision, out)
    if kind == CellKind.TIMESTAMP2:
        return times.write_timestamp2(source, size, precision, out)
    if kind == CellKind.DATE:
        return times.write_date(source, out)
    if kind == CellKind.TIME2:
        return times.write_time2(source, size, precision, out)
    if kind == CellKind.YEAR:
        return times.write_year(int64(load1(source)), out)
    if kind == CellKind.OLD_TIME:
        return times.write_old_time(source, out)
    if kind == CellKind.OLD_DATETIME:
        return times.write_old_datetime(source, out)
    return times.write_old_timestamp(source, out)


@njit
def _write_padded(length: int, source: int, size: int, out: int) -> int:
    """Write a BINARY(n) with its trailing zeros, which the log drops."""
    missing = length - size
    if missing < 0:
        return MALFORMED
    out = copy(source, size, out)
    for place in range(out, out + missing):
        store1(place, _ZERO_BYTE)
    return out + missing


@njit(forceinline=True)
def _copy_member(constants: int, members: int, member: int, out: int) -> int:
    described = members + member * _MEMBER * _NUMBER
    return copy(constants + int64(load8(described)), int64(load8(described + _NUMBER)), out)


@njit
def _write_enum(columns: int, index: int, constants: int, members: int, number: int, out: int) -> int:
    """Write an ENUM's member. Index 0 has a member, too: the value of an invalid insert."""
    if number >= field_of(columns, index, _MEMBERS):
        return MALFORMED
    return _copy_member(constants, members, field_of(columns, index, _FIRST_MEMBER) + number, out)


@njit
def _write_set(columns: int, index: int, constants: int, members: int, bits: Any, out: int) -> int:
    count = field_of(columns, index, _MEMBERS)
    if count < 64 and bits >> uint64(count):
        return MALFORMED
    first = True
    for bit in range(count):
        if (bits >> uint64(bit)) & uint64(1):
            if not first:
                store1(out, _COMMA)
                out += 1
            first = False
            out = _copy_member(constants, members, field_of(columns, index, _FIRST_MEMBER) + bit, out)
    return out
