"""The compactor: any number of changes in log order become one change for each key.

Ranges of the log are folded apart, each in its own order, and then together in the order of the ranges: the result is
that of folding the whole, as the algebra is associative (`change`). A keyless table's rows become signed counts of
images. Plain tuples and closures: this loop runs once for every change of the log.

    first            then             together
    INSERT a         UPDATE a -> b    INSERT b
    INSERT a         DELETE a         the row was born and is gone (`causality` knows what that means)
    UPDATE a -> b    UPDATE b -> c    UPDATE a -> c
    UPDATE a -> b    DELETE b         DELETE a
    DELETE a         INSERT b         UPDATE a -> b
    INSERT, UPDATE   INSERT           BrokenChain, as is UPDATE or DELETE behind a DELETE, or of another image

    UPDATE of key 1 to key 2          DELETE of key 1, INSERT of key 2, each folded at its own key

Where filters leave changes out (`rules.row_filter`), the next change need not begin where the last one has ended. If
only deletes may be missing, each change says all that will be of its key: the first before and the last after are kept
(the *loose* fold), and the keys in the order of those (`turns`). If a change may be about a row that never came,
changes of one key depend on each other and on the target's rows: nothing is folded, and all of them are kept in their
order (`in_order` writes them).

With `compact: false` every change is kept (`dependence` says what becomes of them), and so are those of tables
that may write over each other's rows (`safe_mode.last_wins`). They are folded all the same, and what comes of it is
thrown away: it says whether the log is whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.rules.row_filter import Loss
from airflow_provider_dm.engine.schema.codec import Row, Value
from airflow_provider_dm.engine.sync.plan.change import BrokenChain, Change, Key
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.dependence import Kept

Keyed: TypeAlias = dict[Key, Change]
Counts: TypeAlias = dict[Row, int]
Part: TypeAlias = Keyed | Counts
Adder: TypeAlias = Callable[[Row | None, Row | None], None]


@dataclass
class Folded:
    """Changes by key, and for keyless tables counts by image, each by index of the source table (of its lead, see
    `plan`). `changes`: their number as logged."""

    keyed: dict[int, Keyed] = field(default_factory=dict)
    counts: dict[int, Counts] = field(default_factory=dict)
    in_order: dict[int, list[Change]] = field(default_factory=dict)
    """All changes of tables whose changes depend on each other."""
    kept: dict[int, list[Kept]] = field(default_factory=dict)
    """Every change, by index of the target table, where nothing is folded."""
    inserted: dict[int, Cells] = field(default_factory=dict)
    """Rows to insert, by source table: of tables of which nothing else is in the log (`sync.inserts`)."""
    changes: int = 0

    def counted(self, changes: int) -> Folded:
        """Count further changes that were folded into it; return it."""
        self.changes += changes
        return self


def key_getter(part: TargetPart) -> Callable[[Row], Key]:
    """Return the function from a row to its identity values. For a table with a key."""
    assert part.key is not None
    return itemgetter(*part.key)


class Compactor:
    """An accumulator that folds the changes that it is given, in log order. Raises BrokenChain."""

    def __init__(self, plan: SyncPlan) -> None:
        self.folded = Folded()
        self._plan = plan
        self._optional_columns = plan.optional_columns()
        self._leads = plan.leads()
        self._adders: dict[int, Adder] = {}

    def add_all(self, changes: Iterable[tuple[int, Row | None, Row | None]]) -> Folded:
        """Fold changes as (index of the source table, before, after)."""
        adders = [self._adder(index) for index in range(len(self._plan.sources))]
        count = 0
        for table, before, after in changes:
            adders[table](before, after)
            count += 1
        return self.folded.counted(count)

    def _adder(self, table: int) -> Adder:
        if table not in self._adders:
            source = self._plan.sources[table]
            add = self._folder(self._plan.part(table), self._leads[table])
            if self._optional_columns[table]:
                order = source.order or range(source.width)
                add = _without(add, frozenset(self._optional_columns[table]), order)
            elif source.order is not None:
                add = _reordered(add, source.order)
            self._adders[table] = add
        return self._adders[table]

    def _folder(self, part: TargetPart, lead: int) -> Adder:
        policy, loose = self._plan.policies[lead], self._plan.losses.get(lead) is Loss.DELETES
        if policy is WritePolicy.IN_ORDER:
            return keep_into(self.folded.in_order.setdefault(lead, []))
        target = self._plan.sources[lead].target
        if not self._plan.compact or target in self._plan.contended:
            kept = self.folded.kept.setdefault(target, [])
            return _keep_each(kept, lead, fold_into({}, part, loose=loose) if part.key else None)
        if part.key is None:
            return count_into(self.folded.counts.setdefault(lead, Counter()))
        return fold_into(self.folded.keyed.setdefault(lead, {}), part, loose=loose)


def keep_into(changes: list[Change]) -> Adder:
    """Return an adder that keeps every change."""

    def add(before: Row | None, after: Row | None) -> None:
        changes.append(Change(before, after))

    return add


def _keep_each(kept: list[Kept], lead: int, check: Adder | None) -> Adder:
    def add(before: Row | None, after: Row | None) -> None:
        if check is not None:
            check(before, after)
        kept.append((lead, before, after))

    return add


def fold_into(keyed: Keyed, part: TargetPart, *, loose: bool = False) -> Adder:
    """Return an adder for one keyed target table. `loose`: changes may be missing between two; then keys are held in
    the order of their last changes."""
    key_of = key_getter(part)

    def put(key: Key, before: Row | None, after: Row | None) -> None:
        held = keyed.pop(key, None) if loose else keyed.get(key)
        if held is None:
            keyed[key] = Change(before, after)
        elif held[1] == before or loose:
            keyed[key] = Change(held[0], after)
        else:
            raise broken_chain(part, held, before)

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
    """Return an adder for one keyless target table."""

    def add(before: Row | None, after: Row | None) -> None:
        if before is not None:
            counts[before] = counts.get(before, 0) - 1
        if after is not None:
            counts[after] = counts.get(after, 0) + 1

    return add


def merge_keyed(keyed: Keyed, later: Iterable[tuple[Key, Change]], part: TargetPart, *, loose: bool = False) -> None:
    """Put a later piece of the log, already folded, behind what is folded in `keyed`. `loose`: as for `fold_into`.

    Raises BrokenChain.
    """
    for key, change in later:
        held = keyed.pop(key, None) if loose else keyed.get(key)
        if held is None:
            keyed[key] = change
        else:
            together = Change(held.before, change.after) if loose else held.then(change)
            if together is None:
                raise broken_chain(part, held, change.before)
            keyed[key] = together


def merge_counts(counts: Counts, later: Iterable[tuple[Row, int]]) -> None:
    """Put a later piece of the log, already counted, behind `counts`: for a keyless table."""
    for image, count in later:
        counts[image] = counts.get(image, 0) + count


def broken_chain(part: TargetPart, held: Change, found: Row | None) -> BrokenChain:
    """Return the error, which says which of row and no row were met; never the values."""
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


def _reordered(add: Adder, order: Sequence[int]) -> Adder:
    pick: Callable[[Row], Row] = itemgetter(*order)  # more than one column: one column has one order

    def add_reordered(before: Row | None, after: Row | None) -> None:
        add(before and pick(before), after and pick(after))

    return add_reordered


class Image(tuple[Value, ...]):  # noqa: SLOT001 (a tuple cannot have more)
    """A row without the values that the target computes, which a log may or may not have: equal where all others are.

    `computed`: those of them that the log has, by column; what the target comes to is held against them.
    """

    computed: dict[int, Value]

    def __new__(cls, values: Iterable[Value], computed: Mapping[int, Value] | None = None) -> Image:
        self = super().__new__(cls, values)
        self.computed = dict(computed or {})
        return self


def _without(add: Adder, optional_columns: Collection[int], order: Sequence[int]) -> Adder:
    """Wrap an adder so that it gets rows as Images, of which the log leaves out `optional_columns` of the source."""
    places = [None if index in optional_columns else index for index in order]
    computed = [(index, place) for index, place in enumerate(order) if place in optional_columns]

    def pick(row: Row) -> Row:
        left_out = {index: row[place] for index, place in computed if row[place] is not ABSENT}
        return Image([None if place is None else row[place] for place in places], left_out)

    def add_without(before: Row | None, after: Row | None) -> None:
        add(before and pick(before), after and pick(after))

    return add_without
