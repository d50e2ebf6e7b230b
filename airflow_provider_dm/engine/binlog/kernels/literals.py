"""Cells side by side as the tuples of an INSERT: `(1,'it\\'s',NULL),(…`. Reference: `schema.codec.row_literals`.

Every place is an address; each function returns the address after its output.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.digits import write_unsigned
from airflow_provider_dm.engine.binlog.kernels.machine import (
    TOPS,
    big,
    copy,
    has_byte,
    load1,
    load8,
    store1,
    store2,
    store8,
)
from airflow_provider_dm.engine.schema.codec import LiteralStyle
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

DONE, FULL, OTHER = range(3)

MOST_OF_A_NUMBER: Final = 32
"""More bytes than a BIT's digits, the frame of a hexadecimal literal, NULL, or the frame of a row."""

_PLAIN, _FLOAT, _BITS, _QUOTED, _TEXT = (
    int(style)
    for style in (LiteralStyle.PLAIN, LiteralStyle.FLOAT, LiteralStyle.BITS, LiteralStyle.QUOTED, LiteralStyle.TEXT)
)
_CHARSET, _CHARSET_HEX, _HEX, _ENUM = (
    int(style) for style in (LiteralStyle.CHARSET, LiteralStyle.CHARSET_HEX, LiteralStyle.HEX, LiteralStyle.ENUM)
)
_QUOTE, _BACKSLASH, _X, _COMMA, _OPEN, _CLOSE, _E, _ZERO = (uint64(ord(char)) for char in "'\\x,()e0")
_DIGITS: Final = np.array([int.from_bytes(b"%02x" % byte, "little") for byte in range(256)], np.uint64)
_NULL = uint64(int.from_bytes(b"NULL", "little"))
_INVALID_MEMBER = uint64(INVALID_MEMBER[0])


@njit
def _write_text(source: int, size: int, out: int) -> int:
    """Write in quotes, with a backslash before each quote and backslash."""
    store1(out, _QUOTE)
    out += 1
    end = source + size
    while source < end:
        if source + 8 <= end:
            word = load8(source)
            if not (has_byte(word, _QUOTE) | has_byte(word, _BACKSLASH)):
                store8(out, word)
                source += 8
                out += 8
                continue
        byte = load1(source)
        if byte == _QUOTE or byte == _BACKSLASH:
            store1(out, _BACKSLASH)
            out += 1
        store1(out, byte)
        source += 1
        out += 1
    store1(out, _QUOTE)
    return out + 1


@njit
def write_digits(source: int, size: int, out: int) -> int:
    """Write bytes as hexadecimal digits; return the address after them."""
    for place in range(source, source + size):
        store2(out, _DIGITS[load1(place)])
        out += 2
    return out


@njit
def _write_hexadecimal(source: int, size: int, out: int) -> int:
    store1(out, _X)
    store1(out + 1, _QUOTE)
    out = write_digits(source, size, out + 2)
    store1(out, _QUOTE)
    return out + 1


@njit
def _is_ascii(source: int, size: int) -> bool:
    end, bits = source + size, uint64(0)
    while source + 8 <= end:
        bits |= load8(source)
        source += 8
    while source < end:
        bits |= load1(source)
        source += 1
    return bits & TOPS == uint64(0)


@njit
def _write_float(source: int, size: int, out: int) -> int:
    """Write with an exponent, which a literal always has."""
    behind = copy(source, size, out)
    for place in range(source, source + size):
        if load1(place) == _E:
            return behind
    store1(behind, _E)
    store1(behind + 1, _ZERO)
    return behind + 2


@njit(forceinline=True)
def _write_literal(style: int, name: int, name_size: int, source: int, size: int, out: int) -> int:
    """Write a value that is not NULL; return -1 for a value that the kernel does not support."""
    if style == _PLAIN:
        return copy(source, size, out)
    if style == _TEXT or (style == _CHARSET and _is_ascii(source, size)):
        return _write_text(source, size, out)
    if style == _QUOTED:
        store1(out, _QUOTE)
        out = copy(source, size, out + 1)
        store1(out, _QUOTE)
        return out + 1
    if style == _FLOAT:
        return _write_float(source, size, out)
    if style == _HEX:
        return _write_hexadecimal(source, size, out)
    if style == _ENUM:
        # A row with index 0 needs its own statement (downstream/row_statements.py).
        return -1 if size == 1 and load1(source) == _INVALID_MEMBER else _write_text(source, size, out)
    if style == _BITS:
        return write_unsigned(big(source, size), out)
    if name_size and (style == _CHARSET or style == _CHARSET_HEX):  # without a name the text must be converted to UTF-8
        return _write_hexadecimal(source, size, copy(name, name_size, out))
    return -1


@entry(f"int64({BYTES}, {LIST}, int64, {LIST}, int64, {TABLE}, {BYTES}, uint8[::1], int64, {LIST}, {LIST})")
def write_tuples(
    text: Any,
    ends: Any,
    width: int,
    rows: Any,
    first: int,
    columns: Any,
    names: Any,
    out: Any,
    at: int,
    tuple_ends: Any,
    status: Any,
) -> int:
    """Write `rows[first:]` of cells side by side (`images.Cells`: text, ends, `width` columns) from out[at] on.

    `columns`: int64[written, 4]: the number of each column to write, its LiteralStyle, and its charset's introducer in
    `names` (start, size). `tuple_ends[i]`: where the tuple of rows[i] ends; one byte lies between two.
    Return the number of rows done; status[0] is the reason to stop, and status[1] the end of `out`.
    """
    source, begin, names_at = int64(text.ctypes.data), int64(out.ctypes.data), int64(names.ctypes.data)
    limit = begin + len(out)
    at += begin
    for number in range(first, len(rows)):
        cell = rows[number] * width
        row_start = int64(0)
        if cell:
            row_start = ends[cell - 1] ^ (ends[cell - 1] >> 63)
        size = (ends[cell + width - 1] ^ (ends[cell + width - 1] >> 63)) - row_start
        if at + 2 * size + (len(columns) + 1) * MOST_OF_A_NUMBER + len(names) > limit:
            status[0], status[1] = FULL, at - begin
            return number
        row_begins = at
        store1(at, _OPEN)
        at += 1
        for chosen in range(len(columns)):
            if chosen:
                store1(at, _COMMA)
                at += 1
            index = cell + columns[chosen, 0]
            end = ends[index]
            if end < 0:
                store2(at, _NULL)
                store2(at + 2, _NULL >> uint64(16))
                at += 4
                continue
            start = row_start
            if columns[chosen, 0]:
                start = ends[index - 1] ^ (ends[index - 1] >> 63)
            at = _write_literal(
                columns[chosen, 1], names_at + columns[chosen, 2], columns[chosen, 3], source + start, end - start, at
            )
            if at < 0:
                status[0], status[1] = OTHER, row_begins - begin
                return number
        store1(at, _CLOSE)
        tuple_ends[number] = at + 1 - begin
        store1(at + 1, _COMMA)
        at += 2
    status[0], status[1] = DONE, at - begin
    return len(rows)
