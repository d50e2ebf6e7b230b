"""Which tables of a source were altered while they were copied: the births of then against those of now.

    planned, and born otherwise      altered, replaced, or another table of its name    changed
    planned, and not there           dropped, or renamed                                vanished
    there, and not planned           created, or renamed; allowed by the rules          fresh

A table that was copied to its end and then seen as it was at its beginning is *sealed*: all of its pages were read
before whatever comes, so the sync follows that like any other DDL of its log. Task-mode full reads no log and seals
none. Fresh tables come by the log as well. But as soon as one table has to be copied again, all are that are not what
they were, sealed or not, and all fresh ones: only the log would tell which of them a RENAME has made of which.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import Birth, Births
from airflow_provider_dm.engine.target.copied_tables import BY_LOG, CopiedTable


@dataclass(frozen=True)
class Altered:
    """The tables that are not what they were."""

    changed: frozenset[TableName]
    vanished: frozenset[TableName]
    fresh: frozenset[TableName]

    @property
    def names(self) -> frozenset[TableName]:
        return self.changed | self.vanished | self.fresh

    @property
    def there(self) -> frozenset[TableName]:
        return self.changed | self.fresh

    def matters(self, sealed: Collection[TableName], *, also_fresh: bool) -> bool:
        """Tell whether anything has to be copied again."""
        return bool((self.changed | self.vanished) - set(sealed)) or (also_fresh and bool(self.fresh))

    def without(self, names: Collection[TableName]) -> Altered:
        gone = frozenset(names)
        return Altered(self.changed - gone, self.vanished - gone, self.fresh - gone)


def altered(planned: Collection[TableName], known: Mapping[TableName, CopiedTable], now: Births) -> Altered:
    """Return what is not what it was. `known`: of planned tables, and of those that were gone before.

    >>> a, b, c = (TableName("s", name) for name in "abc")
    >>> now = Births({a: Birth("one", 7, 9, "x"), c: Birth("two", 8, 9, "x")}, frozenset())
    >>> found = altered([a, b], {a: CopiedTable("one 6 8 x"), b: CopiedTable("one 6 8 x")}, now)
    >>> [sorted(name.table for name in some) for some in (found.changed, found.vanished, found.fresh)]
    [['a'], ['b'], ['c']]
    """
    names = {*planned, *known}
    there = now.tables
    return Altered(
        changed=frozenset(name for name in names & there.keys() if not _is_same(known.get(name), there[name])),
        vanished=frozenset(name for name in planned if name not in there),
        fresh=frozenset(there.keys() - names),
    )


def _is_same(before: CopiedTable | None, now: Birth) -> bool:
    if before is None or before.birth in ("", BY_LOG) or before.leave is not None:
        return False
    return Birth.of(before.birth).is_same(now)
