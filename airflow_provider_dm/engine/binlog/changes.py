"""The row changes of a part of the log: still encoded, with the position of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from airflow_provider_dm.engine.binlog.errors import MalformedImage
from airflow_provider_dm.engine.binlog.images import Cells, canonical_cells, rows_of
from airflow_provider_dm.engine.binlog.maps import TableLayout
from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE, EVENT, LAYOUT
from airflow_provider_dm.engine.schema.codec import Row


class RowChange(NamedTuple):
    """The change of one row: an insert has no `before`, a delete no `after`. `table`: index into the tables."""

    table: int
    before: Row | None
    after: Row | None


_change: Callable[[tuple[int, Row | None, Row | None]], RowChange] = partial(tuple.__new__, RowChange)
"""RowChange._make without a Python call."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Changes in log order. `changes`: int64[changes, splitting.FIELDS], with offsets into `data`."""

    data: bytes
    changes: Any
    layouts: Sequence[TableLayout]
    compiled: bool
    """True to use the compiled kernels."""

    def __len__(self) -> int:
        return len(self.changes)

    def rows(self) -> list[RowChange]:
        """Return all changes as canonical values. Raises MalformedImage with the index of the change."""
        layouts = self.changes[:, LAYOUT]
        tables = np.array([layout.table for layout in self.layouts], np.int64)[layouts].tolist()
        used = np.unique(layouts).tolist()
        before, after = (self._side(used, place) for place in (BEFORE, AFTER))
        return list(map(_change, zip(tables, before, after, strict=True)))

    def _side(self, layouts: Sequence[int], place: int) -> list[Row | None]:
        """Return the row at `place` (BEFORE or AFTER) of each change, or None. `layouts`: those of the changes."""
        side: list[Row | None] = [None] * len(self)
        for layout in layouts:
            chosen, images = self.images(layout, place)
            rows = self._rows_of(layout, chosen, images)
            if len(rows) == len(side):
                return list(rows)
            for which, row in zip(chosen.tolist(), rows, strict=True):
                side[which] = row
        return side

    def images(self, layout: int, place: int) -> tuple[Any, Any]:
        """Return (changes of this layout with a row at `place` (BEFORE or AFTER), offsets of those rows)."""
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

    def cells(self, layout: int, place: int, columns: Sequence[int]) -> Cells:
        """Return these columns of the rows of this layout at `place`. Raises MalformedImage as `rows` does."""
        chosen, images = self.images(layout, place)
        with _located(chosen):
            return canonical_cells(self.layouts[layout].layout, self.data, images, columns, compiled=self.compiled)

    def with_changes(self, changes: Any) -> Batch:
        """Return a batch of these changes, with offsets into the same data."""
        return replace(self, changes=changes)

    def alone(self) -> Batch:
        """Return these changes with the images that they refer to, and no other bytes. Only with kernels."""
        from airflow_provider_dm.engine.binlog.kernels.chains import move_images

        changes = self.changes.copy()
        images = np.empty(sum(int(self._sizes(place).sum()) for place in (BEFORE, AFTER)), np.uint8)
        move_images(np.frombuffer(self.data, np.uint8), changes, images)
        return replace(self, data=images.tobytes(), changes=changes)

    def _sizes(self, place: int) -> Any:
        return np.where(self.changes[:, place] < 0, 0, self.changes[:, place + 1] - self.changes[:, place])

    def _rows_of(self, layout: int, chosen: Any, images: Any) -> list[Row]:
        table = self.layouts[layout]
        with _located(chosen):
            rows = rows_of(table.layout, self.data, images, compiled=self.compiled)
        return [_without(row, table.absent) for row in rows] if table.absent else rows


@contextmanager
def _located(chosen: Any) -> Iterator[None]:
    """Convert the index in a MalformedImage from that of an image to that of its change. `chosen`: image -> change."""
    try:
        yield
    except MalformedImage as error:
        raise MalformedImage(int(chosen[error.index]), str(error)) from error


def _without(row: Row, absent: Sequence[int]) -> Row:
    known = list(row)
    for index in absent:
        if index < len(known):  # higher indices are hidden columns, which a row does not have
            known[index] = ABSENT
    return tuple(known)
