r"""A row as bytes that are the same on both sides exactly when the row is.

The text protocol's packet is such a form already: of each cell a length or the mark of NULL, then its bytes. So where
no column needs a change, a row is hashed as it travels (`packed`), and otherwise its cells are made canonical and
packed again; test_row_bytes holds the two to each other.

Cells need a change where both sides may write one value in two ways: ZEROFILL, FLOAT and ENUM (the codec's business), a
DECIMAL or a time whose target has more digits behind the point, a BIT that was widened. Text whose charset is not the
other side's is converted to UTF-8 by its own server, so a latin1 source and a utf8mb4 target compare equal; within one
charset bytes are compared, as a character without a meaning would become the same `?` as any other.

What is not compared: collations, defaults, indexes, and what the target has beyond the source's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.reading.text_rows import Cells, split_row
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import TEXTS, Transform, codec_for, selected
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.numbers import bits_key
from airflow_provider_dm.engine.schema.temporal import time_key

_IN_UTF8: Final = frozenset({None, "binary", "utf8mb4", "utf8mb3", "utf8", "ascii"})
_WITH_FRACTION: Final = frozenset({"decimal", "time", "datetime", "timestamp"})


@dataclass(frozen=True)
class RowForm:
    """The way one table of a mapping is read: the SELECT list, and for each column what makes it canonical, in turn."""

    select: str
    transforms: tuple[tuple[Transform, ...], ...]

    def packer(self) -> Callable[[bytes], bytes]:
        """Return the function packet as it came -> canonical packet."""
        changed = [(number, change) for number, changes in enumerate(self.transforms) for change in changes]
        if not changed:
            return bytes
        width = len(self.transforms)

        def pack(packet: bytes) -> bytes:
            cells = list(split_row(packet, width))
            for number, change in changed:
                cell = cells[number]
                if cell is not None:
                    cells[number] = change(cell)
            return packed(tuple(cells))

        return pack


def source_form(mapping: TableMapping) -> RowForm:
    """Return how the source's rows are read."""
    return _form(mapping.source, mapping.source.columns, mapping.target_columns)


def target_form(mapping: TableMapping) -> RowForm:
    """Return how the target's rows are read: the same columns, in the source's order."""
    return _form(mapping.target, mapping.target_columns, mapping.source.columns)


def packed(cells: Cells) -> bytes:
    r"""Pack cells as the text protocol does.

    >>> packed((b"12", None, b""))
    b'\x0212\xfb\x00'
    """
    return b"".join([b"\xfb" if cell is None else _length(len(cell)) + cell for cell in cells])


def _form(table: Table, columns: Sequence[Column], others: Sequence[Column]) -> RowForm:
    expressions, transforms = [], []
    for column, other in zip(columns, others, strict=True):
        codec = codec_for(table.name, column)
        expression = selected(codec, column)
        if column.data_type in TEXTS and column.charset != other.charset and column.charset not in _IN_UTF8:
            expression = f"CONVERT({expression} USING utf8mb4)"
        expressions.append(expression)
        transforms.append(tuple(filter(None, (codec.from_text, _common_form(column, other)))))
    return RowForm(", ".join(expressions), tuple(transforms))


def _common_form(column: Column, other: Column) -> Transform | None:
    """Return what both sides are reduced to where their types differ in what they show of one value."""
    scales = (column.numeric_scale, column.datetime_precision), (other.numeric_scale, other.datetime_precision)
    if column.data_type in _WITH_FRACTION and scales[0] != scales[1]:
        return time_key
    if column.data_type == "bit" and column.column_type != other.column_type:
        return bits_key
    return None


def _length(size: int) -> bytes:
    if size < 0xFB:
        return size.to_bytes(1, "little")
    for prefix, width in ((b"\xfc", 2), (b"\xfd", 3)):
        if size < 1 << 8 * width:
            return prefix + size.to_bytes(width, "little")
    return b"\xfe" + size.to_bytes(8, "little")
