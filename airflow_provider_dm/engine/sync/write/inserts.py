"""A fast path for tables that have only inserts in an epoch, as in the log of an import.

If each key occurs once, there is nothing to fold. The rows stay in the compact form that a kernel has written
(`binlog.images.Cells`) until a kernel makes the statement of them (`downstream.insertion`); only keys become Python
objects. Another kind of change of the table in the same epoch, or a repeated key, turns all of them into ordinary
changes.

Only for tables whose rows are written unchanged, from one source table, covered completely, without filters and
extracted columns, in the target's column order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE, LAYOUT
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.bucket import BucketOf
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.compactor import Compactor, Folded


@dataclass(frozen=True, eq=False)
class Inserts:
    """Rows to insert: the rows of `cells` with these numbers."""

    cells: Cells
    numbers: Any

    @classmethod
    def together(cls, inserts: Sequence[Inserts]) -> Iterator[Inserts]:
        """Combine the rows of a table's buckets, in the order of the log (which is mostly the order of the key)."""
        if inserts:
            numbers = np.sort(np.concatenate([one.numbers for one in inserts]))
            yield cls(inserts[0].cells, numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.cells.some_rows(self.numbers))


def unchanged_tables(plan: SyncPlan) -> set[int]:
    """Return the indexes of the source tables whose rows are written unchanged, as above."""
    feeders, optional = Counter(source.target for source in plan.sources), plan.optional_columns()
    return {
        index
        for index, source in enumerate(plan.sources)
        if plan.compact
        and not plan.whole
        and plan.part(index).key is not None
        and feeders[source.target] == 1
        and source.target not in plan.merged | plan.in_order
        and source.order is None
        and not (source.filter or source.added or optional[index] or index in plan.parts)
    }


class Inserting:
    """A filter before a compactor, which keeps the inserts of tables that have only inserts so far. `tables`: from
    `unchanged_tables`."""

    def __init__(self, compactor: Compactor, plan: SyncPlan, tables: set[int]) -> None:
        self._compactor = compactor
        self._plan = plan
        self._open = tables
        self._held: dict[int, list[Cells]] = {}

    def take(self, batch: Batch) -> Batch:
        """Keep the inserts of such tables; return the other changes. If a table of those has kept rows, these are added
        to the compactor first.

        Raises MalformedImage, BrokenChain.
        """
        if not batch.compiled:
            self._give_back(self._open)
            self._open = set()
        if not self._open:
            return batch
        layouts = batch.changes[:, LAYOUT]
        numbers = np.unique(layouts)
        others = {batch.layouts[number].table for number in np.unique(layouts[batch.changes[:, BEFORE] >= 0]).tolist()}
        self._open -= others
        self._give_back(others)
        taken = [number for number in numbers.tolist() if batch.layouts[number].table in self._open]
        for number in taken:
            cells = batch.cells(number, AFTER, batch.layouts[number].layout.everything)
            # A copy, because the buffer is as large as twice the log's bytes of all tables.
            alone = replace(cells, text=bytes(cells.text))
            self._held.setdefault(batch.layouts[number].table, []).append(alone)
        return batch.with_changes(batch.changes[~np.isin(layouts, taken)]) if taken else batch

    def folded(self) -> Folded:
        """Return the compactor's folded changes with the kept rows. Raises BrokenChain."""
        for table, pieces in list(self._held.items()):
            cells = Cells.joined(pieces)
            self._held[table] = [cells]
            if _keys_are_distinct(cells, self._plan.part(table)):
                self._compactor.folded.inserted[table] = cells
                self._compactor.folded.add_count(len(cells))
            else:
                self._give_back({table})
        return self._compactor.folded

    def _give_back(self, tables: set[int]) -> None:
        for table in tables & self._held.keys():
            for cells in self._held.pop(table):
                self._compactor.add_all((table, None, row) for row in cells.rows())


def _keys_are_distinct(cells: Cells, part: TargetPart) -> bool:
    columns = [cells.column(number) for number in part.key or ()]
    keys = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
    return len(set(keys)) == len(cells)


def by_bucket(cells: Cells, part: TargetPart, bucket_of: BucketOf) -> Iterator[tuple[int, Inserts]]:
    """Yield each bucket's rows, in the order of the log."""
    width = range(len(part.mapping.source.columns))
    columns = [cells.column(number) if number in part.hashed else repeat(None, len(cells)) for number in width]
    buckets = np.fromiter(map(bucket_of, zip(*columns, strict=True)), np.int64, len(cells))
    order = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    for bucket, numbers in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield bucket, Inserts(cells, numbers)
