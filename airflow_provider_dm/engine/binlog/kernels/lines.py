"""Cells written as the lines of a LOAD DATA file (`downstream.load_data`): `1`, tab, `it's`, tab, `\\N`, line feed."""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.digits import write_unsigned
from airflow_provider_dm.engine.binlog.kernels.literals import write_digits
from airflow_provider_dm.engine.binlog.kernels.machine import TOPS, big, copy, has_byte, load1, load8, store1, store8
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

RAW, ESCAPED, MEMBER, DIGITS, NUMBER, CHARSET = range(6)
"""How a value is written: as it is; escaped; escaped, but not an ENUM's index 0; its bytes as hexadecimal digits; its
bytes as a decimal number; escaped, in UTF-8."""
MOST_OF_A_BYTE: Final = 3
"""Maximum bytes written for one byte of a cell."""
MOST_OF_A_CELL: Final = 24
"""More bytes than a cell needs besides MOST_OF_A_BYTE for each of its bytes."""

_FIRST = uint64(0x80)
"""The first byte that is not ASCII."""
_BACKSLASH, _TAB, _LINE, _T, _N, _NULL = (uint64(ord(char)) for char in "\\\t\ntnN")
_INVALID_MEMBER = uint64(INVALID_MEMBER[0])


@njit
def _write_escaped(source: int, size: int, out: int) -> int:
    end = source + size
    while source < end:
        if source + 8 <= end:
            word = load8(source)
            if not (has_byte(word, _BACKSLASH) | has_byte(word, _TAB) | has_byte(word, _LINE)):
                store8(out, word)
                source += 8
                out += 8
                continue
        byte = load1(source)
        if byte == _BACKSLASH or byte == _TAB or byte == _LINE:
            store1(out, _BACKSLASH)
            out += 1
            if byte == _TAB:
                byte = _T
            elif byte == _LINE:
                byte = _N
        store1(out, byte)
        source += 1
        out += 1
    return out


@njit
def _write_in_utf8(source: int, size: int, characters: int, out: int) -> int:
    """Write text of a charset in which bytes below 128 are ASCII. -1: it has a character without an entry.

    `characters`: address of the entries of the bytes from 128: size in UTF-8 (0: no entry), and three bytes.
    """
    end = source + size
    while source < end:
        ascii_end = source
        while ascii_end + 8 <= end and load8(ascii_end) & TOPS == uint64(0):
            ascii_end += 8
        while ascii_end < end and load1(ascii_end) < _FIRST:
            ascii_end += 1
        out = _write_escaped(source, ascii_end - source, out)
        source = ascii_end
        while source < end and load1(source) >= _FIRST:
            entry_at = characters + 4 * int64(load1(source) - _FIRST)
            length = int64(load1(entry_at))
            if length == 0:
                return -1
            out = copy(entry_at + 1, length, out)
            source += 1
    return out


@entry(f"int64({BYTES}, {LIST}, int64, {LIST}, {TABLE}, {BYTES}, uint8[::1])")
def write_lines(text: Any, ends: Any, width: int, numbers: Any, columns: Any, characters: Any, out: Any) -> int:
    """Write the rows with these numbers, of cells side by side (`images.Cells`: text, ends, `width` columns).

    `columns`: int64[written, 3]: the number of each column to write, how, and, for CHARSET, where its charset begins in
    `characters` (`_write_in_utf8`). `out`: at least MOST_OF_A_BYTE times as long as the text of these rows, and
    MOST_OF_A_CELL for each cell. Return the size of the lines; -1: an ENUM has index 0, or a character has no entry.
    """
    source, begin = int64(text.ctypes.data), int64(out.ctypes.data)
    entries = int64(characters.ctypes.data)
    at = begin
    for number in numbers:
        for chosen in range(len(columns)):
            if chosen:
                store1(at, _TAB)
                at += 1
            index, way = number * width + columns[chosen, 0], columns[chosen, 1]
            end = ends[index]
            if end < 0:
                store1(at, _BACKSLASH)
                store1(at + 1, _NULL)
                at += 2
                continue
            start = int64(0)
            if index:
                start = ends[index - 1] ^ (ends[index - 1] >> 63)
            size = end - start
            if way == RAW:
                at = copy(source + start, size, at)
            elif way == DIGITS:
                at = write_digits(source + start, size, at)
            elif way == NUMBER:
                at = write_unsigned(big(source + start, size), at)
            elif way == MEMBER and size == 1 and load1(source + start) == _INVALID_MEMBER:
                return -1
            elif way == CHARSET:
                at = _write_in_utf8(source + start, size, entries + columns[chosen, 2], at)
                if at < 0:
                    return -1
            else:
                at = _write_escaped(source + start, size, at)
        store1(at, _LINE)
        at += 1
    return at - begin
