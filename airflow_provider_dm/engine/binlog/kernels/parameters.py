"""Cells written as the parameters of a bulk execution: each value after an indicator and its length."""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.machine import copy, load1, store1, store2, store8
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

MOST_BEFORE_A_VALUE: Final = 10
"""Maximum bytes of the indicator and the length before a value."""

_VALUE, _NULL = uint64(0), uint64(1)  # indicators
_INVALID_MEMBER = uint64(INVALID_MEMBER[0])


@njit(forceinline=True)
def _write_length(size: int, out: int) -> int:
    if size < 251:
        store1(out, uint64(size))
        return out + 1
    if size < 1 << 16:
        store1(out, uint64(0xFC))
        store2(out + 1, uint64(size))
        return out + 3
    store1(out, uint64(0xFE))
    store8(out + 1, uint64(size))
    return out + 9


@entry(f"int64({BYTES}, {LIST}, int64, {LIST}, {TABLE}, uint8[::1])")
def write_parameters(text: Any, ends: Any, width: int, numbers: Any, columns: Any, out: Any) -> int:
    """Write the rows with these numbers, of cells side by side (`images.Cells`: text, ends, `width` columns).

    `columns`: int64[written, 2]: the number of each column to write, and 1 for an ENUM. `out`: as long as the
    values, and MOST_BEFORE_A_VALUE for each of them. Return the size of the parameters; -1: an ENUM has index 0.
    """
    source, begin = int64(text.ctypes.data), int64(out.ctypes.data)
    at = begin
    for number in numbers:
        for chosen in range(len(columns)):
            index = number * width + columns[chosen, 0]
            end = ends[index]
            if end < 0:
                store1(at, _NULL)
                at += 1
                continue
            start = int64(0)
            if index:
                start = ends[index - 1] ^ (ends[index - 1] >> 63)
            if columns[chosen, 1] and end - start == 1 and load1(source + start) == _INVALID_MEMBER:
                return -1
            store1(at, _VALUE)
            at = copy(source + start, end - start, _write_length(end - start, at + 1))
    return at - begin
