"""Consecutive changes of one row are joined before their images become values.

Ten changes of a row then cost two conversions, not twenty. The images are compared byte by byte: the compactor folds or
refuses changes that are not joined here, because one value has two encodings or a change does not fit.

Only tables of `unchanged_tables`: joining could reorder changes of several tables, or of rows that a filter may hide.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.maps import TableLayout
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE, LAYOUT
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write.compactor import Compactor

FEWEST: Final = 256
"""For fewer changes of a table the calls cost more than they save."""


def unchanged_tables(plan: SyncPlan) -> set[int]:
    """Return the indexes of the source tables whose rows are written unchanged, from one source table,
    covered completely, without filters and extracted columns, in the target's column order."""
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


@dataclass(frozen=True)
class Chains:
    """A filter before a compactor, which joins the changes of a row. `keys`: the key of each source table."""

    compactor: Compactor
    keys: dict[int, tuple[int, ...]]
    fewest: int = FEWEST

    @classmethod
    def of(cls, compactor: Compactor, plan: SyncPlan) -> Chains:
        """Return the filter for all tables of the plan for which this is possible."""
        return cls(compactor, {index: plan.part(index).key or () for index in unchanged_tables(plan)})

    def take(self, batch: Batch) -> Batch:
        """Return the batch with joined changes; the compactor counts those that it no longer has.

        Raises MalformedImage. Images in the middle of a chain are not decoded.
        """
        if not batch.compiled or len(batch) < self.fewest:
            return batch
        layouts = batch.changes[:, LAYOUT]
        numbers, counts = np.unique(layouts, return_counts=True)
        pieces, shorter = [], []
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if count >= self.fewest and self._joins(batch, number, numbers):
                pieces.append(joined(batch, number, self.keys[batch.layouts[number].table])[0])
                shorter.append(number)
        if not pieces:
            return batch
        pieces.append(batch.changes[~np.isin(layouts, shorter)])
        changes = np.concatenate(pieces)
        self.compactor.folded.add_count(len(batch) - len(changes))
        return batch.with_changes(changes)

    def _joins(self, batch: Batch, number: int, numbers: Any) -> bool:
        """Return True if the table has one layout in the batch, with complete images whose key a kernel can read."""
        one = batch.layouts[number]
        key = self.keys.get(one.table, ())
        others = [other for other in numbers.tolist() if batch.layouts[other].table == one.table and other != number]
        return bool(key) and not others and can_join(one, key)


def can_join(of: TableLayout, key: tuple[int, ...]) -> bool:
    """Return True if kernels can read the key, and the images are complete."""
    return not (of.absent or of.layout.for_kernels.plain_only.intersection(key))


def joined(batch: Batch, number: int, key: tuple[int, ...]) -> tuple[Any, bool]:
    """Return the changes with this layout, each chain as one change, and whether each key then has only one change and
    no row moves to another key. Raises MalformedImage."""
    from airflow_provider_dm.engine.binlog.kernels.chains import join_chains

    changes = batch.changes[batch.changes[:, LAYOUT] == number]
    cells = Cells.joined([batch.cells(number, place, key) for place in (BEFORE, AFTER)])
    has_old, has_new = (changes[:, place] >= 0 for place in (BEFORE, AFTER))
    old = np.where(has_old, np.cumsum(has_old) - 1, -1)
    new = np.where(has_new, np.cumsum(has_new) - 1 + np.count_nonzero(has_old), -1)
    into = np.empty_like(changes)
    data, text = (np.frombuffer(buffer, np.uint8) for buffer in (batch.data, cells.text))
    count = join_chains(data, changes, text, cells.ends, len(key), old, new, into)
    return into[: abs(count)], count >= 0
