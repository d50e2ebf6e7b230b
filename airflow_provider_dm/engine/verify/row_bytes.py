r"""Canonical bytes of a row: equal on both sides if and only if the rows are equal.

A row packet of the text protocol already has this form: each cell is its length and its bytes, or the mark of NULL. If
no column needs a conversion, the packet is hashed as received; otherwise its cells are converted and packed again
(`packed`). test_row_bytes checks that both forms agree.

Conversions are needed where the two sides may write the same value differently: ZEROFILL, FLOAT and ENUM (done by the
codec), a DECIMAL or temporal value with a different number of decimals, a BIT of a different length, JSON if the target
stores a DECIMAL in it as DOUBLE (1.50 as 1.5). If the charsets of a text differ, each server converts its own text to
UTF-8, so a latin1 source and a utf8mb4 target compare equal. Within one charset the bytes are compared, because a
conversion replaces every invalid character by the same `?`.

Not compared: collations, defaults, indexes, and target columns that the source does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.reading.text_rows import TextCells, split_row
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import TEXTS, Transform, check_source_column, codec_for, selected
from airflow_provider_dm.engine.schema.json_text import as_value
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.numbers import bits_key
from airflow_provider_dm.engine.schema.temporal import time_key

_IN_UTF8: Final = frozenset({None, "binary", "utf8mb4", "utf8mb3", "utf8", "ascii"})
_WITH_FRACTION: Final = frozenset({"decimal", "time", "datetime", "timestamp"})


@dataclass(frozen=True)
class RowForm:
    """The way to read the rows of one side: the SELECT list, and each column's conversions to its canonical form."""

    select: str
    transforms: tuple[tuple[Transform, ...], ...]

    def packer(self) -> Callable[[bytes], bytes]:
        """Return a function that converts a received packet to a canonical packet."""
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


def source_form(mapping: TableMapping, target: Capabilities) -> RowForm:
    """Return the form in which the source's rows are read. Raises UnsupportedColumnType."""
    for column in mapping.source.columns:
        check_source_column(mapping.source.name, column)
    return _form(mapping.source, mapping.source.columns, mapping.target_columns, target)


def target_form(mapping: TableMapping, target: Capabilities) -> RowForm:
    """Return the form in which the target's rows are read: the mapped columns, in the source's order."""
    return _form(mapping.target, mapping.target_columns, mapping.source.columns, target)


def packed(cells: TextCells) -> bytes:
    r"""Pack cells in the format of the text protocol.

    >>> packed((b"12", None, b""))
    b'\x0212\xfb\x00'
    """
    return b"".join([b"\xfb" if cell is None else _length(len(cell)) + cell for cell in cells])


def _form(table: Table, columns: Sequence[Column], others: Sequence[Column], target: Capabilities) -> RowForm:
    expressions, transforms = [], []
    for column, other in zip(columns, others, strict=True):
        codec = codec_for(table.name, column)
        expression = selected(codec, column)
        if column.data_type in TEXTS and column.charset != other.charset and column.charset not in _IN_UTF8:
            expression = f"CONVERT({expression} USING utf8mb4)"
        expressions.append(expression)
        transforms.append(tuple(filter(None, (codec.from_text, _common_form(column, other, target)))))
    return RowForm(", ".join(expressions), tuple(transforms))


def _common_form(column: Column, other: Column, target: Capabilities) -> Transform | None:
    """Return the conversion that both sides need because their column types show equal values differently."""
    scales = (column.numeric_scale, column.datetime_precision), (other.numeric_scale, other.datetime_precision)
    if column.data_type in _WITH_FRACTION and scales[0] != scales[1]:
        return time_key
    if column.data_type == "bit" and column.column_type != other.column_type:
        return bits_key
    types = {column.data_type, other.data_type}
    if "json" in types and (len(types) > 1 or not target.json_keeps_decimals):
        return as_value
    return None


def _length(size: int) -> bytes:
    if size < 0xFB:
        return size.to_bytes(1, "little")
    for prefix, width in ((b"\xfc", 2), (b"\xfd", 3)):
        if size < 1 << 8 * width:
            return prefix + size.to_bytes(width, "little")
    return b"\xfe" + size.to_bytes(8, "little")
