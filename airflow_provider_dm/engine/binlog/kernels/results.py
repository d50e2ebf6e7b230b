"""Rows of a SELECT as cells side by side (`images.Cells`). Reference: `reading.text_rows.split_row`.

One call processes complete rows, each in its own packet. It stops at anything else (the rest of a packet that has not
arrived, the end of the result, an error, a row of 16 MiB, a malformed row), which the reference handles.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, entry
from airflow_provider_dm.engine.binlog.kernels.floats import LONGEST, rewrite_double
from airflow_provider_dm.engine.binlog.kernels.machine import copy, little, load1

_HEAD: Final = 4  # bytes of a packet before the row: length, sequence number
_LARGEST: Final = 0xFFFFFF
_NULL, _END, _ERROR = 0xFB, 0xFE, 0xFF
_SHORT: Final = 9
"""A packet that begins with 0xfe and is shorter is the end of the result."""


def room_for(size: int, floats: Any) -> int:
    """Return the maximum of bytes that `take_rows` writes for `size` bytes. It also writes the cells of an incomplete
    row."""
    return size + LONGEST * int(floats.sum()) * (size // len(floats) + 1)


@entry(f"UniTuple(int64, 4)({BYTES}, int64, {BYTES}, uint8[::1], {LIST})")
def take_rows(data: Any, width: int, floats: Any, out: Any, ends: Any) -> Any:
    """Take rows of `width` cells from the beginning of `data`.

    `floats`: 1 for each column whose text becomes canonical here (`numbers.float_from_text`), 0 for the others.
    `out`: has `room_for` them; `ends`: at least as long as `data`.
    Return (position after the last row in `data`, bytes in `out`, cells, cells of `floats` that were left as they are).
    """
    begin, out_begin = int64(data.ctypes.data), int64(out.ctypes.data)
    behind, at, out_at, cells, left = begin + len(data), begin, out_begin, 0, 0
    while at + _HEAD <= behind:
        length = int64(little(at, 3))
        cell, end = at + _HEAD, at + _HEAD + length
        if length == 0 or length == _LARGEST or end > behind:
            break
        first = load1(cell)
        if first == uint64(_ERROR) or (first == uint64(_END) and length < _SHORT):
            break
        written, found = out_at, 0
        while found < width and cell < end:
            size = int64(load1(cell))
            cell += 1
            if size == _NULL:
                ends[cells + found] = ~(written - out_begin)
                found += 1
                continue
            if size > _NULL:
                prefix = 2 if size == _NULL + 1 else (3 if size == _NULL + 2 else 8)
                if size == _ERROR or end - cell < prefix:
                    break
                size = int64(little(cell, prefix))
                cell += prefix
            if size < 0 or size > end - cell:
                break
            rewritten = rewrite_double(cell, size, written) if floats[found] else -1
            left += 1 if floats[found] and rewritten < 0 else 0
            written = copy(cell, size, written) if rewritten < 0 else rewritten
            cell += size
            ends[cells + found] = written - out_begin
            found += 1
        if found < width or cell != end:
            break
        at, out_at, cells = end, written, cells + width
    return at - begin, out_at - out_begin, cells, left
