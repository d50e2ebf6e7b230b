"""One source's driver in the world of frontier_world.py: it begins, and may die and come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.engine.downstream.frontier import read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.sync.frontier_epochs import BUCKETS, Epochs
from tests.unit.sync.frontier_surroundings import TASK, Surroundings, place_of
from tests.unit.sync.histories import TARGETS, Logged, Place
from tests.unit.sync.sqlite_target import META

if TYPE_CHECKING:
    from tests.unit.sync.frontier_world import World


@dataclass(eq=False)
class Driver:
    """One source's driver. What it knows beside the target dies with it, but for its generation."""

    world: World
    number: int
    generation: int = 0
    start: int = 0
    end: int = 0
    """Where its log begins, and up to where that log is in a past that is not exact."""

    def __post_init__(self) -> None:
        self._claim()

    @property
    def name(self) -> str:
        return f"source_{self.number}"

    @property
    def ref(self) -> SubtaskRef:
        return SubtaskRef(META, TASK, self.name)

    @property
    def fence(self) -> Fence:
        return Fence(self.ref, self.generation)

    @property
    def log(self) -> list[Logged]:
        return self.world.history.logs[self.number]

    def places(self) -> list[Place]:
        return [place for place in self.world.history.layout.places if place.source == self.number]

    def table(self, number: int) -> Table:
        return self.world.history.layout.tables[Place(self.number, number)]

    def target(self, number: int) -> Table:
        return TARGETS[self.world.history.layout.target(Place(self.number, number))]

    # A life

    def restart(self) -> None:
        if not self.world.quirks.no_generation_bump:
            self._claim()

    def _claim(self) -> None:
        """Claim as downstream/claim.py does, but for its connections."""
        self.generation += 1
        database = self.world.database.sqlite
        if self.generation == 1:
            database.execute(
                f"INSERT INTO {META}.dm_subtask (task, source, generation, claim, unit, buckets, hash_version) "
                "VALUES (?, ?, 1, '', 'new', 0, 0)",
                (TASK, self.name),
            )
        for name in ("dm_subtask", "dm_frontier"):
            database.execute(
                f"UPDATE {META}.{name} SET generation = ? WHERE task = ? AND source = ?",
                (self.generation, TASK, self.name),
            )

    def life(self) -> Iterator[None]:
        """Go from where the target says that this source stands to the end. One step is about one transaction."""
        if not self.has_begun():
            self.world.transaction(self._begin)
            yield
        while self.world.past and not all(driver.has_begun() for driver in self.world.drivers):
            yield  # as the app does: nobody applies anything before
        yield from Epochs(self).run()

    def applied(self) -> int:
        """Return where all buckets stand."""
        stands = read_whole_frontier(self.world.database.connection(), self.ref)
        return max((int(stand.position.rpartition(".")[2]) for stand in stands), default=0)

    def has_begun(self) -> bool:
        subtask = read_subtask(self.world.database.connection(), self.ref)
        return subtask is not None and subtask.start is not None

    def _begin(self, connection: Any) -> None:
        begin_subtask(
            connection,
            self.fence,
            unit=UNIT_SYNC,
            start=place_of(self.start),
            overwrite_until=place_of(self.end) if self.world.past else None,
        )
        connection.execute(f"DELETE FROM {META}.dm_frontier WHERE source = %s AND bucket >= %s", (self.name, BUCKETS))
        connection.execute(f"UPDATE {META}.dm_subtask SET buckets = %s WHERE source = %s", (BUCKETS, self.name))
        schemas = [TableSchema(self.table(one.number), self.target(one.number).name) for one in self.places()]
        save_table_schemas(connection, self.ref, schemas)

    def contests(self, most: int) -> Contests:
        return Contests(self.fence, Surroundings(self.world), most)
