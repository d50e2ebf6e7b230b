"""What a driver sees around it in the world of frontier_world.py: other sources, their ends, who holds a row."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard
from airflow_provider_dm.engine.downstream.subtask import (
    read_subtask,
)
from airflow_provider_dm.engine.downstream.table_schema import (
    Feeder,
    load_feeders,
)
from airflow_provider_dm.engine.merge.collision import Holder, Values, find_holders
from airflow_provider_dm.engine.merge.writer import Access
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.sync.histories import TARGETS, Place
from tests.unit.sync.sqlite_target import META

if TYPE_CHECKING:
    from tests.unit.sync.frontier_world import World

TASK: Final = "task"


def key_of(position: int) -> str:
    """A position as the frontier stores one."""
    return place_of(position).sort_key


def place_of(position: int) -> Location:
    return Location("bin.000001", position)


@dataclass(frozen=True)
class Surroundings:
    """Answers to what a driver asks. Sources are asked for rows at the end of time: what they say then stays so.

    `early`: for the ends of their logs they are asked as soon as can be."""

    world: World
    early: bool = False

    @property
    def transactions(self) -> Any:
        return self.world.transaction

    def access(self) -> Access:
        return self.world.database.access()

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        (into,) = [one for one in TARGETS if one.name == target]
        return map_table(self._place(table)[1], into)

    def _place(self, name: TableName) -> tuple[Place, Table]:
        ((place, table),) = [one for one in self.world.history.layout.tables.items() if one[1].name == name]
        return place, table

    def feeders(self) -> list[Feeder]:
        return load_feeders(self.world.database.connection(), SubtaskRef(META, TASK, "any"))

    def held_shards(self, target: TableName) -> list[HeldShard]:
        return []

    def is_releasing(self, target: TableName) -> bool:
        return False

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[Holder]:
        return find_holders(row, mapping, self.world.database.connection(), self.access().select)

    def has(self, source: str, table: TableName, values: Values, typed: Table) -> bool:
        place, _ = self._place(table)
        return any(
            all(row[typed.column(name).position] == value for name, value in values.items())
            for row in self.world.history.states[place.source][-1][place.number]
        )

    def ends(self, sources: Collection[str]) -> dict[str, Location]:
        moment = len(self.world.history.order)
        if self.early:
            moment = self.world.rng.randint(self.world.now(), moment)
        positions = self.world.history.positions(moment)
        return {source: place_of(positions[int(source.rpartition("_")[2])]) for source in sources}

    def applied(self, source: str) -> Location | None:
        subtask = read_subtask(self.world.database.connection(), SubtaskRef(META, TASK, source))
        return subtask.location if subtask is not None and subtask.exact else None

    def now(self) -> float:
        return self.world.time
