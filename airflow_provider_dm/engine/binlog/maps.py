"""The table maps of a range: all texts that are known, and the maps that are in force.

The number of a map identifies its table until the statement ends; its text describes the table, and is cached for the
whole range, so that each text is parsed once. Both are in arrays that the kernel reads and writes; Python code changes
them only here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.layout import Layout, layout_of
from airflow_provider_dm.engine.binlog.partial_rows import columns_of
from airflow_provider_dm.engine.binlog.splitting import HASH, UNWANTED
from airflow_provider_dm.engine.binlog.table_map import ID_AND_FLAGS, map_name
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table

HINTS: Final = 4096
"""Size of the table that guesses a map's text from its number; a power of two."""
_FIRST_IN_FORCE: Final = 64
_ID_SIZE: Final = 6
_64_BITS: Final = (1 << 64) - 1


class WantedTable(NamedTuple):
    """A table with its definition at the location where its changes are read: after `skip_until`.

    A table without columns does not exist there: earlier changes are skipped, and later ones count as not wanted.
    """

    table: Table
    skip_until: str = ""
    """A location's sort key: changes in transactions that end at or before it are skipped. "" skips none."""
    optional_columns: Collection[int] = ()
    """Columns that are not needed, so that an image may omit them; they are then ABSENT."""


@dataclass(frozen=True)
class WantedTables:
    """The tables whose changes are read. `other`: called with the name of every other table in the log; an exception of
    it ends the reading. None: other tables are ignored. Picklable if `other` is."""

    tables: Sequence[WantedTable]
    other: Callable[[TableName], None] | None = None

    @classmethod
    def whole(cls, tables: Iterable[Table], other: Callable[[TableName], None] | None = None) -> WantedTables:
        """Return a value for these tables with all of their changes and columns."""
        return cls([WantedTable(table) for table in tables], other)

    @cached_property
    def _indices(self) -> dict[TableName, int]:
        return {wanted.table.name: index for index, wanted in enumerate(self.tables)}

    def find(self, name: TableName) -> int | None:
        """Return the index of a table; None if it is not wanted. Raises the errors of `other`."""
        index = self._indices.get(name)
        if index is None and self.other is not None:
            self.other(name)
        return index


class TableLayout(NamedTuple):
    """A layout and its table. `table`: index into the range's tables. `optional_columns`: those that an image may omit,
    as a bitmap."""

    layout: Layout
    table: int
    skip_before: int
    """Changes at file positions before this are skipped."""
    optional_columns: int
    absent: tuple[int, ...] = ()
    """Those that its rows omit."""


class Maps:
    """The table maps of a range. `layouts[i]` is layout number i of a change."""

    def __init__(self, wanted: WantedTables, skip_before: Sequence[int], end: int) -> None:
        """Create the maps of a range that ends at `end`. `skip_before`: for each wanted table."""
        self.layouts: list[TableLayout] = []
        self._end = end
        self._wanted = wanted
        self._skip_before = skip_before
        self._names: list[TableName] = []
        self._by_text: dict[bytes, int] = {}
        self._without: dict[tuple[int, int], int] = {}
        self._texts = _Growing(np.uint8)
        self._known = _Growing(np.int64, 3)
        self._of_layouts = _Growing(np.int64, 3)
        self._cells = _Growing(np.int64, 2)
        self._hints: Any = np.full(HINTS, -1, np.int64)
        self._numbers: Any = np.zeros(_FIRST_IN_FORCE, np.int64)  # numbers of the maps in force
        self._in_force: Any = np.zeros(_FIRST_IN_FORCE, np.int64)  # their texts
        self._count: Any = np.zeros(1, np.int64)  # how many are in force

    def arrays(self) -> tuple[Any, ...]:
        """Return the arrays that the kernel reads and writes.

        All texts concatenated, read-only; start, size, and layout or UNWANTED of each text; the guesses; the numbers in
        force, the text of each, and their count; first cell, columns and skip_before of each layout; size and prefix of
        each cell.
        """
        texts = self._texts.filled
        texts.flags.writeable = False
        in_force = self._hints, self._numbers, self._in_force, self._count
        return texts, self._known.filled, *in_force, self._of_layouts.filled, self._cells.filled

    def name(self, body: bytes, at: str) -> None:
        """Read a TABLE_MAP event, its bytes between header and checksum: its number is in force from now on.

        Raises MalformedEvent, SchemaMismatch, UnsupportedColumnType, and the errors of `WantedTables.other`.
        """
        if len(body) < ID_AND_FLAGS:
            raise MalformedEvent(at, "a TABLE_MAP without its number")
        text = body[ID_AND_FLAGS:]
        known = self._by_text.get(text)
        if known is None:
            known = self._learn(text, at)
        number, count = int.from_bytes(body[:_ID_SIZE], "little"), int(self._count[0])
        self._hints[((number * HASH & _64_BITS) >> 32) % HINTS] = known
        place = self._place_of(number)
        if place is not None:
            self._in_force[place] = known
            return
        if count == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)])
            self._in_force = np.concatenate([self._in_force, np.zeros_like(self._in_force)])
        self._numbers[count], self._in_force[count] = number, known
        self._count[0] = count + 1

    def find(self, number: int) -> tuple[TableName, int] | None:
        """Return (table, layout or UNWANTED) of a number in force; None if it is not in force."""
        place = self._place_of(number)
        if place is None:
            return None
        known = int(self._in_force[place])
        return self._names[known], int(self._known.filled[known, 2])

    def _place_of(self, number: int) -> int | None:
        places = np.flatnonzero(self._numbers[: int(self._count[0])] == number)
        return int(places[0]) if len(places) else None

    def without(self, number: int, absent: int) -> int:
        """Return the number of the layout for rows of layout `number` without the columns of this bitmap."""
        if (number, absent) not in self._without:
            of = self.layouts[number]
            self._without[number, absent] = self._add(of.layout, of.table)
            self.layouts[-1] = of._replace(absent=columns_of(absent))
        return self._without[number, absent]

    def forget(self) -> None:
        """Forget the numbers in force: a statement has ended."""
        self._count[0] = 0

    def _learn(self, text: bytes, at: str) -> int:
        name = map_name(text, at)
        layout = self._layout_of(text, name, at)
        self._by_text[text] = len(self._names)
        self._names.append(name)
        self._known.append(np.array([(self._texts.count, len(text), layout)], np.int64))
        self._texts.append(np.frombuffer(text, np.uint8))
        return len(self._names) - 1

    def _layout_of(self, text: bytes, name: TableName, at: str) -> int:
        index = self._wanted.find(name)
        if index is None or self._skip_before[index] >= self._end:
            return UNWANTED  # before `skip_until` the table may have another definition
        table = self._wanted.tables[index].table
        if not table.columns:
            if self._wanted.other is not None:
                self._wanted.other(name)
            return UNWANTED
        return self._add(layout_of(text, table, at), index)

    def _add(self, layout: Layout, table: int) -> int:
        hidden = range(len(layout.everything), len(layout.cells))
        optional_columns = sum(1 << index for index in (*self._wanted.tables[table].optional_columns, *hidden))
        self.layouts.append(TableLayout(layout, table, self._skip_before[table], optional_columns))
        shape = (self._cells.count, len(layout.cells), self._skip_before[table])
        self._of_layouts.append(np.array([shape], np.int64))
        self._cells.append(np.array([(cell.size, cell.prefix) for cell in layout.cells], np.int64).reshape(-1, 2))
        return len(self.layouts) - 1


class _Growing:
    """An array that grows at its end."""

    def __init__(self, kind: Any, *width: int) -> None:
        self._array = np.zeros((_FIRST_IN_FORCE, *width), kind)
        self.count = 0

    def append(self, rows: Any) -> None:
        needed = self.count + len(rows)
        if needed > len(self._array):
            larger = np.zeros((2 * needed, *self._array.shape[1:]), self._array.dtype)
            larger[: self.count] = self._array[: self.count]
            self._array = larger
        self._array[self.count : needed] = rows
        self.count = needed

    @property
    def filled(self) -> Any:
        return self._array[: self.count]
