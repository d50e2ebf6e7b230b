"""The layout of a table map's row images for one table definition, also as arrays for the kernels.

A layout is made from a table map's text and a definition (`layout_of`). The plain decoder uses its `cells`; kernels use
`columns`, one row of numbers for each cell, and `constants`, the texts of ENUM and SET members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np

from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.table_map import map_cells, parse_map
from airflow_provider_dm.engine.schema.codec import codec_for
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

PLAIN_ONLY: Final = frozenset(
    {CellKind.JSON, CellKind.UUID, CellKind.INET4, CellKind.INET6, CellKind.COMPRESSED, CellKind.HIDDEN}
)
"""Kinds that only the plain decoder converts, or that have no value (HIDDEN); kernels still know their length."""

_LONGEST_FIXED: Final = 128
"""More than the length of any number or time as text."""
_SLACK: Final = 16
"""For writes of whole words of which only the first bytes count."""


class Field(IntEnum):
    """The numbers in a row of `LayoutArrays.columns`."""

    KIND = 0
    SIZE = 1
    PREFIX = 2
    PRECISION = 3
    SCALE = 4
    FIRST_MEMBER = 5
    MEMBERS = 6


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of a table map's rows: `cells[i]` reads column i of `table`; hidden columns are at the end."""

    table: Table
    cells: tuple[Cell, ...]

    @cached_property
    def for_kernels(self) -> LayoutArrays:
        return LayoutArrays.of(self.cells)

    @property
    def everything(self) -> range:
        """All columns of the table."""
        return range(len(self.cells) - self.table.hidden)


@dataclass(frozen=True, eq=False)
class LayoutArrays:
    """A layout as numbers.

    `columns`: int64[cells, Field]. `constants`: uint8, all texts. `members`: int64[members, 2], start and size of the
    canonical text of each ENUM or SET member in the constants. `room`: maximum size of one row's text in addition to
    the size of its image. `plain_only`: columns that kernels cannot write.
    """

    columns: Any
    constants: Any
    members: Any
    room: int
    plain_only: frozenset[int]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> LayoutArrays:
        texts, room = list[bytes](), _SLACK
        columns: list[tuple[int, ...]] = []
        for cell in cells:
            first, named = len(texts), _members(cell)
            room += _room(cell, named)
            texts += named
            columns.append((cell.kind, cell.size, cell.prefix, cell.precision, cell.scale, first, len(named)))
        sizes = np.array([len(text) for text in texts], np.int64)
        return cls(
            np.array(columns, np.int64).reshape(len(cells), len(Field)),
            np.frombuffer(b"".join(texts) + bytes(8), np.uint8),  # never empty, so that it has an address
            np.column_stack([np.cumsum(sizes) - sizes, sizes]),
            room,
            frozenset(index for index, cell in enumerate(cells) if cell.kind in PLAIN_ONLY),
        )


def _members(cell: Cell) -> tuple[bytes, ...]:
    """Return the texts by index of an ENUM, or by bit of a SET."""
    return (INVALID_MEMBER, *cell.members) if cell.kind is CellKind.ENUM else cell.members


def _room(cell: Cell, members: Sequence[bytes]) -> int:
    """Return the maximum size of a cell's text in addition to the cell's own size."""
    padding = cell.precision if cell.kind is CellKind.PADDED else 0
    return _LONGEST_FIXED + sum(len(text) + 1 for text in members) + padding


def layout_of(map_text: bytes, table: Table, at: str) -> Layout:
    """Return the layout of a table map (its bytes after id and flags) for a definition; cached in this process.

    Raises MalformedEvent, SchemaMismatch, UnsupportedColumnType.
    """
    key = (map_text, table)
    layout = _layouts.get(key)
    if layout is None:
        layout = Layout(table, map_cells(parse_map(map_text, at), table, at))
        for column in table.columns:
            codec_for(table.name, column)  # raises for a column that cannot be written
        if len(_layouts) >= _KEPT_LAYOUTS:
            _layouts.clear()
        _layouts[key] = layout
    return layout


_KEPT_LAYOUTS: Final = 1024
_layouts: dict[tuple[bytes, Table], Layout] = {}
