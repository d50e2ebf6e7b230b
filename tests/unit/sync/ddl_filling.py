"""The rows that the target has where the log of a source begins, in the model of DDL, and what is known of them.

a load      each page of a table is of a moment of its own, in any order; a table that cannot be paged is of one
            moment, from which on its log counts. All of them lie in front of where the log counts as exact
others      somebody has filled the target at one moment, and the log begins before; tables without a key are as they
            are where it begins
shards      the same, each with pages of its own where it is a load; those without a key are all of one moment
always      the same, and nobody says where the log counts as exact
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from tests.unit.sync.ddl_changes import is_shard
from tests.unit.sync.ddl_history import History, place_of
from tests.unit.sync.ddl_tables import Row
from tests.unit.sync.ddl_ways import Safe


@dataclass
class Filling:
    """What is there. `pages`: of each table, written one over the other; `until`: where the log counts as exact."""

    until: Location | None = None
    pages: dict[TableName, list[list[Row]]] = field(default_factory=dict)
    skip_until: dict[TableName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, rng: random.Random) -> Filling:
        """Fill the tables of a history."""
        safe, moments = history.way.safe, range(len(history.states))
        if safe is Safe.OFF:
            return cls()
        found = cls()
        if safe is not Safe.ALWAYS:
            found.until = place_of(rng.randint(moments[-1], min(moments[-1] + 3, len(history.log))))
        of_all = rng.choice(moments)
        for name in sorted(history.begun.names()):
            at = of_all
            if safe.loaded and KeyOrder.of(history.begun.table(name)) is not None:
                found.pages[name] = list(_pages(history, name, rng))
                continue
            if safe.loaded:
                at = at if is_shard(name) else rng.choice(moments)
                found.skip_until[name] = place_of(at).sort_key
            tables = history.begun if is_shard(name) else history.begun_in_target
            keyed = tables.table(name).identity is not None
            found.pages[name] = [history.states[at if keyed or safe.loaded else 0][name]]
        return found


def _pages(history: History, name: TableName, rng: random.Random) -> Iterator[list[Row]]:
    cut = rng.choice("13579")
    for low in rng.sample([True, False], 2):
        rows = rng.choice(history.states)[name]
        yield [row for row in rows if (str(row["id"])[-1] <= cut) is low]
