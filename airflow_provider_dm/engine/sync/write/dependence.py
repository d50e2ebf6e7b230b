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
mark. The changes of a level affect different rows and values, so they are written together, in multi-row statements;
levels are written one after the other. Without conflicts, all changes have level 0. A row that is changed a thousand
times has a thousand levels.

Successive changes of one kind that share a *loose* mark (`marks`) are still written together, because rows that exist
at the same time differ. A row without a key is identified by its image, which may be inserted or deleted several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.write.marks import Mark, ValueMarks

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


@dataclass
class ChangeOrder:
    """The group and the level of each change of one target table, in the order of the log.

    A disjoint-set forest of marks: the root of a group is its smallest mark.
    """

    marks: ValueMarks
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
    def of(cls, marks: ValueMarks, changes: Sequence[LoggedChange], *, alone: bool = False) -> ChangeOrder:
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
