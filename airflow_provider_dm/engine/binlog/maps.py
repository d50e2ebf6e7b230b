"""The table maps of a range: those whose text is known, and those that are in force.

A map's number names its table until the statement ends; its text says which table it is, and stays known for the whole
range, so that the same text is parsed once. Both are kept as arrays that the kernel reads and writes; Python changes
them here only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.layout import Layout, layout_of
from airflow_provider_dm.engine.binlog.partial_json import with_texts
from airflow_provider_dm.engine.binlog.splitting import UNWANTED
from airflow_provider_dm.engine.binlog.table_map import ID_AND_FLAGS, map_name
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table

Wanted = Callable[[TableName], int | None]

HINTS: Final = 4096
"""Size of the table that guesses a map's text from its number; a power of two."""
_FIRST_IN_FORCE: Final = 64
_ID_SIZE: Final = 6


class TableLayout(NamedTuple):
    """A layout and the table it stands for. `table`: index into the range's tables."""

    layout: Layout
    table: int
    skip_before: int
    """Changes at file positions before this are skipped."""


class Maps:
    """`layouts[i]`: what layout number i of a change is."""

    def __init__(self, tables: Sequence[Table], skip_before: Sequence[int], wanted: Wanted) -> None:
        self.layouts: list[TableLayout] = []
        self._tables = tables
        self._skip_before = skip_before
        self._wanted = wanted
        self._names: list[TableName] = []
        self._by_text: dict[bytes, int] = {}
        self._with_texts: dict[int, int] = {}
        # For the kernel
        self.texts: Any = np.zeros(8, np.uint8)
        self.known: Any = np.zeros((0, 3), np.int64)  # of each text: start, size, layout or UNWANTED
        self.hints: Any = np.full(HINTS, -1, np.int64)
        self.numbers: Any = np.zeros(_FIRST_IN_FORCE, np.int64)  # of the tables in force
        self.in_force: Any = np.zeros(_FIRST_IN_FORCE, np.int64)  # and which text each of them is
        self.count: Any = np.zeros(1, np.int64)  # how many they are
        self.of_layouts: Any = np.zeros((0, 3), np.int64)  # first cell, columns, skip_before
        self.cells: Any = np.zeros((0, 2), np.int64)  # size, prefix
        self.texts.flags.writeable = False  # as those of bytes are

    def name(self, body: bytes, at: str) -> None:
        """A TABLE_MAP event, its bytes between header and checksum: from now on its number is this table.

        Raises MalformedEvent, SchemaMismatch, UnsupportedColumnType, and what `wanted` raises.
        """
        if len(body) < ID_AND_FLAGS:
            raise MalformedEvent(at, "a TABLE_MAP without its number")
        text = body[ID_AND_FLAGS:]
        known = self._by_text.get(text)
        if known is None:
            known = self._learn(text, at)
        number, count = int.from_bytes(body[:_ID_SIZE], "little"), int(self.count[0])
        for index in range(count):
            if self.numbers[index] == number:
                self.in_force[index] = known
                return
        if count == len(self.numbers):
            self.numbers = np.concatenate([self.numbers, np.zeros_like(self.numbers)])
            self.in_force = np.concatenate([self.in_force, np.zeros_like(self.in_force)])
        self.numbers[count], self.in_force[count] = number, known
        self.count[0] = count + 1

    def find(self, number: int) -> tuple[TableName, int] | None:
        """(table, layout or UNWANTED) of a number that is in force."""
        for index in range(int(self.count[0])):
            if self.numbers[index] == number:
                known = int(self.in_force[index])
                return self._names[known], int(self.known[known, 2])
        return None

    def with_texts(self, number: int) -> int:
        """The number of the layout that is layout `number` with texts for JSON documents (`partial_json`)."""
        if number not in self._with_texts:
            of = self.layouts[number]
            self._with_texts[number] = self._add(with_texts(of.layout), of.table)
        return self._with_texts[number]

    def forget(self) -> None:
        """A statement has ended."""
        self.count[0] = 0

    def _learn(self, text: bytes, at: str) -> int:
        name = map_name(text, at)
        index = self._wanted(name)
        layout = UNWANTED if index is None else self._add(layout_of(text, self._tables[index], at), index)
        start = sum(map(len, self._by_text))
        self._by_text[text] = len(self._names)
        self._names.append(name)
        self.texts = np.frombuffer(b"".join(self._by_text) + bytes(8), np.uint8)
        self.known = np.vstack([self.known, np.array([(start, len(text), layout)], np.int64)])
        return len(self._names) - 1

    def _add(self, layout: Layout, table: int) -> int:
        self.layouts.append(TableLayout(layout, table, self._skip_before[table]))
        shape = (len(self.cells), len(layout.cells), self._skip_before[table])
        self.of_layouts = np.vstack([self.of_layouts, np.array([shape], np.int64)])
        cells = np.array([(cell.size, cell.prefix) for cell in layout.cells], np.int64).reshape(-1, 2)
        self.cells = np.vstack([self.cells, cells])
        return len(self.layouts) - 1
