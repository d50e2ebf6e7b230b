"""Dependences between unfolded changes (`compact: false`): which must keep their order, and which can be combined.

Two changes depend on each other if they share an old or new value of a unique key, as the target compares values (DM's
causality). Changes that depend on each other, directly or through others, form a *group*. A group is in one bucket, so
its changes are in one transaction, and one wave is enough. A group's bucket is computed from its changes alone, so an
epoch that is repeated with the same bounds has the same groups (a change of this algorithm needs another
`plan.GROUPS_VERSION`).

    t (a PRIMARY KEY, b UNIQUE)     insert (1,2)   insert (2,3)   update (2,3)->(3,4)   insert (9,9)   delete (1,2)
    marks                           a1 b2          a2 b3          a2 b3 a3 b4           a9 b9          a1 b2
    group                           A              B              B                     C              A
    level                           0              0              1                     0              1

A *mark* identifies a value of a unique key. A change's *level* is one more than that of the last change with the same
mark. The changes of a level concern different rows and values, so they are written together, in multi-row statements;
levels are written one after the other. Without conflicts, all changes have level 0. A row that is changed a thousand
times has a thousand levels.

A NULL equals no value and has no mark. If it is unknown which values the target compares as equal (a collation without
a known form, prefixes, expressions), all values of the key share one *loose* mark: successive changes of one kind that
share it are still written together, because rows that exist at the same time differ. A row without a key is identified
by its image, which may be inserted or deleted several times.
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
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart, columns_with_form, has_key_form

Mark: TypeAlias = int
MarkOf: TypeAlias = Callable[[Row], Mark | None]
LoggedChange: TypeAlias = tuple[int, Row | None, Row | None]
"""(index of the source table (a lead, see `plan`), row before, row after), as logged."""


class ChangeKind(Enum):
    """The kind of a change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"

    @classmethod
    def of(cls, before: Row | None, after: Row | None) -> ChangeKind:
        return cls.INSERT if before is None else cls.DELETE if after is None else cls.UPDATE


@dataclass(frozen=True)
class Marks:
    """The marks of one table's rows. `strict`: equal marks mean the same value, or texts with the same fold. `loose`:
    equal marks may mean different values."""

    strict: tuple[MarkOf, ...]
    loose: tuple[MarkOf, ...]
    repeats: bool
    """True if rows have no key: the loose mark is that of an image, which can occur several times."""


@lru_cache(maxsize=1024)
def marks_of(part: TargetPart) -> Marks:
    """Return the functions from a row of the part to its marks; a function returns None for a row without a mark."""
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
        return source.name in folded or has_key_form(part.mapping, source, target)

    return columns_with_form(part.mapping, key, index, has_form)


def _mark(part: TargetPart, name: bytes, columns: tuple[int, ...], formed: tuple[int, ...] | None) -> MarkOf:
    """Return the mark of these columns: of the forms of the columns in `formed`; None: of the bytes of all columns."""
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
class ChangeOrder:
    """The group and the level of each change of one target table, in the order of the log.

    A disjoint-set forest of marks: the root of a group is its smallest mark.
    """

    marks: Marks
    alone: bool = False
    """True if writes with the same loose mark may not be combined: rows of several tables, or deletes that may be
    missing."""
    levels: list[int] = field(default_factory=list)
    _first: list[Mark] = field(default_factory=list)
    """One mark of each change."""
    _parent: dict[Mark, Mark] = field(default_factory=dict)
    _level: dict[Mark, int] = field(default_factory=dict)
    _loose: dict[Mark, tuple[int, ChangeKind]] = field(default_factory=dict)

    @classmethod
    def of(cls, marks: Marks, changes: Sequence[LoggedChange], *, alone: bool = False) -> ChangeOrder:
        order = cls(marks, alone)
        for _, before, after in changes:
            order.add(before, after)
        return order

    def add(self, before: Row | None, after: Row | None) -> None:
        """Add the next change of the log."""
        rows = [row for row in (before, after) if row is not None]
        strict = {mark for of in self.marks.strict for row in rows if (mark := of(row)) is not None}
        loose = {mark for of in self.marks.loose for row in rows if (mark := of(row)) is not None}
        kind = ChangeKind.of(before, after)
        level = 0
        for mark in strict:
            level = max(level, self._level.get(mark, -1) + 1)
        together = kind is ChangeKind.DELETE or not (self.alone or (kind is ChangeKind.UPDATE and self.marks.repeats))
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
