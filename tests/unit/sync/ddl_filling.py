"""The rows that the target has where the log of a source begins, in the model of DDL, and what is known of them.

a past      another tool has filled the target at one moment, and the log begins before; tables without a key are as
            they are where it begins
always      the same, and no end of that past is known
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.sync.ddl_changes import is_shard
from tests.unit.sync.ddl_history import History, place_of
from tests.unit.sync.ddl_tables import Row
from tests.unit.sync.ddl_ways import Safe


@dataclass
class Filling:
    """What is there. `rows`: of each table; `until`: where the log counts as exact."""

    until: Location | None = None
    rows: dict[TableName, list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, rng: random.Random) -> Filling:
        """Fill the tables of a history."""
        safe, moments = history.way.safe, range(len(history.states))
        if safe is Safe.OFF:
            return cls()
        found = cls()
        if safe is not Safe.ALWAYS:
            found.until = place_of(rng.randint(moments[-1], min(moments[-1] + 3, len(history.log))))
        at = rng.choice(moments)
        for name in sorted(history.begun.names()):
            tables = history.begun if is_shard(name) else history.begun_in_target
            keyed = tables.table(name).identity is not None
            found.rows[name] = history.states[at if keyed else 0][name]
        return found
