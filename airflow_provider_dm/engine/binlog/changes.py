"""The row changes of a piece of log: still encoded, with where each row lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from airflow_provider_dm.engine.binlog.images import MalformedImage, rows_of
from airflow_provider_dm.engine.binlog.maps import TableLayout
from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE, EVENT, LAYOUT
from airflow_provider_dm.engine.schema.codec import Row


class RowChange(NamedTuple):
    """The change of one row: before None is an insert, after None a delete. `table`: index into the tables."""

    table: int
    before: Row | None
    after: Row | None


@dataclass(frozen=True, eq=False)
class Batch:
    """Changes in the order of the log. `changes`: int64[changes, splitting.FIELDS], places are in `data`."""

    data: bytes
    changes: Any
    layouts: Sequence[TableLayout]
    compiled: bool
    """Kernels are there to be used."""

    def __len__(self) -> int:
        return len(self.changes)

    def rows(self) -> list[RowChange]:
        """Return every change as canonical values. Raises MalformedImage, whose index is that of the change."""
        count = len(self.changes)
        tables = [0] * count
        before: list[Row | None] = [None] * count
        after: list[Row | None] = [None] * count
        for number in np.unique(self.changes[:, LAYOUT]).tolist():
            table = self.layouts[number].table
            for which in np.flatnonzero(self.changes[:, LAYOUT] == number).tolist():
                tables[which] = table
            for side, place in ((before, BEFORE), (after, AFTER)):
                chosen, images = self.images(number, place)
                for which, row in zip(chosen.tolist(), self._rows_of(number, chosen, images), strict=True):
                    side[which] = row
        return [RowChange(*change) for change in zip(tables, before, after, strict=True)]

    def images(self, layout: int, place: int) -> tuple[Any, Any]:
        """Return (changes of this layout that have a row at `place` (BEFORE or AFTER), where those lie)."""
        if self.compiled:
            from airflow_provider_dm.engine.binlog.kernels.split import gather

            chosen, images = np.empty(len(self), np.int64), np.empty((len(self), 2), np.int64)
            count = gather(self.changes, layout, place, chosen, images)
            return chosen[:count], images[:count]
        chosen = np.flatnonzero((self.changes[:, LAYOUT] == layout) & (self.changes[:, place] >= 0))
        return chosen, np.ascontiguousarray(self.changes[chosen, place : place + 2])

    def positions(self) -> list[int]:
        """Return the file position of each change's event."""
        return self.changes[:, EVENT].tolist()  # type: ignore[no-any-return]

    def _rows_of(self, number: int, chosen: Any, images: Any) -> list[Row]:
        of = self.layouts[number]
        try:
            rows = rows_of(of.layout, self.data, images, compiled=self.compiled)
        except MalformedImage as error:
            raise MalformedImage(int(chosen[error.index]), str(error)) from error
        return [_without(row, of.absent) for row in rows] if of.absent else rows


def _without(row: Row, absent: Sequence[int]) -> Row:
    known = list(row)
    for index in absent:
        if index < len(known):  # beyond are hidden columns, which are none of a row's
            known[index] = ABSENT
    return tuple(known)
