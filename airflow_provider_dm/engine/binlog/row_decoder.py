"""Decoding of row images to canonical values, cell by cell: the specification of the kernels.

A row image is a bitmap of NULLs and then the cells that are not NULL, in column order. No length is trusted: positions
only grow, and an image must end exactly where its cells end, so that another row's bytes never become part of a row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from airflow_provider_dm.engine.binlog.cells import Cell, reader
from airflow_provider_dm.engine.schema.codec import Row, Transform, Value
from airflow_provider_dm.engine.schema.errors import MalformedValue

CellPlace: TypeAlias = tuple[int, int]
Decoder: TypeAlias = Callable[[bytes, int, int], Row]
"""(data, start, end) -> values of the image data[start:end]. Raises MalformedValue."""

_DAMAGE: Final = (IndexError, struct.error, ValueError, OverflowError)


def locate(cells: Sequence[Cell], data: bytes, start: int, end: int) -> list[CellPlace | None]:
    """Return (start, end) of each cell of the image at `start`; None for NULL. Raises MalformedValue."""
    position = start + (len(cells) + 7) // 8
    if position > end:
        raise MalformedValue("a row without its NULL bits")
    nulls = int.from_bytes(data[start:position], "little")
    places: list[CellPlace | None] = []
    for index, cell in enumerate(cells):
        if nulls >> index & 1:
            places.append(None)
            continue
        size = cell.size
        if cell.prefix:
            if position + cell.prefix > end:
                raise MalformedValue(f"column {index + 1} ends after its event")
            size = int.from_bytes(data[position : position + cell.prefix], "little")
            position += cell.prefix
        if position + size > end:
            raise MalformedValue(f"column {index + 1} ends after its event")
        places.append((position, position + size))
        position += size
    return places


def image_end(cells: Sequence[Cell], data: bytes, start: int, end: int) -> int:
    """Return the end of the image that begins at `start`. Raises MalformedValue."""
    return _end_of(locate(cells, data, start, end), cells, start)


def decoder_of(cells: tuple[Cell, ...], picked: tuple[int, ...]) -> Decoder:
    """Return the decoder of the columns `picked`, in that order, from images of these cells."""
    readers = [(index, reader(cells[index])) for index in picked]

    def decode(data: bytes, start: int, end: int) -> Row:
        places = locate(cells, data, start, end)
        if _end_of(places, cells, start) != end:
            raise MalformedValue("bytes after the last column of a row")
        try:
            return tuple([_value(read, data, places[index]) for index, read in readers])
        except _DAMAGE as error:
            raise MalformedValue(str(error)) from error

    return decode


def _end_of(places: Sequence[CellPlace | None], cells: Sequence[Cell], start: int) -> int:
    return max((place[1] for place in places if place is not None), default=start + (len(cells) + 7) // 8)


def _value(read: Transform | None, data: bytes, place: CellPlace | None) -> Value:
    if place is None:
        return None
    cell = data[place[0] : place[1]]
    return cell if read is None else read(cell)
