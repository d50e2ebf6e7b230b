"""PARTIAL_UPDATE_ROWS: updates whose new rows only have the changes of JSON columns (binlog_row_value_options).

    row pair = image before, value options, [differences, one bit per JSON column of the table], image after

(MySQL `libs/mysql/binlog/event/rows_event.h`, "Partial_update_rows_event".) A JSON cell whose bit is set contains
changes to the old document instead of a document. Only the server could make a binary document of them, and only its
text is needed: both images of a pair are rewritten with texts instead of documents, for a layout with text cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.layout import Layout
from airflow_provider_dm.engine.binlog.row_decoder import CellPlace, image_end, locate
from airflow_provider_dm.engine.schema.errors import MalformedValue
from airflow_provider_dm.engine.schema.json_binary import apply_diffs, json_text

_DIFFERENCES: Final = 1
"""The only known value option."""
_TEXT: Final = Cell(CellKind.BYTES, prefix=4)


def with_texts(layout: Layout) -> Layout:
    """Return the layout of the images that `row_pairs` writes."""
    cells = tuple(_TEXT if cell.kind is CellKind.JSON else cell for cell in layout.cells)
    return replace(layout, cells=cells)


def row_pairs(layout: Layout, data: bytes, start: int, end: int, at: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield (image before, image after) of each update in data[start:end], for `with_texts(layout)`.

    Raises MalformedValue, and MalformedEvent for a length that is too short; `at` is the event's location.
    """
    documents = [index for index, cell in enumerate(layout.cells) if cell.kind is CellKind.JSON]
    while start < end:
        before = locate(layout.cells, data, start, end)
        options_at = image_end(layout.cells, data, start, end)
        reader = ByteReader(data[options_at:end], at, "an update with JSON differences")
        options, partial = reader.number(), 0
        if options & ~_DIFFERENCES:
            raise MalformedValue(f"value options {options:#x}")
        if options:
            partial = int.from_bytes(reader.take((len(documents) + 7) // 8), "little")
        after_at = options_at + reader.position
        after = locate(layout.cells, data, after_at, end)
        changed = [index for bit, index in enumerate(documents) if partial >> bit & 1]
        texts = {index: _changed(data, index, before[index], after[index]) for index in changed}
        yield _image(layout, data, start, before, {}), _image(layout, data, after_at, after, texts)
        start = image_end(layout.cells, data, after_at, end)


def _changed(data: bytes, index: int, old: CellPlace | None, new: CellPlace | None) -> bytes:
    if old is None or new is None:
        raise MalformedValue(f"column {index + 1} has differences to or from NULL")
    try:
        return apply_diffs(data[slice(*old)], data[slice(*new)])
    except MalformedValue as error:
        raise MalformedValue(f"column {index + 1}: {error}") from error


def _image(layout: Layout, data: bytes, start: int, places: list[CellPlace | None], texts: dict[int, bytes]) -> bytes:
    """Return an image with the texts of its documents; `texts` are those already computed."""
    parts = [data[start : start + layout.bitmap_size]]
    for index, (cell, place) in enumerate(zip(layout.cells, places, strict=True)):
        if place is None:
            continue
        if cell.kind is not CellKind.JSON:
            parts.append(data[place[0] - cell.prefix : place[1]])
            continue
        text = texts[index] if index in texts else _text(data[slice(*place)], index)
        parts.append(len(text).to_bytes(_TEXT.prefix, "little") + text)
    return b"".join(parts)


def _text(document: bytes, index: int) -> bytes:
    try:
        return json_text(document)
    except MalformedValue as error:
        raise MalformedValue(f"column {index + 1}: {error}") from error
