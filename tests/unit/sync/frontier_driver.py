"""One source's driver in the world of frontier_world.py: it begins, copies by pages, and may die and come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.joining import Newcomer, OwnerNotReady, enter_tables
from airflow_provider_dm.engine.merge.recorded_key import recorded_key
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_COPYING, OwnerWriter
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.contested_row import contested_keys
from airflow_provider_dm.engine.target.copy_progress import (
    ChunkProgress,
    advance_chunk,
    insert_chunks,
    load_chunks,
)
from airflow_provider_dm.engine.target.frontier import read_all_stands
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.owner_numbers import lock_owner
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.statements import Verb, write_rows
from airflow_provider_dm.engine.target.subtask import (
    UNIT_LOAD,
    UNIT_SYNC,
    begin_subtask,
    finish_load,
    read_subtask,
)
from airflow_provider_dm.engine.target.table_schema import (
    TableSchema,
    set_skip_until,
)
from tests.unit.sync.frontier_epochs import BUCKETS, Epochs
from tests.unit.sync.frontier_surroundings import TASK, Surroundings, key_of, place_of
from tests.unit.sync.histories import KEYS, TARGETS, Logged, Place
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
    """Where the copy begins and ends."""
    pages: dict[int, list[tuple[int, list[bytes]]]] | None = None
    """The moments and the keys of each table that is copied by pages. Chosen once: a page that is read again need not
    be the same, and a driver that comes back may well read it again."""

    def __post_init__(self) -> None:
        log = self.world.history.logs[self.number]
        rng = self.world.rng
        if self.world.catch_up:
            self.start = rng.randrange(len(log) // 3 + 1)
            self.end = rng.randrange(self.start, max(self.start + 1, len(log) * 2 // 3 + 1))
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
        """Claim as target/claim.py does, but for its connections."""
        self.generation += 1
        database = self.world.database.sqlite
        if self.generation == 1:
            database.execute(
                f"INSERT INTO {META}.dm_subtask (task, source, generation, claim, unit, buckets, hash_version) "
                "VALUES (?, ?, 1, '', 'new', 0, 0)",
                (TASK, self.name),
            )
        for name in ("dm_subtask", "dm_frontier", "dm_copy_chunk"):
            database.execute(
                f"UPDATE {META}.{name} SET generation = ? WHERE task = ? AND source = ?",
                (self.generation, TASK, self.name),
            )

    def life(self) -> Iterator[None]:
        """Go from where the target says that this source stands to the end. One step is about one transaction."""
        if not self.has_begun():
            yield from self._begin()
        while self.world.past and not all(driver.has_begun() for driver in self.world.drivers):
            yield  # as the app does: nobody applies anything before
        subtask = read_subtask(self.world.database.connection(), self.ref)
        if subtask is not None and subtask.unit == UNIT_LOAD:
            yield from self._load()
        yield from Epochs(self).run()

    def applied(self) -> int:
        """Return where all buckets stand."""
        stands = read_all_stands(self.world.database.connection(), self.ref)
        return max((int(stand.position.rpartition(".")[2]) for stand in stands), default=0)

    def has_begun(self) -> bool:
        subtask = read_subtask(self.world.database.connection(), self.ref)
        return subtask is not None and subtask.start is not None

    def _begin(self) -> Iterator[None]:
        fellows = [one for driver in self.world.drivers if driver is not self for one in driver.newcomers()]
        if self.world.quirks.alone or (not self.world.past and self.world.rng.random() < 0.3):
            fellows = []  # the others are no part of this run
        while True:
            try:
                self.world.transaction(partial(self._begin_body, fellows=fellows))
            except OwnerNotReady:
                yield
            else:
                return

    def newcomers(self) -> list[Newcomer]:
        return [
            Newcomer(self.table(place.number).name, target.name, recorded_key(target))
            for place in self.places()
            for target in [self.target(place.number)]
            if target.identity is not None and not self.world.quirks.together
        ]

    def _begin_body(self, connection: Any, fellows: Sequence[Newcomer]) -> None:
        loading = not self.world.past
        begin_subtask(
            connection,
            self.fence,
            unit=UNIT_LOAD if loading else UNIT_SYNC,
            start=place_of(self.start),
            catch_up_until=None if loading else place_of(self.end),
        )
        connection.execute(f"DELETE FROM {META}.dm_frontier WHERE source = %s AND bucket >= %s", (self.name, BUCKETS))
        connection.execute(f"UPDATE {META}.dm_subtask SET buckets = %s WHERE source = %s", (BUCKETS, self.name))
        schemas = [TableSchema(self.table(one.number), self.target(one.number).name) for one in self.places()]
        newcomers = [] if self.world.quirks.unrecorded else self.newcomers()
        enter_tables(connection, self.ref, schemas, newcomers, fellows, loading=loading)
        if loading:
            chunks = [ChunkProgress(place.number, self.table(place.number).name) for place in self.places()]
            insert_chunks(connection, self.fence, chunks)

    # The copy

    def _load(self) -> Iterator[None]:
        if self.pages is None:
            self.pages = {place.number: self._cut(place.number) for place in self.places()}
        contests = self.contests(MOST_WHILE_COPYING)
        while left := [one for one in self._chunks() if not one.done]:
            chunk = self.world.rng.choice(left)
            self.world.zombies.append(partial(self._copy, chunk, self.fence))
            self._copy(chunk, self.fence)
            if self.world.rng.random() < 0.2 and not self.world.quirks.no_looks:
                contests.look()
            yield
        until = self.start if self.world.quirks.no_catch_up else self.end
        self.world.transaction(lambda tx: finish_load(tx, self.fence, place_of(until)))

    def _chunks(self) -> list[ChunkProgress]:
        return load_chunks(self.world.database.connection(), self.ref)

    def _cut(self, number: int) -> list[tuple[int, list[bytes]]]:
        rng = self.world.rng
        if not self._pages(number):
            return [(rng.randint(self.start, self.end), [])]
        keys = [b"%d" % key for key in (*range(KEYS), 91, 92)]
        cuts = sorted(rng.sample(range(1, len(keys)), rng.choice([1, 2, 4])))
        return [
            (rng.randint(self.start, self.end), keys[a:b]) for a, b in zip([0, *cuts], [*cuts, len(keys)], strict=True)
        ]

    def _pages(self, number: int) -> bool:
        """Tell whether a table is copied by pages, not from one snapshot."""
        return self.target(number).identity is not None and KeyOrder.of(self.table(number)) is not None

    def _copy(self, chunk: ChunkProgress, fence: Fence) -> None:
        """The next page, or the whole table; in one transaction with the chunk's step."""
        assert self.pages is not None
        pages, table = self.pages[chunk.number], self.table(chunk.number)
        page = int(chunk.last_key or 0)
        at, keys = pages[page]
        by_pages = self._pages(chunk.number)
        state = self.world.history.states[self.number][at][chunk.number]
        rows = [row for row in state.elements() if not by_pages or row[0] in keys]
        last = page + 1 == len(pages)

        def body(connection: Any) -> None:
            # A page without rows counts as one: that it was read must be seen.
            if advance_chunk(connection, fence, chunk, rows=len(rows) or 1, last_key=str(page + 1), done=last):
                self._write(connection, chunk.number, rows)
                if not by_pages:
                    set_skip_until(connection, self.ref, table, key_of(at))

        self.world.transaction(body)

    def _write(self, connection: Any, number: int, rows: list[Row]) -> None:
        table, mapping = self.table(number), TableMapping(self.table(number), self.target(number))
        literals = [row_literals(table, Flavour.MARIADB)(row) for row in rows]
        owner = lock_owner(connection, self.ref, table.name)
        if owner:
            access = self.world.database.access()
            writer = OwnerWriter(RowOwner(self.ref, table.name, owner), mapping, access, MOST_WHILE_COPYING)
            waiting = contested_keys(connection, self.ref, mapping.target.name)
            writer.copy(connection, waiting.get(table.name, set()), writer.rows(rows, literals))
            return
        verb = Verb.REPLACE if self.target(number).identity is not None else Verb.INSERT
        for statement in write_rows(mapping, literals, verb):
            self.world.database.execute(connection, statement)

    def contests(self, most: int) -> Contests:
        return Contests(self.fence, Surroundings(self.world), most)
