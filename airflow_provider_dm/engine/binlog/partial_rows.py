"""Row images that omit columns, rewritten as complete images.

    image of a rows event whose header lists the present columns
        = one NULL bit for each of *those*, then their cells that are not NULL

MariaDB omits from updates and deletes the columns that can be computed from others (11.8, also with
`binlog_row_image=FULL`): generated columns, and the hash of a UNIQUE over long values. If their values are not needed,
the image gets NULL instead: the cells are unchanged, only the NULL bits move. The row made from the image has ABSENT
there, because an unknown value is not NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.binlog.cells import Cell
from airflow_provider_dm.engine.binlog.row_decoder import image_end


class _Absent(bytes):
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final[bytes] = _Absent()
"""Replaces a value that the log does not have; to be compared by `is`."""


def columns_of(mask: int) -> tuple[int, ...]:
    """Return the indexes of the columns in a bitmap.

    >>> columns_of(0b1101)
    (0, 2, 3)
    """
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


def whole_images(cells: Sequence[Cell], present: Sequence[int], data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the images of data[start:end], each with every column. Raises MalformedValue.

    `cells`: of all columns. `present`: the bitmaps of present columns, of each image in turn (an update has two).
    """
    columns = [columns_of(mask) for mask in present]
    present_cells = [[cells[index] for index in indexes] for indexes in columns]
    turn = 0
    while start < end:
        stop = image_end(present_cells[turn], data, start, end)
        bits_end = start + (len(columns[turn]) + 7) // 8
        bits = _null_bits(columns[turn], len(cells), data[start:bits_end])
        yield bits + data[bits_end:stop]
        start, turn = stop, (turn + 1) % len(present)


@lru_cache(maxsize=4096)
def _null_bits(columns: tuple[int, ...], count: int, bits: bytes) -> bytes:
    """Return the NULL bits of a complete image, from those of `columns`: all other columns are NULL."""
    given, nulls = int.from_bytes(bits, "little"), (1 << count) - 1
    for bit, index in enumerate(columns):
        if not given >> bit & 1:
            nulls &= ~(1 << index)
    return nulls.to_bytes((count + 7) // 8, "little")
