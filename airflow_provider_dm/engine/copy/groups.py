"""Source tables that are copied again together: whose rows are in one target table. Pure.

    o_1 (source a), o_2 (a), o_3 (b) -> o      ALTER TABLE o_1      o is made anew; all three are copied again

Rows of a merged table cannot be removed by source, nor can it have two forms. So a group is one thing: as soon as one
of its tables is not what it was, all are copied again, of all sources. Its tables are never sealed, as the sync follows
no DDL of a merged table before its loads are over.

DDL comes shard by shard. A group is copied again when its tables are alike again: those that were the same when they
were planned are the same now. Until then nothing of it is copied (`unlike` says for what it waits).

Where somebody else feeds it as well (another run's source, or one that syncs already), this run only visits: its own
rows are removed, which are recorded, and copied again when the target's table is like its source tables (visiting.py).

A group is nobody's to remove where rows are neither recorded (no key) nor missing still, or where the copy may
overwrite rows that are not the task's. Nothing is copied again there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from airflow_provider_dm.engine.copy.altered import Altered
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.table_schema import Feeder

Member: TypeAlias = tuple[str, TableName]
"""(source-id, its table)."""


@dataclass(frozen=True)
class Side:
    """One source of the run. `planned`: the tables it began with; `found`: which are not what they were, by births."""

    source: str
    planned: frozenset[TableName]
    found: Altered
    sealed: frozenset[TableName]
    also_fresh: bool
    overwrites: bool
    route: Callable[[TableName], TableName]
    recorded: frozenset[TableName] = frozenset()
    """Those of the planned tables whose rows can be told from others' in a merged table, or are not there."""
    reads_log: bool = True
    """The sync goes on with its tables: those of one target have the same columns. Else one may be copied alone."""

    @property
    def names(self) -> frozenset[TableName]:
        return self.planned | self.found.fresh


@dataclass(frozen=True)
class Groups:
    """The merged tables, by target. `ours`: those that this run may remove; `visited`: those of which it may remove the
    rows of its own tables; `foreign`: source tables of others, and all of a source that overwrites.
    """

    ours: Mapping[TableName, frozenset[Member]]
    foreign: frozenset[Member]
    visited: Mapping[TableName, frozenset[Member]] = field(default_factory=dict)

    @classmethod
    def of(cls, sides: Sequence[Side], feeders: Iterable[Feeder]) -> Groups:
        """Return the groups of a run. `feeders`: of all sources of the task."""
        run = {side.source for side in sides}
        members: defaultdict[TableName, set[Member]] = defaultdict(set)
        fed: defaultdict[TableName, set[Member]] = defaultdict(set)
        for side in sides:
            for name in side.names:
                members[side.route(name)].add((side.source, name))
        for one in feeders:
            fed[one.target].add((one.source, one.table))
        overwriting = {side.source for side in sides if side.overwrites}
        recorded = {(side.source, name) for side in sides for name in side.recorded}
        planned = {(side.source, name) for side in sides for name in side.planned}
        ours: dict[TableName, frozenset[Member]] = {}
        visited: dict[TableName, frozenset[Member]] = {}
        foreign: set[Member] = set()
        for target, mine in members.items():
            everybody = {source for source, _ in mine | fed[target]}
            leaving = mine & planned & recorded
            apart = leaving == mine & planned or not any(side.reads_log for side in sides)
            if everybody - run and leaving and apart and not everybody & overwriting:
                visited[target] = frozenset(leaving | mine - planned)
                foreign |= mine & planned - leaving
            elif everybody & overwriting or everybody - run:
                foreign |= mine if len(mine | fed[target]) > 1 else {one for one in mine if one[0] in overwriting}
            elif len(mine | fed[target]) > 1:
                ours[target] = frozenset(mine)
        return cls(ours, frozenset(foreign), visited)

    @cached_property
    def together(self) -> Mapping[TableName, frozenset[Member]]:
        """Return the groups whose source tables, as far as they are of this run, are copied again together."""
        return {**self.ours, **self.visited}

    def names(self, source: str) -> frozenset[TableName]:
        """Return the tables of a source that are copied again together with others."""
        return frozenset(name for group in self.together.values() for one, name in group if one == source)


def strangers(side: Side, groups: Groups) -> frozenset[TableName]:
    """Return the source's altered tables whose rows nobody may remove; at the first look all that may be altered."""
    altered = side.found.changed | side.found.vanished
    names = altered | side.planned if side.also_fresh and side.overwrites else altered
    return frozenset(name for name in names if (side.source, name) in groups.foreign)


def unread_newcomers(side: Side, groups: Groups) -> frozenset[TableName]:
    """Return the source's new tables that nobody copies, and that may be what a table was which is copied again: the
    sync passes over what is renamed in front of its second copy. Where others fill their target this run copies none.
    Its log tells (followed.py).
    """
    mine = {name for name in side.names if (side.source, name) in groups.foreign}
    plain = plainly_altered(side, groups)
    return side.found.fresh & mine if plain.matters(side.sealed, also_fresh=False) else frozenset()


def plainly_altered(side: Side, groups: Groups) -> Altered:
    """Return what is not what it was of the tables that are copied again by themselves."""
    foreign = (name for source, name in groups.foreign if source == side.source)
    return side.found.without({*groups.names(side.source), *foreign})


def to_copy_again(sides: Sequence[Side], groups: Groups, *, closing: bool = False) -> dict[str, Altered]:
    """Return, by source, what has to be copied again if anything does. `closing`: nothing else is left to copy.

    A new table of a group repeats no copy that goes on, unless its source has something to copy again: then it may be
    what another one was before. `closing` makes it a reason by itself: in front of Pend its CREATE would meet source
    tables whose rows are recorded, until its own source is behind Pend, and its rows could not be told from theirs.
    """
    plain = {side.source: plainly_altered(side, groups) for side in sides}
    there = {(side.source, name): side for side in sides for name in side.names}
    altered = {(side.source, name) for side in sides for name in side.found.changed | side.found.vanished}
    fresh = {(side.source, name) for side in sides for name in side.found.fresh}
    reasons = altered | fresh if closing else altered
    hit = {target for target, group in groups.together.items() if group & reasons}
    mattering = {side.source for side in sides if plain[side.source].matters(side.sealed, also_fresh=side.also_fresh)}
    while True:
        mattering |= {source for target in hit for source, _ in groups.together[target]}
        more = {
            target
            for target, group in groups.together.items()
            if any(one in fresh and one[0] in mattering for one in group)
        }
        if more <= hit:
            break
        hit |= more
    again: dict[str, Altered] = {}
    for side in (one for one in sides if one.source in mattering):
        mine = {
            name for target in hit for one in groups.together[target] if one[0] == side.source and one in there
            for name in (one[1],)
        }  # fmt: skip
        found = plain[side.source]
        vanished, new = side.found.vanished & mine, side.found.fresh & mine
        again[side.source] = Altered(
            found.changed | (mine - vanished - new), found.vanished | vanished, found.fresh | new
        )
    return again


def unlike(
    before: Mapping[Member, Hashable], now: Mapping[Member, Hashable], group: Collection[Member]
) -> tuple[Member, Member] | None:
    """Return two tables of a group that were alike and are not; None: there are none. Tables that are in only one of
    the two do not count: they are new, or gone.
    """
    firsts: dict[Hashable, Member] = {}
    for one in sorted(one for one in group if one in before and one in now):
        first = firsts.setdefault(before[one], one)
        if now[first] != now[one]:
            return first, one
    return None
