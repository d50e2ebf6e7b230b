"""Every change by itself (`compact: false`): which have to keep their order, and which can be written together.

Two changes depend on each other when they share a value of a unique key of the target, the old or the new one, as the
target compares them (DM's causality). What depends on each other, directly or by others in between, is a *group*, and
a group is in one bucket: its transaction has all of it, so one wave is enough, and the frontier is as it always is. A
group's bucket follows from its changes alone, so an epoch that is repeated with the same bounds has the same groups
(another way to find them is another `plan.GROUPS_VERSION`).

    t (a PRIMARY KEY, b UNIQUE)     insert (1,2)   insert (2,3)   update (2,3)->(3,4)   insert (9,9)   delete (1,2)
    marks                           a1 b2          a2 b3          a2 b3 a3 b4           a9 b9          a1 b2
    group                           A              B              B                     C              A
    level                           0              0              1                     0              1

A change's *level* is one more than that of the last one with a mark of its own. All of one level are about different
rows and values, so they go together, in statements of many rows; levels are written one behind the other. Without
conflicts all is level 0; a row that is changed a thousand times has a thousand levels, and each change is written.

A NULL is equal to nothing and has no mark. If it is not known here which values the target treats as equal (text under
a collation without a known form, prefixes, expressions), all values of the key have one *loose* mark: of changes that
share it, neighbours of one kind are written together, since rows that exist at one time differ. A row without a key is
its image: the same image may be inserted, or deleted, several times at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import xxhash

from airflow_provider_dm.engine.schema.codec import Row, Transform
from airflow_provider_dm.engine.schema.model import Column, Index
from airflow_provider_dm.engine.sync.plan.bucket import form_of
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart, columns_with_form, has_form_of_its_own

Mark: TypeAlias = int
MarkOf: TypeAlias = Callable[[Row], Mark | None]
Kept: TypeAlias = tuple[int, Row | None, Row | None]
"""A change as it was logged, and the source table (a lead) whose it is."""


class Kind(Enum):
    """Kind of a change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"

    @classmethod
    def of(cls, before: Row | None, after: Row | None) -> Kind:
        return cls.INSERT if before is None else cls.DELETE if after is None else cls.UPDATE


@dataclass(frozen=True)
class Marks:
    """The marks of one table's rows. `strict`: equal ones count as the same value (those of text by its fold, which
    several may share); `loose`: equal ones may be."""

    strict: tuple[MarkOf, ...]
    loose: tuple[MarkOf, ...]
    repeats: bool
    """Rows have no key: what is loose is an image, of which there may be many."""


@lru_cache(maxsize=1024)
def marks_of(part: TargetPart) -> Marks:
    """Return the functions from a row of the part to its marks; None where a row has none."""
    mapping = part.mapping
    index = {column.name.lower(): number for number, column in enumerate(mapping.source.columns)}
    strict: list[MarkOf] = []
    loose: list[MarkOf] = []
    for number, key in enumerate(mapping.target.unique_keys):
        values = _known_values(part, key, index)
        if values is None:
            loose.append(_whole_table(b"%d" % number))
            continue
        columns = tuple(index[name.lower()] for name in key.columns)
        by_form = _mark(part, b"%d=" % number, columns, values)
        if len(values) == len(columns):
            strict.append(by_form)
        else:
            loose.append(by_form)
            strict.append(_mark(part, b"%d:" % number, columns, None))
    if part.key is None:
        loose.append(_image)
    return Marks(tuple(strict), tuple(loose), part.key is None)


def _known_values(part: TargetPart, key: Index, index: dict[str, int]) -> tuple[int, ...] | None:
    if key.expression or any(name.lower() not in index for name in key.columns):
        return None
    folded = {part.mapping.source.columns[number].name for number, _ in part.folds}

    def has_form(source: Column, target: Column) -> bool:
        return source.name in folded or has_form_of_its_own(part.mapping, source, target)

    return columns_with_form(part.mapping, key, index, has_form)


def _mark(part: TargetPart, name: bytes, columns: tuple[int, ...], formed: tuple[int, ...] | None) -> MarkOf:
    """Return a mark of these columns: by the forms of those in `formed`, None: by the bytes of all."""
    digest = xxhash.xxh64_intdigest
    pairs: list[tuple[int, Transform | None]] = (
        [(one, None) for one in columns] if formed is None else [(one, form_of(part, one)) for one in formed]
    )
    if len(columns) == len(pairs) == 1:
        (number, form) = pairs[0]

        def of_one(row: Row) -> Mark | None:
            value = row[number]
            return None if value is None else digest(name + (value if form is None else form(value)))

        return of_one

    def of_several(row: Row) -> Mark | None:
        data = name
        for number in columns:
            if row[number] is None:
                return None
        for number, form in pairs:
            value = row[number] or b""
            value = value if form is None else form(value)
            data += b"%d:%b" % (len(value), value)
        return digest(data)

    return of_several


def _whole_table(name: bytes) -> MarkOf:
    mark = xxhash.xxh64_intdigest(name)
    return lambda _row: mark


def _image(row: Row) -> Mark:
    digest = xxhash.xxh64(b"image")
    for value in row:
        digest.update(b"-" if value is None else b"%d:" % len(value))
        digest.update(value or b"")
    return digest.intdigest()


@dataclass
class Order:
    """The group and the level of each change of one target table, in the order of the log.

    A disjoint set over marks: each group is known by the mark that it began with.
    """

    marks: Marks
    alone: bool = False
    """Rows that are written may share a loose mark and be of two tables; or one may have been gone before, as deletes
    may be missing."""
    levels: list[int] = field(default_factory=list)
    _first: list[Mark] = field(default_factory=list)
    """One mark of each change."""
    _parent: dict[Mark, Mark] = field(default_factory=dict)
    _level: dict[Mark, int] = field(default_factory=dict)
    _loose: dict[Mark, tuple[int, Kind]] = field(default_factory=dict)

    @classmethod
    def of(cls, marks: Marks, changes: Sequence[Kept], *, alone: bool = False) -> Order:
        order = cls(marks, alone)
        for _, before, after in changes:
            order.add(before, after)
        return order

    def add(self, before: Row | None, after: Row | None) -> None:
        """Take in the next change of the log."""
        rows = [row for row in (before, after) if row is not None]
        strict = {mark for of in self.marks.strict for row in rows if (mark := of(row)) is not None}
        loose = {mark for of in self.marks.loose for row in rows if (mark := of(row)) is not None}
        kind = Kind.of(before, after)
        level = 0
        for mark in strict:
            level = max(level, self._level.get(mark, -1) + 1)
        together = kind is Kind.DELETE or not (self.alone or (kind is Kind.UPDATE and self.marks.repeats))
        for mark in loose:
            last, of_kind = self._loose.get(mark, (-1, None))
            level = max(level, last if of_kind is kind and together else last + 1)
        self._level.update(dict.fromkeys(strict, level))
        self._loose.update(dict.fromkeys(loose, (level, kind)))
        self.levels.append(level)
        self._first.append(self._join([*sorted(strict), *sorted(loose)]))

    def buckets(self, buckets: int) -> Iterator[int]:
        """Yield the bucket of each change."""
        return (self._root(mark) % buckets for mark in self._first)

    def _join(self, marks: Sequence[Mark]) -> Mark:
        first = self._root(marks[0])
        for mark in marks[1:]:
            other = self._root(mark)
            if other != first:
                first, other = min(first, other), max(first, other)
                self._parent[other] = first
        return first

    def _root(self, mark: Mark) -> Mark:
        parent = self._parent
        parent.setdefault(mark, mark)
        while (above := parent[mark]) != mark:
            parent[mark] = mark = parent[above]  # halves the path for later lookups
        return mark
