"""From the bytes of a rows event to rows: a decoder compiled for each table, and the plain one that it must equal.

A row image is a bitmap of NULLs and then the cells that are not NULL, in column order. `decode_rows` reads it cell by
cell and is the specification. `compile_decoder` writes the same as straight-line code for one list of cells: adjacent
cells of fixed size are unpacked at once, integers by one format, and a row without NULL takes a way without questions.

Bounds: no length is believed. Slices cannot run over, positions only grow, and a row that ends behind its event is
refused; so the decoders raise MalformedCells and never read a neighbour's bytes into a row that is passed on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.binlog.cells import Cell
from airflow_provider_dm.engine.schema.codec import Row, Value

Decoder: TypeAlias = Callable[[bytes, int, int], list[Row]]
"""(data, start, end) -> the row images in data[start:end]."""


class MalformedCells(ValueError):
    """Row images that do not fit the columns; the caller knows where and raises the error for people."""


_DAMAGE: Final = (IndexError, struct.error, ValueError, OverflowError)


def decode_rows(cells: Sequence[Cell], data: bytes, start: int, end: int) -> list[Row]:
    """All row images of data[start:end], cell by cell. Raises MalformedCells."""
    bitmap = (len(cells) + 7) // 8
    rows: list[Row] = []
    position = start
    try:
        while position < end:
            nulls = int.from_bytes(data[position : position + bitmap], "little")
            position += bitmap
            row: list[Value] = []
            for index, cell in enumerate(cells):
                if nulls >> index & 1:
                    row.append(None)
                    continue
                size = cell.size
                if cell.prefix:
                    size = int.from_bytes(data[position : position + cell.prefix], "little")
                    position += cell.prefix
                if position + size > end:
                    raise MalformedCells(f"column {index + 1} ends behind its event")
                value = data[position : position + size]
                row.append(value if cell.convert is None else cell.convert(value))
                position += size
            rows.append(tuple(row))
    except _DAMAGE as error:
        raise MalformedCells(str(error)) from error
    if position != end:
        raise MalformedCells("the last row ends behind its event")
    return rows


def compile_decoder(cells: Sequence[Cell]) -> Decoder:
    """A function that equals `decode_rows` for these cells. Its source is made of numbers and our own names only."""
    writer = _Writer(cells)
    names = writer.names
    exec(compile(writer.source(), "<row decoder>", "exec"), names)  # noqa: S102
    fast: Decoder = names["decode"]

    def decode(data: bytes, start: int, end: int) -> list[Row]:
        try:
            return fast(data, start, end)
        except _DAMAGE as error:
            raise MalformedCells(str(error)) from error

    return decode


_LENGTHS: Final = {
    1: "data[position]",
    2: "(data[position] | data[position + 1] << 8)",
    3: "(data[position] | data[position + 1] << 8 | data[position + 2] << 16)",
    4: "(data[position] | data[position + 1] << 8 | data[position + 2] << 16 | data[position + 3] << 24)",
}


class _Writer:
    """Writes the source of one decoder. Cell i becomes variable `v<i>`; converters and structs are names."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.names: dict[str, Any] = {f"convert{i}": cell.convert for i, cell in enumerate(cells)}

    def source(self) -> str:
        bitmap = (len(self.cells) + 7) // 8
        nulls = "data[position]" if bitmap == 1 else f'from_bytes(data[position : position + {bitmap}], "little")'
        values = "".join(f"v{index}, " for index in range(len(self.cells)))
        lines = [
            "def decode(data, position, end):",
            "    from_bytes = int.from_bytes",
            "    rows = []",
            "    append = rows.append",
            "    while position < end:",
            f"        nulls = {nulls} & {(1 << len(self.cells)) - 1}",
            f"        position += {bitmap}",
            "        if not nulls:",
            *_indented(self._straight(), 12),
            "        else:",
            *_indented(self._questioned(), 12),
            "        if position > end:",
            "            raise IndexError('a row ends behind its event')",
            f"        append(({values}))",
            "    return rows",
        ]
        return "\n".join(lines)

    def _straight(self) -> list[str]:
        lines: list[str] = []
        for prefixed, group in groupby(enumerate(self.cells), key=lambda numbered: bool(numbered[1].prefix)):
            indices = [index for index, _ in group]
            lines += [line for index in indices for line in self._prefixed(index)] if prefixed else self._fixed(indices)
        return lines

    def _questioned(self) -> list[str]:
        lines = []
        for index, cell in enumerate(self.cells):
            body = self._prefixed(index) if cell.prefix else self._fixed([index])
            lines += [f"if nulls & {1 << index}:", f"    v{index} = None", "else:", *_indented(body, 4)]
        return lines

    def _fixed(self, indices: Sequence[int]) -> list[str]:
        layout = struct.Struct("<" + "".join(self.cells[i].number or f"{self.cells[i].size}s" for i in indices))
        name = f"unpack{indices[0]}_{len(indices)}"
        self.names[name] = layout.unpack_from
        targets = "".join(f"v{index}, " for index in indices)
        lines = [f"{targets}= {name}(data, position)", f"position += {layout.size}"]
        for index in indices:
            if self.cells[index].number:
                lines.append(f'v{index} = b"%d" % v{index}')
            elif self.cells[index].convert is not None:
                lines.append(f"v{index} = convert{index}(v{index})")
        return lines

    def _prefixed(self, index: int) -> list[str]:
        cell = self.cells[index]
        value = "data[start:position]"
        return [
            f"start = position + {cell.prefix}",
            f"position = start + {_LENGTHS[cell.prefix]}",
            f"v{index} = {value if cell.convert is None else f'convert{index}({value})'}",
        ]


def _indented(lines: Iterable[str], spaces: int) -> list[str]:
    return [" " * spaces + line for line in lines]
