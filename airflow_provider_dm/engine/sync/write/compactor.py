"""The compactor folds changes in log order to one change for each key.

Ranges of the log are folded separately and then combined in their order. As composition is associative (`Change`), the
result equals that of folding the whole log. Rows of a table without a key become signed counts of images. The loop runs
once for every change, so it uses plain tuples and closures.

    first            then             result
    INSERT a         UPDATE a -> b    INSERT b
    INSERT a         DELETE a         (None, None): the row was inserted and deleted (see `causality`)
    UPDATE a -> b    UPDATE b -> c    UPDATE a -> c
    UPDATE a -> b    DELETE b         DELETE a
    DELETE a         INSERT b         UPDATE a -> b
    INSERT, UPDATE   INSERT           BrokenChain; also UPDATE or DELETE after a DELETE, or of another image

    UPDATE of key 1 to key 2          DELETE of key 1, INSERT of key 2, each folded with its own key

If filters skip changes (`rules.row_filter`), a change need not fit the previous one. If only deletes may be missing,
the first before and the last after are kept (the *loose* fold), and keys are in the order of their last changes
(`turns_of`). If inserts or updates may be missing, the effect of a change depends on the target's rows: nothing is
folded, and all changes are kept in their order (`in_order`).

With `compact: false` every change is kept (`dependence`), and also in tables that may overwrite each other's rows
(`safe_mode.last_wins`). The changes are folded in addition, only to detect an incomplete log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.rules.row_filter import FilterLoss
from airflow_provider_dm.engine.schema.codec import Row, Value
from airflow_provider_dm.engine.sync.errors import BrokenChain
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, Key, TargetPart
from airflow_provider_dm.engine.sync.write.dependence import LoggedChange

Keyed: TypeAlias = dict[Key, Change]
Counts: TypeAlias = dict[Row, int]
Adder: TypeAlias = Callable[[Row | None, Row | None], None]


@dataclass(frozen=True)
class FoldedCells:
    """Folded changes of a table: rows to delete, to insert, and to change."""

    delete: list[Row]
    insert: Cells
    change: Cells


@dataclass
class FoldedChanges:
    """Folded changes: by key, or counts by image for tables without a key, each by index of the source table (its lead,
    see `plan`). `changes`: the number of logged changes."""

    keyed: dict[int, Keyed] = field(default_factory=dict)
    counts: dict[int, Counts] = field(default_factory=dict)
    in_order: dict[int, list[Change]] = field(default_factory=dict)
    """All changes of tables with the policy IN_ORDER."""
    kept: dict[int, list[LoggedChange]] = field(default_factory=dict)
    """All changes of targets that are not folded, by index of the target table."""
    cells: dict[int, FoldedCells] = field(default_factory=dict)
    """By source table, of tables whose changes kernels have folded (`encoded`)."""
    changes: int = 0

    def add_count(self, changes: int) -> FoldedChanges:
        """Add to the number of logged changes; return self."""
        self.changes += changes
        return self


class Compactor:
    """Folds changes, added in log order. Raises BrokenChain."""

    def __init__(self, plan: SyncPlan) -> None:
        self.folded = FoldedChanges()
        self._plan = plan
        self._optional_columns = plan.optional_columns()
        self._leads = plan.leads()
        self._adders: dict[int, Adder] = {}

    def add_all(self, changes: Iterable[tuple[int, Row | None, Row | None]]) -> FoldedChanges:
        """Fold changes as (index of the source table, before, after)."""
        adders = [self._adder(index) for index in range(len(self._plan.sources))]
        count = 0
        for table, before, after in changes:
            adders[table](before, after)
            count += 1
        return self.folded.add_count(count)

    def _adder(self, table: int) -> Adder:
        if table not in self._adders:
            source = self._plan.sources[table]
            add = self._folder(self._plan.part(table), self._leads[table])
            if self._optional_columns[table]:
                order = source.order or range(source.width)
                add = _without(add, frozenset(self._optional_columns[table]), order)
            elif source.order is not None:
                add = _picking(add, itemgetter(*source.order))  # of several columns: one column has one order
            self._adders[table] = add
        return self._adders[table]

    def _folder(self, part: TargetPart, lead: int) -> Adder:
        policy, loose = self._plan.policies[lead], self._plan.losses.get(lead) is FilterLoss.DELETES
        if policy is WritePolicy.IN_ORDER:
            changes = self.folded.in_order.setdefault(lead, [])
            return lambda before, after: changes.append(Change(before, after))
        target = self._plan.sources[lead].target
        if not self._plan.compact or target in self._plan.contended:
            kept = self.folded.kept.setdefault(target, [])
            return _keep_each(kept, lead, fold_into({}, part, loose=loose) if part.key else None)
        if part.key is None:
            return count_into(self.folded.counts.setdefault(lead, Counter()))
        return fold_into(self.folded.keyed.setdefault(lead, {}), part, loose=loose)


def _keep_each(kept: list[LoggedChange], lead: int, check: Adder | None) -> Adder:
    def add(before: Row | None, after: Row | None) -> None:
        if check is not None:
            check(before, after)
        kept.append((lead, before, after))

    return add


def compose_into(keyed: Keyed, part: TargetPart, *, loose: bool) -> Callable[[Key, Row | None, Row | None], None]:
    """Return a function that composes a change (key, before, after) with the earlier ones of its key.

    `loose`: deletes may be missing; then keys are in the order of their last changes. The function raises BrokenChain.
    """

    def put(key: Key, before: Row | None, after: Row | None) -> None:
        held = keyed.pop(key, None) if loose else keyed.get(key)
        if held is None:
            keyed[key] = Change(before, after)
        elif held[1] == before or loose:
            keyed[key] = Change(held[0], after)
        else:
            raise broken_chain(part, held, before)

    return put


def fold_into(keyed: Keyed, part: TargetPart, *, loose: bool = False) -> Adder:
    """Return an adder for one target table with a key. `loose`: as for `compose_into`."""
    assert part.key is not None
    key_of, put = itemgetter(*part.key), compose_into(keyed, part, loose=loose)

    def add(before: Row | None, after: Row | None) -> None:
        if before is None or after is None:
            row = after if before is None else before
            if row is not None:
                put(key_of(row), before, after)
            return
        old, new = key_of(before), key_of(after)
        if old == new:
            put(old, before, after)
        else:
            put(old, before, None)
            put(new, None, after)

    return add


def count_into(counts: Counts) -> Adder:
    """Return an adder for one target table without a key."""

    def add(before: Row | None, after: Row | None) -> None:
        if before is not None:
            counts[before] = counts.get(before, 0) - 1
        if after is not None:
            counts[after] = counts.get(after, 0) + 1

    return add


def broken_chain(part: TargetPart, held: Change, found: Row | None) -> BrokenChain:
    """Return the error. It names the columns that differ, but no values."""
    if held.after is None or found is None:
        states = ("no row" if held.after is None else "a row", "no row" if found is None else "a row")
    else:
        differing = [
            column.name
            for column, mine, theirs in zip(part.mapping.source.columns, held.after, found, strict=True)
            if mine != theirs
        ]
        states = ("a row", f"a row that differs in {', '.join(differing)}")
    return BrokenChain(str(part.name), part.key_columns, *states)


def _picking(add: Adder, pick: Callable[[Row], Row]) -> Adder:
    def add_picked(before: Row | None, after: Row | None) -> None:
        add(before and pick(before), after and pick(after))

    return add_picked


class Image(tuple[Value, ...]):  # noqa: SLOT001 (a tuple cannot have more)
    """A row without the values of columns that the target computes, so that these are not compared.

    `computed`: the logged values of these columns, by column; rows of the target are compared with them.
    """

    computed: dict[int, Value]

    def __new__(cls, values: Iterable[Value], computed: Mapping[int, Value] | None = None) -> Image:
        self = super().__new__(cls, values)
        self.computed = dict(computed or {})
        return self


def _without(add: Adder, optional_columns: Collection[int], order: Sequence[int]) -> Adder:
    """Wrap an adder so that it receives rows as Images, without the values of `optional_columns` of the source."""
    places = [None if index in optional_columns else index for index in order]
    computed = [(index, place) for index, place in enumerate(order) if place in optional_columns]

    def pick(row: Row) -> Row:
        left_out = {index: row[place] for index, place in computed if row[place] is not ABSENT}
        return Image([None if place is None else row[place] for place in places], left_out)

    return _picking(add, pick)
