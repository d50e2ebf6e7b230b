"""Events to row images: which rows changed, and the positions of their images. The reference implementation is `rows`.

One call processes as many events as the buffer holds. It verifies every checksum, records the table of each table map's
number, and splits rows events into images by the lengths of their cells; it reads no value. Before an event that is not
ordinary (an unknown map, a partial row, an envelope, a wrong checksum, an inconsistent length) it stops with LOOK, and
the reference implementation handles that event.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from airflow_provider_dm.engine.binlog import splitting
from airflow_provider_dm.engine.binlog.kernels.build import BYTES, LIST, TABLE, entry
from airflow_provider_dm.engine.binlog.kernels.crc32 import crc32
from airflow_provider_dm.engine.binlog.kernels.machine import little, load1, load2, load4, load8

_HEADER: Final = 19
_CHECKSUM: Final = 4
_ID_AND_FLAGS: Final = 8
_CELL: Final = 16  # bytes of a cell in `cells`: size and prefix
_LONG_COUNT: Final = 0xFB
_ID_BITS, _FLAGS_AT = uint64((1 << 48) - 1), uint64(48)
_HASH = uint64(splitting.HASH)
_TRIED: Final = 32  # texts to compare if there is no hint; the reference implementation has a dictionary of all


@njit(forceinline=True)
def equal(left: int, right: int, size: int) -> bool:
    end = left + size
    while left + 8 <= end:
        if load8(left) != load8(right):
            return False
        left += 8
        right += 8
    while left < end:
        if load1(left) != load1(right):
            return False
        left += 1
        right += 1
    return True


@njit(forceinline=True)
def _known(text: int, size: int, number: int, texts: int, known: Any, hints: Any) -> int:
    """Return the index of a text among the known texts; -1 if it is none of the first _TRIED texts.

    The previous text of this number is tried first.
    """
    slot = int64((uint64(number) * _HASH) >> uint64(32)) & (len(hints) - 1)
    hint = hints[slot]
    if hint >= 0 and known[hint, 1] == size and equal(text, texts + known[hint, 0], size):
        return hint
    for index in range(min(len(known), _TRIED)):
        if known[index, 1] == size and equal(text, texts + known[index, 0], size):
            hints[slot] = index
            return index
    return -1


@njit(forceinline=True)
def _place_of(number: int, numbers: Any, count: int) -> int:
    """Return the index of a table's number among the current ones; `count` if it is missing."""
    for index in range(count):
        if numbers[index] == number:
            return index
    return count


@njit(forceinline=True)
def _is_complete(start: int, end: int, columns: int, images: int) -> int:
    """Return the beginning of the images after `images` bitmaps whose bits are all set; -1: they are not."""
    whole, rest = columns >> 3, columns & 7
    if start + images * ((columns + 7) >> 3) > end:
        return -1
    last = uint64((1 << rest) - 1)
    for _ in range(images):
        for place in range(start, start + whole):
            if load1(place) != uint64(0xFF):
                return -1
        start += whole
        if rest:
            if load1(start) & last != last:
                return -1
            start += 1
    return start


@njit(forceinline=True)
def _image_end(start: int, end: int, cells: int, count: int) -> int:
    """Return the end of an image; -1: it is after `end`. `cells`: the address of (size, prefix) of its first column."""
    position = start + ((count + 7) >> 3)
    if position > end:
        return -1
    for index in range(count):
        if (load1(start + (index >> 3)) >> uint64(index & 7)) & uint64(1):
            continue
        cell = cells + index * _CELL
        prefix = int64(load8(cell + 8))
        if prefix == 0:
            position += int64(load8(cell))
        else:
            if position + prefix > end:
                return -1
            position += prefix + int64(little(position, prefix))
    return position if position <= end else -1


@entry(
    f"UniTuple(int64, 3)({BYTES}, int64, int64, int64, int64, int64, {BYTES}, "
    f"{BYTES}, {TABLE}, {LIST}, {LIST}, {LIST}, {LIST}, {TABLE}, {TABLE}, {TABLE}, int64)"
)
def split(
    data: Any,
    position: int,
    end: int,
    base: int,
    step: int,
    checksum: int,
    what: Any,
    texts: Any,
    known: Any,
    hints: Any,
    numbers: Any,
    in_force: Any,
    in_force_count: Any,
    layouts: Any,
    cells: Any,
    changes: Any,
    count: int,
) -> Any:
    """Walk over the events of data[position:end]; return (position, changes, reason to stop).

    `base`, `step`: the event at data[p] is at file position base + p * step. `checksum`: 1 if events end with one.
    `texts` to `cells`: the arrays of `maps.Maps`. `what`, `changes`: see `splitting`. `count`: changes already there.
    """
    source, texts_at, cells_at = int64(data.ctypes.data), int64(texts.ctypes.data), int64(cells.ctypes.data)
    what_at, trailer, room = int64(what.ctypes.data), _CHECKSUM * checksum, len(changes)
    while True:
        if position + _HEADER > end:
            return position, count, splitting.MORE
        event = source + position
        kind = int64(load1(what_at + int64(load1(event + 4))))
        size = int64(load4(event + 9))
        if size < _HEADER + trailer:
            return position, count, splitting.LOOK
        if position + size > end:
            return position, count, splitting.MORE
        last = event + size - trailer
        if checksum and uint64(crc32(event, last)) != load4(last):
            return position, count, splitting.LOOK
        if kind == splitting.PASSED or kind == splitting.FORGETS:
            if kind == splitting.FORGETS:
                in_force_count[0] = 0
            position += size
            continue
        start = event + _HEADER
        if kind == splitting.LOOK or start + _ID_AND_FLAGS > last:
            return position, count, splitting.LOOK
        head = load8(start)
        number, flags = int64(head & _ID_BITS), int64(head >> _FLAGS_AT)
        named = in_force_count[0]
        place = _place_of(number, numbers, named)
        start += _ID_AND_FLAGS
        if kind == splitting.IS_MAP:
            text = _known(start, last - start, number, texts_at, known, hints)
            if text < 0 or place == len(numbers):
                return position, count, splitting.LOOK
            numbers[place], in_force[place] = number, text
            in_force_count[0] = max(named, place + 1)
            position += size
            continue
        if place == named:
            return position, count, splitting.LOOK
        layout = known[in_force[place], 2]
        if layout != splitting.UNWANTED and base + position * step >= layouts[layout, 2]:
            if kind & splitting.HAS_EXTRA:
                if start + 2 > last or load2(start) < uint64(2):
                    return position, count, splitting.LOOK
                start += int64(load2(start))
            columns, cells_of_layout = layouts[layout, 1], cells_at + layouts[layout, 0] * _CELL
            if start >= last or columns >= _LONG_COUNT or int64(load1(start)) != columns:
                return position, count, splitting.LOOK
            operation = kind & splitting.OPERATION
            start = _is_complete(start + 1, last, columns, 2 if operation == splitting.UPDATES else 1)
            if start < 0:
                return position, count, splitting.LOOK
            began = count
            while start < last:
                if count == room:
                    # Whole events only: the caller uses the result so far, or calls again with more space.
                    return position, began, splitting.FULL
                stop = _image_end(start, last, cells_of_layout, columns)
                if stop < 0:
                    return position, began, splitting.LOOK
                changes[count, splitting.LAYOUT] = layout
                changes[count, splitting.EVENT] = base + position * step
                if operation == splitting.INSERTS:
                    changes[count, splitting.BEFORE] = splitting.NO_ROW
                    changes[count, splitting.BEFORE_END] = splitting.NO_ROW
                    changes[count, splitting.AFTER] = start - source
                    changes[count, splitting.AFTER_END] = stop - source
                else:
                    changes[count, splitting.BEFORE] = start - source
                    changes[count, splitting.BEFORE_END] = stop - source
                    changes[count, splitting.AFTER] = splitting.NO_ROW
                    changes[count, splitting.AFTER_END] = splitting.NO_ROW
                    if operation == splitting.UPDATES:
                        start = stop
                        stop = _image_end(start, last, cells_of_layout, columns) if start < last else -1
                        if stop < 0:
                            return position, began, splitting.LOOK
                        changes[count, splitting.AFTER] = start - source
                        changes[count, splitting.AFTER_END] = stop - source
                count += 1
                start = stop
        if flags & splitting.END_OF_STATEMENT:
            in_force_count[0] = 0
        position += size


@entry(f"int64({TABLE}, int64, int64, {LIST}, {TABLE})")
def gather(changes: Any, layout: int, place: int, chosen: Any, images: Any) -> int:
    """Collect the changes of a layout with a row at `place`: their numbers and the offsets of the rows.

    Return how many there are.
    """
    count = 0
    for number in range(len(changes)):
        if changes[number, splitting.LAYOUT] == layout and changes[number, place] >= 0:
            chosen[count] = number
            images[count, 0], images[count, 1] = changes[number, place], changes[number, place + 1]
            count += 1
    return count
