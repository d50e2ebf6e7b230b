"""A small world in which the exactly-once protocol runs: the engine's own code, over SQLite, with accidents.

One or several sources, each with one or several shards, go into the same tables. Each source has a driver, which copies
its tables page by page (each page of another moment) or finds them filled by somebody else, and then cuts its log into
epochs and applies them, at its own pace: catch-up until the copy ended, exact from there. All of it is the engine's:
chunks, compactor, waves, writer, frontier, owners, rows that wait, and what a driver asks before it begins.

At any transaction a process may die, a task alone or the driver with it, and any piece of work that was ever started
may be run again by a zombie. In the end the target must equal the sources, row by row, and nothing may wait.

`Quirks` switches one rule of the protocol off, to see that it is needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, RouteRule
from airflow_provider_dm.engine.copy.writing import copy_merged
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.collision import Holder, Values, find_holders
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.joining import Newcomer, OwnerNotReady, enter_tables
from airflow_provider_dm.engine.merge.records import Records
from airflow_provider_dm.engine.merge.settling import Fence
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_COPYING, MOST_WHILE_SYNCING, Access, OwnerWriter
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.blobs import pack, unpack
from airflow_provider_dm.engine.sync.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.compactor import Compactor
from airflow_provider_dm.engine.sync.plan import SyncPlan, make_plan
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.target.contested_row import ContestedRow
from airflow_provider_dm.engine.target.copy_progress import (
    ChunkOwner,
    ChunkProgress,
    advance_chunk,
    insert_chunks,
    load_chunks,
)
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.frontier import Step, extent, read_all_stands
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.statements import Verb, write_rows
from airflow_provider_dm.engine.target.subtask import (
    UNIT_LOAD,
    UNIT_SYNC,
    begin_subtask,
    finish_load,
    note_location,
    read_subtask,
)
from airflow_provider_dm.engine.target.table_schema import (
    Feeder,
    TableSchema,
    load_feeders,
    load_table_schemas,
    set_skip_until,
)
from tests.unit.sync.histories import KEYS, TARGETS, History, Layout, Logged, Place
from tests.unit.sync.sqlite_target import META, Database, Died, Moment

T = TypeVar("T")

RULES: Final = BlockAllowRules.from_config(BlockAllowConfig(), case_sensitive=True, meta_schema=META)
ROUTER: Final = Router.from_config(
    [
        RouteRule.model_validate(
            {
                "schema-pattern": "shop_*",
                "table-pattern": f"{one.name.table}_*",
                "target-schema": "shop",
                "target-table": one.name.table,
            }
        )
        for one in TARGETS
    ],
    case_sensitive=True,
)
BUCKETS: Final = 4
TASK: Final = "task"
HALVES: Final = ([0, 1], [2, 3])
"""Two tasks, each with its own buckets."""


@dataclass
class Quirks:
    """Rules of the driver to switch off, one at a time. The engine's own code is patched by the test."""

    ignore_edge: bool = False
    no_generation_bump: bool = False
    release_after: bool = False
    no_catch_up: bool = False
    """The log counts as exact from where the copy began."""
    together: bool = False
    """Source tables of a merged target are folded together and care for nobody, as releases before `merge` had it."""
    unrecorded: bool = False
    """Nobody records whose rows are whose."""
    no_looks: bool = False
    """Drivers do not look after rows that wait."""
    alone: bool = False
    """Each source begins in a run of its own."""
    haunted: float = 0.15
    """How often a zombie comes before a transaction."""


def key_of(position: int) -> str:
    """A position as the frontier stores one."""
    return place_of(position).sort_key


def place_of(position: int) -> Location:
    return Location("bin.000001", position)


class World:
    """Target, drivers and fate. `run` plays a whole history.

    `catch_up`: there is a copy whose pages are of different moments, else the first state is found as it was. `past`:
    the target was filled by somebody else, and the logs begin before that.
    """

    def __init__(
        self,
        seed: int,
        *,
        changes: int = 60,
        catch_up: bool = False,
        past: bool = False,
        sources: int = 1,
        shards: int = 1,
        collide: bool = False,
        quirks: Quirks | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.quirks = quirks or Quirks()
        self.catch_up, self.past = catch_up, past
        layout = Layout(sources, shards)
        self.history = History.make(self.rng, changes, layout, collide=collide, orderly=changes * 2 // 3 * past)
        self.time = 0.0
        self.database = Database(lambda: self.time)
        self.zombies: list[Callable[[], object]] = []
        self.in_zombie = False
        self.fate = 0.12
        self.deaths = self.repeats = self.waited = self.begun = 0
        self.drivers = [Driver(self, number) for number in range(sources)]
        if past:
            self._fill()

    def run(self) -> None:
        running = {driver: driver.life() for driver in self.drivers}
        while running:
            driver = self.rng.choice(list(running))
            try:
                next(running[driver])
            except StopIteration:
                del running[driver]
            except Died:
                self.deaths += 1
                driver.restart()
                running[driver] = driver.life()
            self.waited = max(self.waited, self.database.contested())
        self.fate = 0.0
        self._haunt(every=True)

    def differences(self) -> list[str]:
        """What the target has too much (+) or too little (-), and how many rows wait."""
        found = []
        for number, one in enumerate(TARGETS):
            held, wanted = self.database.rows(one), self.history.final(number)
            found += [f"{one.name}: +{row}" for row in (held - wanted)] + [
                f"{one.name}: -{row}" for row in wanted - held
            ]
        waiting = self.database.contested()
        return found + [f"{waiting} rows wait"] * (waiting > 0)

    def now(self) -> int:
        """The earliest moment that it can be, by what is applied and by what drivers have seen when they began."""
        order = self.history.order
        seen = self.history.positions(self.begun)
        here = [driver.applied() for driver in self.drivers]
        return next(
            moment
            for moment in range(len(order) + 1)
            if all(at >= max(a, b) for at, a, b in zip(self.history.positions(moment), here, seen, strict=True))
        )

    # Fate

    def transaction(self, body: Callable[[Any], T], /) -> T:
        self._haunt()
        moment = self.rng.choice(list(Moment)) if self.rng.random() < self.fate and not self.in_zombie else None
        return self.database.transaction(body, moment, self.rng.choice([1, 1, 2, 3, 4, 5, 6]))

    @contextmanager
    def mercy(self) -> Iterator[None]:
        """Nothing happens to anybody."""
        fate, self.fate, self.in_zombie = self.fate, 0.0, True
        yield
        self.fate, self.in_zombie = fate, False

    def _haunt(self, *, every: bool = False) -> None:
        """Somebody who was thought dead does again what was once started."""
        if self.in_zombie or not self.zombies or (not every and self.rng.random() > self.quirks.haunted):
            return
        self.in_zombie = True
        chosen = self.zombies[-40:] if every else [self.rng.choice(self.zombies[-12:])]
        for zombie in chosen:
            self.repeats += 1
            try:
                zombie()
            except DmError as refused:
                self.database.refusals[type(refused).__name__] += 1
        self.in_zombie = False

    # A target that somebody else has filled

    def _fill(self) -> None:
        """At some moment. Logs begin at an earlier one, and the drivers at a later one; until then all is orderly."""
        begin = self.rng.randint(0, self.history.orderly // 2)
        filled = self.rng.randint(begin, self.history.orderly)
        self.begun = self.rng.randint(filled, self.history.orderly)
        starts, now, ends = (self.history.positions(moment) for moment in (begin, filled, self.begun))
        for driver in self.drivers:
            driver.start, driver.end = starts[driver.number], ends[driver.number]
            for place in driver.places():
                number = self.history.layout.target(place)
                keyed = TARGETS[number].identity is not None
                at = now[driver.number] if keyed else starts[driver.number]  # a keyless copy must be exact
                for row in self.history.states[driver.number][at][place.number].elements():
                    self._put(number, row, Verb.REPLACE if keyed else Verb.INSERT)

    def _put(self, target: int, row: Row, verb: Verb) -> None:
        mapping = TableMapping(TARGETS[target], TARGETS[target])
        literals = row_literals(TARGETS[target], Flavour.MARIADB)(row)
        (statement,) = write_rows(mapping, [literals], verb)
        self.database.execute(self.database.connection(), statement)


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
    """Of each table that is copied by pages: the moments and the keys. Chosen once: a page that is read again need not
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
    def subtask(self) -> tuple[str, str, str]:
        return (META, TASK, self.name)

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
        """As target/generation.py does, but for its connections."""
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
        """From where the target says that this source stands; to the end. One step is about one transaction."""
        if not self.has_begun():
            yield from self._begin()
        while self.world.past and not all(driver.has_begun() for driver in self.world.drivers):
            yield  # as the app does: nobody applies anything before
        subtask = read_subtask(self.world.database.connection(), *self.subtask)
        if subtask is not None and subtask.unit == UNIT_LOAD:
            yield from self._load()
        yield from _Sync(self).run()

    def applied(self) -> int:
        """Where all buckets stand."""
        stands = read_all_stands(self.world.database.connection(), *self.subtask)
        return max((int(stand.position.rpartition(".")[2]) for stand in stands), default=0)

    def has_begun(self) -> bool:
        subtask = read_subtask(self.world.database.connection(), *self.subtask)
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
            Newcomer(self.table(place.number).name, self.target(place.number).name, past=self.world.past)
            for place in self.places()
            if self.target(place.number).identity is not None and not self.world.quirks.together
        ]

    def _begin_body(self, connection: Any, fellows: Sequence[Newcomer]) -> None:
        loading = not self.world.past
        begin_subtask(
            connection,
            *self.subtask,
            generation=self.generation,
            unit=UNIT_LOAD if loading else UNIT_SYNC,
            start=place_of(self.start),
            catch_up_until=None if loading else place_of(self.end),
        )
        connection.execute(f"DELETE FROM {META}.dm_frontier WHERE source = %s AND bucket >= %s", (self.name, BUCKETS))
        connection.execute(f"UPDATE {META}.dm_subtask SET buckets = %s WHERE source = %s", (BUCKETS, self.name))
        schemas = [TableSchema(self.table(one.number), self.target(one.number).name) for one in self.places()]
        newcomers = [] if self.world.quirks.unrecorded else self.newcomers()
        enter_tables(connection, *self.subtask, schemas, newcomers, fellows, loading=loading)
        if loading:
            chunks = [ChunkProgress(place.number, self.table(place.number).name) for place in self.places()]
            insert_chunks(connection, ChunkOwner(*self.subtask, self.generation), chunks)

    # The copy

    def _load(self) -> Iterator[None]:
        if self.pages is None:
            self.pages = {place.number: self._cut(place.number) for place in self.places()}
        contests = self.contests(MOST_WHILE_COPYING)
        while left := [one for one in self._chunks() if not one.done]:
            chunk = self.world.rng.choice(left)
            self.world.zombies.append(partial(self._copy, chunk, self.generation))
            self._copy(chunk, self.generation)
            if self.world.rng.random() < 0.2 and not self.world.quirks.no_looks:
                contests.look()
            yield
        until = self.start if self.world.quirks.no_catch_up else self.end
        self.world.transaction(
            lambda tx: finish_load(tx, *self.subtask, generation=self.generation, catch_up_until=place_of(until))
        )

    def _chunks(self) -> list[ChunkProgress]:
        return load_chunks(self.world.database.connection(), *self.subtask)

    def _cut(self, number: int) -> list[tuple[int, list[bytes]]]:
        rng = self.world.rng
        if self.target(number).identity is None:
            return [(rng.randint(self.start, self.end), [])]
        keys = [b"%d" % key for key in (*range(KEYS), 91, 92)]
        cuts = sorted(rng.sample(range(1, len(keys)), rng.choice([1, 2, 4])))
        return [
            (rng.randint(self.start, self.end), keys[a:b]) for a, b in zip([0, *cuts], [*cuts, len(keys)], strict=True)
        ]

    def _copy(self, chunk: ChunkProgress, generation: int) -> None:
        """The next page, or the whole table; in one transaction with the chunk's step."""
        assert self.pages is not None
        pages, table = self.pages[chunk.number], self.table(chunk.number)
        page = int(chunk.last_key or 0)
        at, keys = pages[page]
        keyed = self.target(chunk.number).identity is not None
        state = self.world.history.states[self.number][at][chunk.number]
        rows = [row for row in state.elements() if not keyed or row[0] in keys]
        last = page + 1 == len(pages)

        def body(connection: Any) -> None:
            owner = ChunkOwner(*self.subtask, generation)
            # A page without rows counts as one: that it was read must be seen.
            if advance_chunk(connection, owner, chunk, rows=len(rows) or 1, last_key=str(page + 1), done=last):
                self._write(connection, chunk.number, rows)
                if not keyed:
                    set_skip_until(connection, *self.subtask, table, key_of(at))

        self.world.transaction(body)

    def _write(self, connection: Any, number: int, rows: list[Row]) -> None:
        table, mapping = self.table(number), TableMapping(self.table(number), self.target(number))
        literals = [row_literals(table, Flavour.MARIADB)(row) for row in rows]
        (owner,) = [one.owner for one in load_feeders(connection, META, TASK) if one.table == table.name]
        if owner:
            access = self.world.database.access()
            writer = OwnerWriter(RowOwner(*self.subtask, table.name, owner), mapping, access, MOST_WHILE_COPYING)
            copy_merged(connection, writer, writer.rows(rows, literals))
            return
        verb = Verb.REPLACE if self.target(number).identity is not None else Verb.INSERT
        for statement in write_rows(mapping, literals, verb):
            self.world.database.execute(connection, statement)

    def contests(self, most: int) -> Contests:
        return Contests(Fence(*self.subtask, self.generation), Surroundings(self.world), most)


class _Sync:
    """The loop of sync/loop.py, as far as it is about what is applied."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.world = driver, driver.world
        self.generation = driver.generation
        connection = self.world.database.connection()
        subtask = read_subtask(connection, *driver.subtask)
        assert subtask is not None
        assert subtask.catch_up_until is not None
        self.catch_up_until = subtask.catch_up_until.position
        self.schemas = load_table_schemas(connection, *driver.subtask)
        self.skip = [schema.skip_until for schema in sorted(self.schemas, key=self._number_of)]
        plan = make_the_plan(
            sorted(self.schemas, key=self._number_of),
            elsewhere={one.target for one in load_feeders(connection, META, TASK) if one.source != driver.name},
            past=self.world.past,
            together=self.world.quirks.together,
        )
        contests = driver.contests(MOST_WHILE_SYNCING)
        self.sharing = Sharing(
            plan,
            contests,
            Records(contests.fence, Surroundings(self.world, early=True), plan.adopts),
            contests.around,  # type: ignore[arg-type]
            several=len(self.world.drivers) > 1,
            lawful=not self.world.quirks.together,
        )

    def _number_of(self, schema: TableSchema) -> int:
        (number,) = [
            place.number for place in self.driver.places() if self.driver.table(place.number).name == schema.table.name
        ]
        return number

    def run(self) -> Iterator[None]:
        stands = read_all_stands(self.world.database.connection(), *self.driver.subtask)
        low, edge = (int(key.rsplit(".", 1)[1]) for key in extent(stands))
        yield from self._look(low, between=low == edge)
        while low < len(self.driver.log):
            high = self._next_end(low, edge)
            for _ in range(30):
                try:
                    contested = 0
                    for work in self._works(low, high):
                        self.world.zombies.append(work)
                        contested += work() or 0
                        yield
                    break
                except DuplicateInTarget:
                    if not self.sharing.notice():
                        raise
                except Died:
                    if self.world.rng.random() < 0.5:
                        raise
                    self.world.deaths += 1  # only the task died: the same epoch again
            else:
                raise AssertionError("an epoch never succeeds")
            low = edge = high
            if contested or self.sharing.rows or self.world.rng.random() < 0.2:
                yield from self._look(low)
        yield from self._look(low)
        with self.world.mercy():  # it asks again and again
            self.sharing.finish(self._wait)

    def _look(self, low: int, *, between: bool = True) -> Iterator[None]:
        self.world.transaction(
            lambda tx: note_location(tx, *self.driver.subtask, generation=self.generation, location=place_of(low))
        )
        if not self.world.quirks.no_looks:
            self.sharing.look(between=between)
        yield

    def _wait(self, seconds: float) -> bool:
        self.world.time += seconds
        return False

    def _next_end(self, low: int, edge: int) -> int:
        if edge > low and not self.world.quirks.ignore_edge:
            return edge
        high = min(len(self.driver.log), low + self.world.rng.choice([1, 3, 8, 20]))
        return min(high, self.catch_up_until) if low < self.catch_up_until else high

    def _works(self, low: int, high: int) -> list[Callable[[], int | None]]:
        step = Step(*self.driver.subtask, self.generation, key_of(low), key_of(high))
        plan, catch_up = self.sharing.plan, low < self.catch_up_until
        waves = self._waves(plan, low, high, catch_up=catch_up)
        target = Target(self.world.transaction, self.world.database.access)
        writer = WaveWriter(plan, target, step, catch_up, recording=self.sharing.recording)
        works: list[Callable[[], int | None]] = []
        for half in HALVES:
            first = {bucket: work for bucket, work in waves.first.items() if bucket in half}
            works.append(partial(writer.release, first))
        works += [partial(writer.advance, waves.second, half) for half in HALVES]
        if self.world.quirks.release_after:
            works = [works[2], works[0], works[1], works[3]]
        return works

    def _waves(self, plan: SyncPlan, low: int, high: int, *, catch_up: bool) -> Waves:
        """Folded in two pieces, as two ranges would be; the pieces are put together as blobs are."""
        cut = self.world.rng.randint(low, high)
        pieces = [pack(plan, Compactor(plan).add_all(self._changes(a, b)), 1)[0] for a, b in ((low, cut), (cut, high))]
        return make_waves(plan, unpack(plan, pieces), catch_up=catch_up, recording=self.sharing.recording)

    def _changes(self, low: int, high: int) -> Iterator[Logged]:
        for position in range(low, high):
            change = self.driver.log[position]
            if key_of(position + 1) > self.skip[change[0]]:
                yield change


def make_the_plan(
    schemas: Sequence[TableSchema],
    *,
    elsewhere: Collection[TableName] = (),
    past: bool = False,
    together: bool = False,
) -> SyncPlan:
    return make_plan(
        schemas,
        {one.name: one for one in TARGETS},
        rules=RULES,
        router=ROUTER,
        buckets=BUCKETS,
        merged=None if together else elsewhere,
        adopts=past,
    )


@dataclass(frozen=True)
class Surroundings:
    """What a driver asks. Sources are asked for rows at the end of time: what they say then stays so.

    `early`: for the ends of their logs they are asked as soon as can be."""

    world: World
    early: bool = False

    @property
    def transactions(self) -> Any:
        return self.world.transaction

    @property
    def answers(self) -> Surroundings:
        return self

    def access(self) -> Access:
        return self.world.database.access()

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        (into,) = [one for one in TARGETS if one.name == target]
        return map_table(self._place(table)[1], into)

    def _place(self, name: TableName) -> tuple[Place, Table]:
        ((place, table),) = [one for one in self.world.history.layout.tables.items() if one[1].name == name]
        return place, table

    def feeders(self) -> list[Feeder]:
        return load_feeders(self.world.database.connection(), META, TASK)

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
        subtask = read_subtask(self.world.database.connection(), META, TASK, source)
        return subtask.location if subtask is not None and subtask.exact else None

    def now(self) -> float:
        return self.world.time


MERGED_CHANGES: Final = 40
SINGLE: Final[dict[str, dict[str, Any]]] = {
    "exact": {},
    "after a load": {"catch_up": True},
    "a past not ours": {"past": True},
}
SHARED: Final[dict[str, dict[str, Any]]] = {
    name: {"changes": MERGED_CHANGES, **options}
    for name, options in {
        "shards, exact": {"shards": 2},
        "shards, after a load": {"shards": 2, "catch_up": True},
        "shards, a past not ours": {"shards": 2, "past": True},
        "sources, exact": {"sources": 2},
        "sources, after a load": {"sources": 2, "catch_up": True},
        "sources, a past not ours": {"sources": 2, "past": True},
        "sources and shards, after a load": {"sources": 2, "shards": 2, "catch_up": True},
        "three sources, after a load": {"sources": 3, "catch_up": True},
    }.items()
}
COLLIDING: Final[dict[str, dict[str, Any]]] = {
    f"collide: {name}": {**SHARED[name], "collide": True}
    for name in ("shards, exact", "sources, after a load", "sources and shards, after a load")
}
"""Kinds of worlds."""
