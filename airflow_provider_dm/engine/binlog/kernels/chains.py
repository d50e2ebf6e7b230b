"""Joins consecutive changes of one row into one change, without decoding their images.

Two changes are joined if the row image after the first equals the row image before the second, byte for byte. The fold
(`sync.write.compactor`) is the reference implementation: joined changes do not alter its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.machine import copy, load1, load8
from airflow_provider_dm.engine.binlog.kernels.split import equal
from airflow_provider_dm.engine.binlog.splitting import AFTER, AFTER_END, BEFORE, BEFORE_END, EVENT, HASH, NO_ROW

_HASH = uint64(HASH)


@njit(forceinline=True)
def _start(ends: Any, cell: int) -> int:
    """Return the start of a cell: the end of the previous cell, which is stored inverted for NULL."""
    end = ends[cell - 1] if cell else 0
    return ~end if end < 0 else end


@njit(forceinline=True)
def key_hash(source: int, size: int) -> Any:
    mixed, end = uint64(size) * _HASH, source + size
    while source + 8 <= end:
        mixed = (mixed ^ load8(source)) * _HASH
        mixed ^= mixed >> uint64(32)
        source += 8
    while source < end:
        mixed = (mixed ^ load1(source)) * _HASH
        source += 1
    mixed *= _HASH  # else the shift of a last whole word would be undone
    return mixed ^ (mixed >> uint64(29))


@njit(forceinline=True)
def _same_key(left: int, right: int, text: int, ends: Any, width: int) -> bool:
    """Return True if two keys have the same cells: no cell of a key is NULL."""
    left, right = left * width, right * width
    left_start, right_start = _start(ends, left), _start(ends, right)
    for column in range(width):
        if ends[left + column] - left_start != ends[right + column] - right_start:
            return False
    return equal(text + left_start, text + right_start, ends[left + width - 1] - left_start)


@njit(forceinline=True)
def _slot(key: int, text: int, ends: Any, width: int, slots: Any) -> int:
    """Return the slot of a key, after storing a new key."""
    start = _start(ends, key * width)
    slot = int64(key_hash(text + start, ends[key * width + width - 1] - start)) & (len(slots) - 1)
    while slots[slot] >= 0 and not _same_key(slots[slot], key, text, ends, width):
        slot = (slot + 1) & (len(slots) - 1)
    if slots[slot] < 0:
        slots[slot] = key
    return slot


@njit(forceinline=True)
def _continues(source: int, joined: Any, held: int, changes: Any, number: int) -> bool:
    """Return True if a change begins with the image after the held one, and they are not an insert and its delete."""
    left, right = joined[held, AFTER], changes[number, BEFORE]
    if left == NO_ROW or right == NO_ROW:
        return left == right
    if joined[held, BEFORE] == NO_ROW and changes[number, AFTER] == NO_ROW:
        return False
    size = joined[held, AFTER_END] - left
    return size == changes[number, BEFORE_END] - right and equal(source + left, source + right, size)


@entry(f"int64({BYTES}, {TABLE}, {BYTES}, {LIST}, int64, {LIST}, {LIST}, {TABLE})")
def join_chains(data: Any, changes: Any, text: Any, ends: Any, width: int, before: Any, after: Any, joined: Any) -> int:
    """Write the changes to `joined`, those of a chain as one change. Return their number n, or -n if a row moves to
    another key, or a key has several changes.

    `changes`: of one layout, in log order. `joined`: as long as `changes`. `text`, `ends`: the cells of keys of `width`
    columns, none of them NULL. `before[i]`, `after[i]`: the key of change i before and after it; -1 without a row. The
    changes of one key keep their order. An insert and its delete remain two changes, as a change
    without a row would have no key.
    """
    size = 16
    while size < 4 * len(changes):
        size *= 2
    slots, last = np.full(size, -1, np.int64), np.full(size, -1, np.int64)  # a key; its last change in `joined`
    source, text_at, count, once = int64(data.ctypes.data), int64(text.ctypes.data), 0, True
    for number in range(len(changes)):
        old, new = before[number], after[number]
        slot = _slot(old if old >= 0 else new, text_at, ends, width, slots)
        other = _slot(new, text_at, ends, width, slots) if old >= 0 and new >= 0 else slot
        held = last[slot]
        if other != slot:  # the row moves to another key: it belongs to no chain
            last[slot] = last[other] = -1
            once = False
        elif held >= 0 and _continues(source, joined, held, changes, number):
            joined[held, EVENT] = changes[number, EVENT]
            joined[held, AFTER], joined[held, AFTER_END] = changes[number, AFTER], changes[number, AFTER_END]
            continue
        else:
            once = once and held < 0
            last[slot] = count
        joined[count] = changes[number]
        count += 1
    return count if once else -count


@entry(f"int64({BYTES}, {TABLE}, uint8[::1])")
def move_images(data: Any, changes: Any, out: Any) -> int:
    """Copy the images of these changes to `out`, one after the other, and let the changes refer to `out`.

    Return the number of bytes. `out`: long enough.
    """
    source, target, end = int64(data.ctypes.data), int64(out.ctypes.data), 0
    for number in range(len(changes)):
        for place in (BEFORE, AFTER):
            start = changes[number, place]
            if start != NO_ROW:
                size = changes[number, place + 1] - start
                copy(source + start, size, target + end)
                changes[number, place], changes[number, place + 1] = end, end + size
                end += size
    return end


@entry(f"boolean[::1]({BYTES}, {TABLE})")
def images_differ(data: Any, changes: Any) -> Any:
    """Return for each change whether it has two images with different bytes."""
    source, differ = int64(data.ctypes.data), np.zeros(len(changes), np.bool_)
    for number in range(len(changes)):
        old, new = changes[number, BEFORE], changes[number, AFTER]
        if old != NO_ROW and new != NO_ROW:
            size = changes[number, AFTER_END] - new
            same_size = size == changes[number, BEFORE_END] - old
            differ[number] = not (same_size and equal(source + old, source + new, size))
    return differ


@entry(f"uint64[:, ::1]({BYTES}, {LIST}, {LIST})")
def sort_words(text: Any, ends: Any, right: Any) -> Any:
    """Return two words for each cell, a row for each row of cells: 16 of its bytes, big-endian, padded with zeros.

    `right[column]`: 1 for the last bytes, padded on the left, so that natural numbers are in their order; 0 for the
    first bytes. No cell is NULL.
    """
    width, source = len(right), int64(text.ctypes.data)
    words = np.zeros((len(ends) // width, 2 * width), np.uint64)
    for cell in range(len(ends)):
        start, row, column = _start(ends, cell), cell // width, cell % width
        size = min(ends[cell] - start, 16)
        at, place = (ends[cell] - size, 16 - size) if right[column] else (start, 0)
        for byte in range(size):
            word, shift = (place + byte) // 8, uint64(8 * (7 - (place + byte) % 8))
            words[row, 2 * column + word] |= load1(source + at + byte) << shift
    return words
