"""One source's driver, its epochs and its readers, in the world of rounds_world.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, RouteRule
from airflow_provider_dm.engine.downstream.copy_progress import (
    ChunkProgress,
    add_chunks,
    forget_chunks,
    insert_chunks,
    load_chunks,
    rename_chunks,
)
from airflow_provider_dm.engine.downstream.frontier import Step, extent, read_whole_frontier, whole_transaction
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.rounds import Round, close_round, open_round
from airflow_provider_dm.engine.downstream.subtask import UNIT_LOAD, begin_subtask, complete_load
from airflow_provider_dm.engine.downstream.table_schema import (
    TableSchema,
    load_table_schemas,
    save_table_schemas,
)
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.settling import Settler
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.text_folds import ALPHANUMERIC, TextFold
from airflow_provider_dm.engine.sync.coverage import Coverage, coverages
from airflow_provider_dm.engine.sync.ddl import chunks_behind
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import make_plan
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.blobs import pack, unpack
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, Unit
from tests.unit.sync.frontier_surroundings import key_of, place_of
from tests.unit.sync.rounds_history import MERGED, NUMBERS, TEXT, Ddl, Source, Transaction, target_of
from tests.unit.sync.rounds_reader import Reader
from tests.unit.sync.rounds_target import number_of
from tests.unit.sync.sqlite_target import META, Died

if TYPE_CHECKING:
    from tests.unit.sync.rounds_world import World

BUCKETS: Final = 3
HALVES: Final = ([0], [1, 2])
NOWHERE: Final = Endpoint("source", "nowhere.invalid", 1, "nobody")
FOLD: Final = TextFold(TEXT, "the model's", {ord(one): one.upper() for one in ALPHANUMERIC})
RULES: Final = SubtaskRules(
    BlockAllowRules.from_config(BlockAllowConfig(), case_sensitive=True, meta_schema=META),
    Router.from_config(
        [
            RouteRule.model_validate(
                {
                    "schema-pattern": "s*",
                    "table-pattern": "m_*",
                    "target-schema": MERGED.schema,
                    "target-table": MERGED.table,
                }
            )
        ],
        case_sensitive=True,
    ),
)


class Logged(NamedTuple):
    """A piece of a log, in the place of a byte range. `began`: where the task's log begins."""

    source: Source
    low: int
    high: int
    began: int
    path: str = ""


def logged(one: Logged, wanted: WantedTables, *, take: object = None) -> Iterator[RowChange]:
    """Yield the changes as the decoder does. What was prepared in front of the task's log is in no log of it."""
    for item in one.source.log[one.low : one.high]:
        assert isinstance(item, Transaction)
        if item.prepared_at is not None and item.prepared_at < one.began:
            continue
        for name, before, after in item.changes:
            index = wanted.find(name)
            if index is not None:
                yield RowChange(index, before, after)


@lru_cache(8192)
def _plan(
    schemas: tuple[TableSchema, ...],
    covered: tuple[tuple[TableName, Coverage], ...],
    several: bool,
    compact: bool,
    whole: bool,
    safe: bool,
) -> SyncPlan:
    targets = {one.target: replace(one.table, name=one.target) for one in schemas}
    plan = make_plan(
        schemas,
        targets,
        rules=RULES,
        buckets=BUCKETS,
        merged=frozenset({MERGED}) if several else frozenset(),
        coverage=dict(covered),
        folds={TEXT: FOLD},
    )
    return replace(plan, compact=compact, whole=whole, safe=safe)


def _tables(schemas: Iterable[TableSchema]) -> SubtaskTables:
    nothing: Any = None
    return SubtaskTables(tuple(schemas), nothing)


@dataclass(eq=False)
class Driver:
    """One source's driver. What it knows beside the target dies with it, but for its generation."""

    world: World
    source: Source
    generation: int = 0
    now: int = 0
    """The end of the source's log, as time passes."""

    @property
    def ref(self) -> SubtaskRef:
        return SubtaskRef(META, "task", self.source.name)

    @property
    def fence(self) -> Fence:
        return Fence(self.ref, self.generation)

    def connection(self) -> Any:
        return self.world.database.connection()

    def time_passes(self) -> None:
        if self.now < len(self.source.log) and self.world.rng.random() < 0.3:
            self.now += 1

    # A life

    def life(self) -> Iterator[None]:
        """Go from where the target says that this source stands to the end. One step is about one transaction."""
        self._claim()
        if self.at() is None:
            yield from self._begin()
        number = 0
        while True:
            yield from self._follow(self.now)
            if any(not chunk.done for chunk in self.chunks()):
                number += 1
                yield from self._round(number)
                continue
            self._do(lambda tx: complete_load(tx, self.fence))
            if self.at() == len(self.source.log):
                return
            yield

    def _claim(self) -> None:
        """Claim as downstream/claim.py does, but for its connections."""
        self.generation += 1
        database = self.world.database.sqlite
        if self.generation == 1:
            columns = "task, source, generation, claim, unit, buckets, hash_version"
            database.execute(
                f"INSERT INTO {META}.dm_subtask ({columns}) VALUES ('task', ?, 1, '', 'new', 0, 0)", (self.source.name,)
            )
        for change in ("dm_subtask SET", "dm_frontier SET", "dm_copy_chunk SET round = 0,"):
            sql = f"UPDATE {META}.{change} generation = ? WHERE source = ?"
            database.execute(sql, (self.generation, self.source.name))

    def at(self) -> int | None:
        found = self.world.database.frontier(self.source.name)
        return found and found[0]

    def _do(self, body: Callable[[Any], object]) -> None:
        """One transaction of the driver, which an older one may do again."""
        self.world.started(partial(self.world.transaction, body), self, any_time=False)

    def _begin(self) -> Iterator[None]:
        at = self.now
        tables = [held.table for held in self.source.states[at].values()]
        for table in tables:  # before the task begins, and again if it dies in between
            target = replace(table, name=target_of(table.name))
            if target.name not in self.world.database.tables or target.name != MERGED:
                self.world.database.create(target)
        chunks = [one for table in tables for one in self._cut(table, at)]
        fence = self.fence

        def body(connection: Any) -> None:
            begin_subtask(connection, fence, unit=UNIT_LOAD, start=place_of(at))
            connection.execute(
                f"DELETE FROM {META}.dm_frontier WHERE source = %s AND bucket >= %s", (fence.ref.source, BUCKETS)
            )
            connection.execute(
                f"UPDATE {META}.dm_subtask SET buckets = %s WHERE source = %s", (BUCKETS, fence.ref.source)
            )
            save_table_schemas(connection, fence.ref, [TableSchema(one, target_of(one.name)) for one in tables])
            insert_chunks(connection, fence, [replace(one, number=number) for number, one in enumerate(chunks)])

        self._do(body)
        yield

    def _cut(self, table: Table, at: int) -> list[ChunkProgress]:
        """Chunks that are open at both ends, over the first column of the key if that is a number."""
        order = KeyOrder.of(table)
        if order is None or not order.splittable:
            return [ChunkProgress(0, table.name)]
        edges = sorted(self.world.rng.sample(range(1, NUMBERS), self.world.rng.choice([0, 1, 1, 2, 3])))
        limits = list(zip([None, *edges], [*(edge - 1 for edge in edges), None], strict=True))
        if self.world.quirks.min_to_max:
            there = [int(row[order.positions[0]] or b"") for row in self.source.states[at][table.name].values()]
            limits = [
                (max(low or 0, min(there, default=0)), min(99 if high is None else high, max(there, default=0)))
                for low, high in limits
            ]
        return [ChunkProgress(0, table.name, low, high) for low, high in limits]

    def chunks(self) -> list[ChunkProgress]:
        return load_chunks(self.connection(), self.ref)

    # Following the log

    def plan(self) -> SyncPlan:
        schemas = tuple(load_table_schemas(self.connection(), self.ref))
        covered = tuple(sorted(coverages(self.chunks()).items()))
        world = self.world
        mode = {"compact": world.compact, "whole": world.whole, "safe": world.safe}
        return _plan(schemas, covered, several=world.sources > 1, **mode)

    def _follow(self, until: int) -> Iterator[None]:
        """Apply the log up to there."""
        low, edge = map(number_of, extent(read_whole_frontier(self.connection(), self.ref)))
        while low < until or low < edge:
            item = self.source.log[low]
            if isinstance(item, Ddl):
                self._ddl(low, item)
                high = low + 1
            else:
                high = edge if edge > low else self._end(low, until)
                yield from self._epoch(low, high)
            low = edge = high
            if self.world.database.waiting() or self.world.rng.random() < 0.1:
                self.settle()
            yield

    def _end(self, low: int, until: int) -> int:
        ends = [at for at in range(low + 1, until) if isinstance(self.source.log[at], Ddl)]
        return min([until, *ends, low + self.world.rng.choice([1, 2, 5])])

    def _epoch(self, low: int, high: int) -> Iterator[None]:
        for _ in range(30):
            try:
                for work in self._works(low, high):
                    self.world.started(work, self, any_time=True)
                    yield
                return
            except Died:
                if self.world.rng.random() < 0.5:
                    raise
                self.world.done["tasks died"] += 1
        raise AssertionError("an epoch never succeeds")

    def _works(self, low: int, high: int) -> list[Callable[[], object]]:
        plan, step = self.plan(), Step(self.fence, key_of(low), key_of(high))
        writer = WaveWriter(plan, Target(self.world.transaction, self.world.database.access), step)
        if plan.whole:
            writer = replace(writer, batch=self.world.rng.choice([1, 3]))
            units = [Unit(key_of(at + 1), 1, partial(self._changes, plan, at, at + 1)) for at in range(low, high)]
            return [partial(TransactionalWriter(writer).write, units)]
        cuts = [low, self.world.rng.randint(low, high), high] if plan.compact else [low, high]
        pieces = [Compactor(plan).add_all(self._changes(plan, a, b)) for a, b in pairwise(cuts)]
        folded = unpack(plan, [pack(plan, one, 1)[0] for one in pieces]) if plan.compact else pieces[0]
        waves = make_waves(plan, folded)
        works: list[Callable[[], object]] = [
            partial(writer.release, {bucket: work for bucket, work in waves.first.items() if bucket in half})
            for half in HALVES
        ]
        return works + [partial(writer.advance, waves.second, half, waves.later) for half in HALVES]

    def _changes(self, plan: SyncPlan, low: int, high: int) -> Iterator[RowChange]:
        one: Any = Logged(self.source, low, high, self._began())
        return tasks._changes(plan, NOWHERE, one)

    def _began(self) -> int:
        sql = f"SELECT start_location FROM {META}.dm_subtask WHERE source = ?"
        ((start,),) = self.world.database.sqlite.execute(sql, (self.source.name,)).fetchall()
        return int(start.partition('"position": ')[2].partition(",")[0].rstrip("}"))

    def settle(self) -> None:
        """Move rows that wait to places that have become free."""
        around = self.world
        Settler(self.fence, around.transaction, around.database.access, self._mapped).settle()

    def _mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        (found,) = [one.source.states[0][table] for one in self.world.drivers if one.source.name == source]
        return map_table(found.table, self.world.database.tables[target])

    # DDL, as one transaction: that it takes effect once is the business of ddl_world.py

    def _ddl(self, at: int, ddl: Ddl) -> None:
        step, fence, after = Step(self.fence, key_of(at), key_of(at + 1)), self.fence, self.source.states[at + 1]

        def body(connection: Any) -> None:
            self._execute(connection, fence, ddl, after)
            connection.strike()

        whole_transaction(self.world.transaction, step, range(BUCKETS), body)

    def _execute(self, connection: Any, fence: Fence, ddl: Ddl, after: Any) -> None:
        database, ref = self.world.database, fence.ref
        schemas = [TableSchema(held.table, target_of(name)) for name, held in after.items()]
        before, ended = _tables(load_table_schemas(connection, ref)), ddl.names if ddl.kind == "drop and create" else ()
        change = SchemaChange(_tables(schemas), renamed=ddl.renames, ended=ended)
        behind = chunks_behind.chunks_behind(load_chunks(connection, ref), before, change, {MERGED})
        made = ddl.apply(database.state(ddl.names), 0)
        for name in ddl.names:
            if name not in made:
                database.drop(name)
        for held in made.values():
            database.create(held.table, held.values())
        for old, new in ddl.renames:
            rename_chunks(connection, ref, old, new)
        for name in (*ended, *behind.reset):
            forget_chunks(connection, ref, name)
        add_chunks(connection, fence, [one for one in behind.chunks if one.table in behind.reset])
        for target in behind.emptied:
            self.world.done["begun anew"] += 1
            database.create(database.tables[target])
        save_table_schemas(connection, ref, schemas)

    # A round

    def _round(self, number: int) -> Iterator[None]:
        """Gather readers at L, apply the log up to there, let them read, and close."""
        rng, world = self.world.rng, self.world
        if rng.random() < 0.15:
            world.done["lock not granted"] += 1
            yield
            return
        surveyed = self.births(self.now)
        self.time_passes()
        at = self.now
        prepared = [one for one in self.source.open_xa(at) if one < self._began()]
        if prepared and not world.quirks.no_xa_check:
            yield
            return
        yield
        births = self.births(self.now)
        stands = {name: birth for name, birth in surveyed.items() if births.get(name) == birth}
        views = [at] * rng.choice([1, 2, 3])
        if world.quirks.unlocked:
            views = [min(max(0, one + rng.choice([-1, 0, 1])), self.now) for one in views]
        if not (world.quirks.opens_anywhere and rng.random() < 0.5):
            yield from self._follow(at)
        fence = self.fence
        try:
            self._do(lambda tx: open_round(tx, fence, key_of(at), Round(number, stands)))
        except DmError:
            if not world.quirks.opens_anywhere:
                raise
            return
        yield
        readers = [Reader(self, view, number, fence) for view in views]
        for _ in range(rng.choice([1, 2, 4, 40])):
            if world.quirks.moves_in_a_round and rng.random() < 0.3:
                yield from self._follow(self.now)
            if not readers or all(one.done or one.round != number for one in self.chunks()):
                break
            reader = rng.choice(readers)
            try:
                goes_on = reader.read()
            except Died:
                if rng.random() < 0.3:
                    raise
                world.done["readers died"] += 1
                goes_on = False
            if not goes_on:
                readers.remove(reader)
            yield
        self._do(lambda tx: close_round(tx, fence))
        world.done["rounds"] += 1
        yield

    def births(self, at: int) -> dict[TableName, str]:
        return {name: str(held.birth) for name, held in self.source.states[at].items()}
