"""The contents of a merged table in the model of DDL, by the changes that its shards have logged.

Shards that share no unique value at any moment make of it what their logs contain, one after the other. Where they
collide, the last one to write wins (`safe-mode: true`): of one source that is the order of its log. Of two sources, and
where pages of a load or a past overlap the log, the order is no source's, but each row is one that some *owner*, a
source or a shard, has written last; and an owner's row is missing only where another owner's log has its key or its
unique value.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tests.unit.sync.ddl_tables import Row
from tests.unit.sync.ddl_ways import Form

Counted: TypeAlias = Counter[tuple[tuple[str, str | None], ...]]
Values: TypeAlias = tuple[str, tuple[str, ...]]
"""The name of a key, and a row's values of it as the target compares them."""
KEYS: Final[dict[Form, tuple[tuple[str, ...], ...]]] = {
    Form.SINGLE: (("id",),),
    Form.COMPOSITE: (("id", "j"),),
    Form.UNIQUE: (("id",), ("u",)),
    Form.TEXT: (("id",),),
}
"""The unique keys of a merged table that has one to tell rows apart by, which comes first."""


def counted(rows: Iterable[Row]) -> Counted:
    return Counter(tuple(sorted(row.items())) for row in rows)


class Owner(NamedTuple):
    """A source or a shard. `rows`: what it has at last; `touched`: all values of keys that its changes are about."""

    rows: Sequence[Row]
    touched: set[Values]


@dataclass
class Merged:
    """The rows of one source in a merged table, change by change. `shards`: by their lists of rows, which go with them
    when they are renamed, and stay as they are when they are dropped."""

    form: Form
    collide: bool
    rows: list[Row] = field(default_factory=list)
    touched: set[Values] = field(default_factory=set)
    _shards: dict[int, Owner] = field(default_factory=dict)

    def log(self, shard: list[Row], before: Row | None, after: Row | None) -> None:
        """Let a change happen. `shard`: the rows of the shard that has it."""
        owner = self._shards.setdefault(id(shard), Owner(shard, set()))
        if before is not None:
            self._take_away(before)
        if after is not None:
            if self.collide:
                clashing = set(self._values(after))
                self.rows = [row for row in self.rows if clashing.isdisjoint(self._values(row))]
            self.rows.append(dict(after))
        for touched in (self.touched, owner.touched):
            touched.update(self._values(before)[:1], self._values(after))

    def _take_away(self, row: Row) -> None:
        if not self.collide:
            self.rows.remove(row)
            return
        key = self._values(row)[0]
        self.rows = [one for one in self.rows if self._values(one)[0] != key]

    def _values(self, row: Row | None) -> list[Values]:
        if row is None or self.form not in KEYS:
            return []
        found = ((",".join(key), tuple(str(row[name]).lower() for name in key)) for key in KEYS[self.form])
        return [(key, values) for key, values in found if (key, values) != ("u", ("none",))]

    def owners(self, *, in_order: bool) -> list[Owner]:
        """`in_order`: the source's log decides which of its shards has written last."""
        return [Owner(self.rows, self.touched)] if in_order else list(self._shards.values())

    def differences(self, held: Sequence[Row], owners: Sequence[Owner]) -> Iterator[str]:
        """Yield what a target has too much (+) or too little (-) in which these may have collided."""
        for row in held:
            if not any(row in owner.rows for owner in owners):
                yield f"+{row}, which no source has"
        for at, owner in enumerate(owners):
            others = set[Values]().union(*(one.touched for number, one in enumerate(owners) if number != at))
            for row in owner.rows:
                if row not in held and others.isdisjoint(self._values(row)):
                    yield f"-{row}, which is in no other source's log"


def merged_differences(held: Sequence[Row], sources: Sequence[Merged], *, in_order: bool) -> list[str]:
    """Return what the merged table has too much or too little. `in_order`: see `Merged.owners`."""
    first = sources[0]
    if first.collide and first.form in KEYS:
        return list(first.differences(held, [one for source in sources for one in source.owners(in_order=in_order)]))
    wanted = counted(row for source in sources for row in source.rows)
    return [f"+{row}" for row in counted(held) - wanted] + [f"-{row}" for row in wanted - counted(held)]
