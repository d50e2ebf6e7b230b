"""Disputed values: values of further unique keys that one row releases and a row takes, in one epoch.

Only rows that release a disputed value have to be deleted in wave 1 (`causality`). The values are compared by their
marks, which are equal for values that the target may compare as equal, so a value may be disputed needlessly, but none
is missed.

    t (id PRIMARY KEY, a UNIQUE)    folded                                  released    taken    disputed
                                    1: a=1 -> a=2     2: a=2 -> a=1         1, 2        1, 2     1, 2
                                    3: a=3 -> a=4     4: nothing -> a=5     3           4, 5     -

All tasks of an epoch need the same disputed values, also after a restart: they are a function of the plan and of the
whole epoch, however the epoch is divided into tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.compactor import FoldedChanges
from airflow_provider_dm.engine.sync.write.marks import Mark, MarkOf, further_marks

Disputed: TypeAlias = frozenset[Mark]


@dataclass(frozen=True)
class ExchangedMarks:
    """The marks of the values that the rows of an epoch, or of some buckets of it, release and take."""

    released: frozenset[Mark]
    taken: frozenset[Mark]

    @classmethod
    def of(cls, plan: SyncPlan, folded: FoldedChanges) -> ExchangedMarks:
        """Return the values of the tables with two waves (`causality`)."""
        released: set[Mark | None] = set()
        taken: set[Mark | None] = set()
        for index, keyed in folded.keyed.items():
            if plan.policies[index] is not WritePolicy.UNCOUNTED:
                for values_of, mark in _further_values(plan.part(index)):
                    values = (
                        (before and values_of(before), after and values_of(after)) for before, after in keyed.values()
                    )
                    _add(values, mark, released, taken)
        return cls(frozenset(filter(None, released)), frozenset(filter(None, taken)))


def disputed_values(exchanged: Iterable[ExchangedMarks]) -> Disputed:
    """Return the disputed values of an epoch. `exchanged`: of all of its buckets."""
    known = list(exchanged)
    return _union(marks.released for marks in known) & _union(one.taken for one in known)


def releases(part: TargetPart, disputed: Disputed | None) -> Callable[[Row, Row | None], bool]:
    """Return the function from a change (before, after) of a row to whether it releases a disputed value.

    `disputed` None: any value may be disputed.
    """
    further, known = _further_values(part), disputed or frozenset()

    def releases_any(before: Row, after: Row | None) -> bool:
        return after is None or any(values_of(before) != values_of(after) for values_of, _ in further)

    def releases_disputed(before: Row, after: Row | None) -> bool:
        return any(
            mark(values_of(before)) in known
            for values_of, mark in further
            if after is None or values_of(before) != values_of(after)
        )

    return releases_any if disputed is None else releases_disputed if known else lambda _before, _after: False


def are_disputed(part: TargetPart, batch: Batch) -> bool:
    """Return True if changes of a table dispute a value, or may do so.

    `batch`: all changes of the table in an epoch, one for each row, with one layout. Raises MalformedImage.
    """
    if not all(part.unique):
        return True
    for columns, mark in zip(part.unique, further_marks(part), strict=True):
        released: set[Mark | None] = set()
        taken: set[Mark | None] = set()
        _add(zip(*(_values(batch, place, columns) for place in (BEFORE, AFTER)), strict=True), mark, released, taken)
        if (released & taken) - {None}:
            return True
    return False


def _values(batch: Batch, place: int, columns: tuple[int, ...]) -> list[Row | None]:
    rows = iter(batch.cells(0, place, columns).rows())
    return [next(rows) if start >= 0 else None for start in batch.changes[:, place].tolist()]


def _further_values(part: TargetPart) -> list[tuple[Callable[[Row], Row], MarkOf]]:
    """Return for each further unique key the functions from a row to its values and from these to their mark."""
    return list(zip(map(_values_of, part.unique), further_marks(part), strict=True))


def _values_of(columns: tuple[int, ...]) -> Callable[[Row], Row]:
    match columns:
        case ():
            return lambda _row: ()
        case (one,):
            return lambda row: (row[one],)
    return itemgetter(*columns)


def _add(
    changes: Iterable[tuple[Row | None, Row | None]], mark: MarkOf, released: set[Mark | None], taken: set[Mark | None]
) -> None:
    """Add the marks of values that change. `changes`: the values of a unique key before and after each change."""
    for before, after in changes:
        if before != after:
            if before is not None:
                released.add(mark(before))
            if after is not None:
                taken.add(mark(after))


def _union(sets: Iterable[frozenset[Mark]]) -> frozenset[Mark]:
    return frozenset(chain.from_iterable(sets))
