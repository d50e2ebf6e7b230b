"""Row images as text, cell by cell.

`images` is int64[rows, 2]: where each image begins and ends in `data`. A kernel writes from out[at] on until all
images are written, `out` is full, or an image does not fit its layout. It returns the number of written rows; status[0]
is the reason to stop, and status[1] the end of `out`. Reference: `row_decoder`, the caller `images`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.cells import field_of, write_cell
from airflow_provider_dm.engine.binlog.kernels.machine import little, load1, load8, store8
from airflow_provider_dm.engine.binlog.layout import Field

DONE, FULL, MALFORMED = range(3)

_SIZE, _PREFIX = int(Field.SIZE), int(Field.PREFIX)
_CELL: Final = 16  # bytes: where it begins, and its size or -1

_LAYOUT = f"{TABLE}, {BYTES}, {TABLE}"


@njit(forceinline=True)
def _locate(columns: int, count: int, start: int, end: int, cells: int) -> bool:
    """Write the address and size of each cell of an image to the array at `cells`; size -1 for NULL.

    Return False if the image does not fit.
    """
    position = start + ((count + 7) >> 3)
    if position > end:
        return False
    for index in range(count):
        cell = cells + index * _CELL
        if (load1(start + (index >> 3)) >> uint64(index & 7)) & uint64(1):
            store8(cell + 8, ~uint64(0))
            continue
        prefix = field_of(columns, index, _PREFIX)
        if prefix:
            if position + prefix > end:
                return False
            size = int64(little(position, prefix))
            position += prefix
        else:
            size = field_of(columns, index, _SIZE)
        if position + size > end:
            return False
        store8(cell, uint64(position))
        store8(cell + 8, uint64(size))
        position += size
    return position == end


@entry(f"int64({BYTES}, {TABLE}, int64, {_LAYOUT}, {LIST}, int64, uint8[::1], int64, {LIST}, {LIST})")
def write_cells(
    data: Any,
    images: Any,
    first: int,
    columns: Any,
    constants: Any,
    members: Any,
    picked: Any,
    room: int,
    out: Any,
    at: int,
    ends: Any,
    status: Any,
) -> int:
    """Write images from `first` on, cell by cell: canonical values of the columns `picked`.

    `room`: `LayoutArrays.room`. `ends[row * len(picked) + i]`: where the cell ends in `out`; ~end for NULL,
    which takes no room.
    """
    scratch = np.empty((len(columns), 2), np.int64)
    count, cells, columns_at = len(columns), int64(scratch.ctypes.data), int64(columns.ctypes.data)
    constants_at, members_at = int64(constants.ctypes.data), int64(members.ctypes.data)
    source, begin = int64(data.ctypes.data), int64(out.ctypes.data)
    limit = begin + len(out) - room
    at += begin
    written = first * len(picked)
    for row in range(first, len(images)):
        start, end = images[row, 0], images[row, 1]
        if at + (end - start) > limit:
            status[0], status[1] = FULL, at - begin
            return row
        if not _locate(columns_at, count, source + start, source + end, cells):
            status[0] = MALFORMED
            return row
        for chosen in picked:
            index = int(chosen)
            cell = cells + index * _CELL
            size = int64(load8(cell + 8))
            if size < 0:
                ends[written] = ~(at - begin)
            else:
                at = write_cell(columns_at, index, constants_at, members_at, int64(load8(cell)), size, at)
                if at < 0:
                    status[0] = MALFORMED
                    return row
                ends[written] = at - begin
            written += 1
    status[0], status[1] = DONE, at - begin
    return len(images)
