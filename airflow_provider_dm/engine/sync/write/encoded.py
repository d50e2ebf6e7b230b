"""A fast path for tables whose changes of an epoch kernels can fold: their images stay encoded until then.

The changes of the whole epoch are joined (`chains`). If each key has one change then, there is nothing left to fold.
Before that, each part of the epoch is joined as it is read, and only the remaining images are kept. So an epoch may be
larger than the memory.
The rows stay in the compact form that a kernel has written (`binlog.images.Cells`) until a kernel makes statements of
them (`downstream.insertion`); only keys and deleted rows become Python objects. Otherwise (a key with two changes that
do not fit byte by byte, a row that is inserted and deleted, a key that changes, a disputed value of a further unique
key) all of the table's changes go to the compactor, whose result is the same.

Only for tables whose rows are written unchanged, from one source table, covered completely, without filters and
extracted columns, in the target's column order. In safe mode a row whose further unique values change is deleted and
inserted: a table with such keys, only if all changes are inserts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, groupby, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.errors import MalformedImage
from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.maps import TableLayout
from airflow_provider_dm.engine.binlog.rows import located
from airflow_provider_dm.engine.binlog.splitting import AFTER, AFTER_END, BEFORE, LAYOUT
from airflow_provider_dm.engine.schema.codec import INTEGERS, Row
from airflow_provider_dm.engine.sync.plan.bucket import bucket_numbers
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.chains import Chains, can_join, joined
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedCells, FoldedChanges
from airflow_provider_dm.engine.sync.write.disputed import are_disputed


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows of `cells` with these numbers."""

    cells: Cells
    numbers: Any

    @classmethod
    def together(cls, some: Sequence[CellRows]) -> Iterator[CellRows]:
        """Combine the rows of a table's buckets, in the order of the cells (which is mostly that of the key)."""
        if some:
            yield cls(some[0].cells, np.sort(np.concatenate([one.numbers for one in some])))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.cells.some_rows(self.numbers))


PART_BYTES: Final = 16 << 20
"""The changes of an epoch are joined each time that so many bytes of the log were read."""


@dataclass
class _Kept:
    """The changes of one table, with the file of each piece; their layout is number 0."""

    of: TableLayout
    pieces: list[tuple[str, Batch]] = field(default_factory=list)
    logged: int = 0
    """The number of changes before they were joined."""
    joined: int = 0
    """The number of the first pieces whose changes were joined."""

    def add(self, file: str, piece: Batch) -> None:
        self.pieces.append((file, piece))
        self.logged += len(piece)

    def join_part(self, shorter: Callable[[list[Batch]], list[Batch]]) -> None:
        """Replace the pieces since the last part by those that `shorter` returns for the pieces of a file."""
        part, self.pieces = self.pieces[self.joined :], self.pieces[: self.joined]
        for file, pieces in groupby(part, itemgetter(0)):
            self.pieces += zip(repeat(file), shorter([piece for _, piece in pieces]), strict=False)
        self.joined = len(self.pieces)


class EncodedFold:
    """A filter before a compactor, which keeps the changes of `tables` (from `unchanged_tables`) and folds them."""

    def __init__(self, compactor: Compactor, plan: SyncPlan, tables: set[int]) -> None:
        self._compactor = compactor
        self._chains = Chains.of(compactor, plan)
        self._plan = plan
        self._open = set(tables)
        self._kept: dict[int, _Kept] = {}
        self._buffers: dict[int, bytes] = {}
        """Of the pieces that were not joined, by identity."""

    def take(self, batch: Batch, file: str) -> Batch:
        """Keep the changes of such tables; return the other changes.

        Raises MalformedRows, BrokenChain.
        """
        if not batch.compiled:
            for table in self._open & self._kept.keys():
                self._give_back(table)
            self._open = set()
        layouts = batch.changes[:, LAYOUT]
        numbers = np.unique(layouts).tolist() if self._open else []
        tables = Counter(batch.layouts[number].table for number in numbers)
        taken = [number for number in numbers if self._takes(batch.layouts[number], tables)]
        for number in taken:
            of, changes = batch.layouts[number], batch.changes[layouts == number]
            changes[:, LAYOUT] = 0
            piece = Batch(batch.data, changes, [of], compiled=True)
            self._kept.setdefault(of.table, _Kept(of)).add(file, piece)
        if taken:
            self._buffers[id(batch.data)] = batch.data
            if sum(map(len, self._buffers.values())) >= PART_BYTES:
                self._join_part()
        rest = batch.with_changes(batch.changes[~np.isin(layouts, taken)]) if taken else batch
        with located(rest, file):
            return self._chains.take(rest)

    def _takes(self, of: TableLayout, tables: Counter[int]) -> bool:
        """Return True if changes with this layout are kept; if not, no change of this table is kept from now on."""
        if of.table not in self._open:
            return False
        kept = self._kept.get(of.table)
        if tables[of.table] == 1 and not of.absent and (kept is None or kept.of.layout is of.layout):
            return True
        self._open.remove(of.table)
        if kept is not None:
            self._give_back(of.table)
        return False

    def _join_part(self) -> None:
        """Join the changes of each table since the last part, and copy the images that are left."""
        whole, self._buffers = _OneBuffer.of(self._buffers.values()), {}
        for table, kept in list(self._kept.items()):
            if self._can_join(table, kept.of) or _are_inserts([piece for _, piece in kept.pieces]):
                kept.join_part(partial(self._shorter, table, whole))
            else:
                self._open.remove(table)
                self._give_back(table)

    def _shorter(self, table: int, whole: _OneBuffer, pieces: list[Batch]) -> list[Batch]:
        if _are_inserts(pieces):
            return pieces
        batch = whole.together(pieces)
        try:
            changes, _ = joined(batch, 0, self._plan.part(table).key or ())
        except MalformedImage:
            return pieces  # `_give_back` raises the error that names its location
        return [batch.with_changes(changes).alone()]

    def _can_join(self, table: int, of: TableLayout) -> bool:
        part = self._plan.part(table)
        key = part.key or ()
        if not can_join(of, key) or (part.unique and not self._is_exact(table)):
            return False
        # A NULL has no place in the order, and the target refuses it.
        return not any(of.layout.table.columns[number].nullable for number in key)

    def _is_exact(self, table: int) -> bool:
        return self._plan.policies[table] is WritePolicy.EXACT

    def folded(self) -> FoldedChanges:
        """Return the compactor's folded changes with the kept ones. Raises MalformedRows, BrokenChain."""
        whole = _OneBuffer.of(piece.data for kept in self._kept.values() for _, piece in kept.pieces)
        for table, kept in list(self._kept.items()):
            try:
                folded = self._folded([piece for _, piece in kept.pieces], whole, table)
            except MalformedImage:
                folded = None  # the error that names its location is raised below
            if folded is None:
                self._give_back(table)
            else:
                self._compactor.folded.cells[table] = folded
                self._compactor.folded.add_count(kept.logged)
        return self._compactor.folded

    def _folded(self, pieces: Sequence[Batch], whole: _OneBuffer, table: int) -> FoldedCells | None:
        """Return the changes of one table as folded; None if only the compactor can fold them."""
        from airflow_provider_dm.engine.binlog.kernels.chains import images_differ

        part = self._plan.part(table)
        key = part.key or ()
        if _are_inserts(pieces):
            # A copy, because the buffer of a piece is larger than its rows.
            cells = [_cells(piece, AFTER) for piece in pieces]
            rows = Cells.joined([replace(joined, text=bytes(joined.text)) for joined in cells])
            return FoldedCells([], rows, Cells.none(rows.columns)) if _are_distinct(rows, part) else None
        if not self._can_join(table, pieces[0].layouts[0]):
            return None
        batch = whole.together(pieces)
        changes, once = joined(batch, 0, key)
        batch = batch.with_changes(changes)
        if not once or are_disputed(part, batch):
            return None
        batch = _by_key(batch, key)
        has_old, has_new = (batch.changes[:, place] >= 0 for place in (BEFORE, AFTER))
        changed = has_old & has_new
        if self._is_exact(table):
            changed = images_differ(np.frombuffer(batch.data, np.uint8), batch.changes)
        deleted, inserted, updated = (
            batch.with_changes(batch.changes[which]) for which in (has_old & ~has_new, ~has_old, changed)
        )
        return FoldedCells(_cells(deleted, BEFORE).rows(), _cells(inserted, AFTER), _cells(updated, AFTER))

    def _give_back(self, table: int) -> None:
        kept = self._kept.pop(table)
        self._compactor.folded.add_count(kept.logged - sum(len(piece) for _, piece in kept.pieces))
        for file, piece in kept.pieces:
            with located(piece, file):
                shorter = self._chains.take(piece)
            with located(shorter, file):
                self._compactor.add_all(shorter.rows())


@dataclass(frozen=True)
class _OneBuffer:
    """Buffers of batches one after the other. `starts`: by the identity of a buffer."""

    buffers: list[bytes]
    starts: dict[int, int]

    @classmethod
    def of(cls, buffers: Iterable[bytes]) -> _OneBuffer:
        distinct = list({id(buffer): buffer for buffer in buffers}.values())
        ends = accumulate(map(len, distinct), initial=0)
        return cls(distinct, {id(buffer): start for buffer, start in zip(distinct, ends, strict=False)})

    @cached_property
    def data(self) -> bytes:
        return b"".join(self.buffers)

    def together(self, pieces: Sequence[Batch]) -> Batch:
        """Return the changes of these pieces, which have the same layout, as one batch."""
        moved = []
        for piece in pieces:
            changes = piece.changes.copy()
            images = changes[:, BEFORE : AFTER_END + 1]
            images += np.where(images < 0, 0, self.starts[id(piece.data)])
            moved.append(changes)
        return replace(pieces[0], data=self.data, changes=np.concatenate(moved))


def _are_inserts(pieces: Sequence[Batch]) -> bool:
    return all((piece.changes[:, BEFORE] < 0).all() for piece in pieces)


def _by_key(batch: Batch, key: Sequence[int]) -> Batch:
    """Return the changes in the order of the first bytes of their keys, integers in numerical order."""
    from airflow_provider_dm.engine.binlog.kernels.chains import sort_words

    table, new = batch.layouts[0].layout.table, batch.changes[:, AFTER] >= 0
    right = np.array([table.columns[number].data_type in INTEGERS for number in key], np.int64)
    words = np.empty((len(batch), 2 * len(key)), np.uint64)
    for place, which in ((AFTER, new), (BEFORE, ~new)):
        cells = batch.with_changes(batch.changes[which]).cells(0, place, key)
        words[which] = sort_words(np.frombuffer(cells.text, np.uint8), cells.ends, right)
    used = [word for word in words.T if word.any()]
    return batch.with_changes(batch.changes[np.lexsort(used[::-1])]) if used else batch


def _cells(batch: Batch, place: int) -> Cells:
    columns = batch.layouts[0].layout.everything
    return batch.cells(0, place, columns) if len(batch) else Cells.none(len(columns))


def _are_distinct(cells: Cells, part: TargetPart) -> bool:
    """Return True if no two rows have the same key."""
    key = part.key or ()
    if len(key) == 1 and part.mapping.source.columns[key[0]].data_type in INTEGERS:
        numbers = cells.integers(key[0])
        return bool((numbers[1:] > numbers[:-1]).all()) or len(np.unique(numbers)) == len(numbers)
    return len(set(zip(*(cells.column(number) for number in key), strict=True))) == len(cells)


def by_bucket(cells: Cells, part: TargetPart, buckets: int) -> Iterator[tuple[int, CellRows]]:
    """Yield each bucket's rows, in the order of the cells."""
    numbers = bucket_numbers(part, buckets, cells)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for bucket, rows in zip(found.tolist(), np.split(order, starts[1:]) if len(found) else (), strict=True):
        yield bucket, CellRows(cells, rows)
