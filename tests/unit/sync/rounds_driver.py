"""One source's driver, its epochs and its readers, in the world of rounds_world.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, RouteRule
from airflow_provider_dm.engine.downstream.copy_progress import (
    ChunkProgress,
    add_chunks,
    forget_chunks,
    insert_chunks,
    load_chunks,
    rename_chunks,
)
from airflow_provider_dm.engine.downstream.frontier import EpochRange, extent, read_whole_frontier, whole_transaction
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import FRONTIER
from airflow_provider_dm.engine.downstream.rounds import Round, close_round, open_round
from airflow_provider_dm.engine.downstream.shard_groups import applied_form, held_tables, refs_of_resyncs
from airflow_provider_dm.engine.downstream.subtask import UNIT_LOAD, begin_subtask, complete_load
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_table_schemas, save_table_schemas
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.settling import Settler
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import has_passed
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.text_folds import ALPHANUMERIC, TextFold
from airflow_provider_dm.engine.shard.group import Group, after_resync
from airflow_provider_dm.engine.sync.coverage import Coverage, coverages
from airflow_provider_dm.engine.sync.ddl import chunks_after
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets, make_plan
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, TransactionGroup
from tests.unit.sync.rounds_reader import Reader
from tests.unit.sync.rounds_shards import meet, resync
from tests.unit.sync.rounds_sources import MERGED, NUMBERS, TEXT, Ddl, Logged, Place, Source, target_of
from tests.unit.sync.rounds_waves import waves_of
from tests.unit.sync.sqlite_target import META, Died

if TYPE_CHECKING:
    from tests.unit.sync.rounds_world import World

T = TypeVar("T")

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


@lru_cache(8192)
def plan_for(
    schemas: tuple[TableSchema, ...],
    covered: tuple[tuple[TableName, Coverage], ...],
    several: bool,
    held: frozenset[TableName],
    merged: Table | None,
    compact: bool,
    whole: bool,
    safe: bool,
) -> SyncPlan:
    targets = {one.target: merged or replace(one.table, name=one.target) for one in schemas if one.target == MERGED}
    targets |= {one.target: replace(one.table, name=one.target) for one in schemas if one.target != MERGED}
    plan = make_plan(
        schemas,
        targets,
        rules=RULES,
        buckets=BUCKETS,
        shared=SharedTargets({MERGED} if several else ()),
        held=held,
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
    read: int = 0
    """What was read of the first server's log."""
    until: int = 0
    """Up to there the target may have rows of the log already."""
    buckets: ClassVar[int] = BUCKETS
    shards: Shards = field(init=False)

    @property
    def end(self) -> Place:
        return Place(int(self.source.pulled is not None), self.now)

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
        if self.world.fails_over and self.source.pulled is None and self.world.rng.random() < 0.02:
            self._fail_over()

    def _fail_over(self) -> None:
        """Another server takes over; a part of its log is pulled for the first time."""
        at = self.at()
        self.source.pulled = self.world.rng.randint(max(self.read, at or 0), self.now)
        self.source.first = self.world.rng.randint(0, self.source.pulled)
        self.world.done["failovers"] += 1

    # A life

    def life(self) -> Iterator[None]:
        """Continue from this source's state in the target to the end. One step is about one transaction."""
        self._claim()
        if self.at() is None:
            for _ in range(self.world.rng.choice([0, 0, 0, 0, 60]) if self.world.ddls else 0):
                yield
            yield from self._begin()
        one: Any = SimpleNamespace(fence=self.fence, target=self, rules=RULES)
        self.shards = Shards.load(one, self.world.locks, self.plan())  # type: ignore[arg-type]
        number = 0
        while True:
            yield from self._follow(self.end)
            if any(not chunk.done for chunk in self.chunks()):
                number += 1
                yield from self._round(number)
                continue
            self.do(lambda tx: complete_load(tx, self.fence))
            if self.at() == len(self.source.log) and not self.shards.unresolved:
                return
            yield

    def _claim(self) -> None:
        """Claim as downstream/claim.py does, but for its connections."""
        if self.generation and self.world.quirks.keeps_generation:
            return
        self.generation += 1
        database = self.world.database.sqlite
        if self.generation == 1:
            columns = "task, source, generation, claim, unit, buckets, hash_version"
            sql = f"INSERT INTO {META}.dm_subtask ({columns}) VALUES ('task', ?, 1, '', 'new', 0, 0)"
            database.execute(sql, (self.source.name,))
        for change in ("dm_subtask SET", "dm_copy_chunk SET round = 0,"):
            sql = f"UPDATE {META}.{change} generation = ? WHERE source = ?"
            database.execute(sql, (self.generation, self.source.name))
        for lane in (self.ref, *refs_of_resyncs(self.connection(), self.ref)):
            FRONTIER.update(self.connection(), lane, "generation = %s", (self.generation,))

    def at(self) -> int | None:
        found = self.world.database.frontier(self.source.name)
        return found and self.source.state_of(self.source.place_of(found[0]))

    def is_in_past(self) -> bool:
        at = self.at()
        return self.world.past and (at is None or at < self.until)

    def do(self, body: Callable[[Any], T]) -> T:
        """One transaction of the driver, which an older one may do again."""
        return self.world.started(partial(self.world.transaction, body), self, any_time=False)

    def step(self, low: Place, high: Place) -> EpochRange:
        self.read = max(self.read, 0 if high.server else high.number)
        return EpochRange(self.fence, self.source.location(low).sort_key, self.source.location(high).sort_key)

    def _begin(self) -> Iterator[None]:
        agreed = [number for number, item in enumerate(self.source.log) if isinstance(item, Ddl) and item.is_agreed]
        at = min([self.now, *agreed])  # where all shards are alike
        filled = at
        if self.world.past:
            ddl = [number + 1 for number, item in enumerate(self.source.log) if isinstance(item, Ddl)]
            low = self.world.rng.choice([0, *ddl])
            end = min([len(self.source.log), *(number - 1 for number in ddl if number > low)])
            at, filled, self.until = sorted(self.world.rng.randint(low, end) for _ in range(3))
            self.now = max(self.now, self.until)
        tables = [held.table for held in self.source.states[at].values()]
        if self.world.past:  # a life that died here may have begun before a RENAME
            for name in [*self.world.database.tables]:
                self.world.database.drop(name)
        for table in tables:  # before the task begins, and again if it dies in between
            target = replace(table, name=target_of(table.name))
            if target.name not in self.world.database.tables or target.name != MERGED:
                there = self.source.states[filled if table.identity else at][table.name]  # keyless rows are exact
                self.world.database.create(target, there.values() if self.world.past else ())
        chunks = [] if self.world.past else [one for table in tables for one in self._cut(table, at)]
        fence = self.fence

        def body(connection: Any) -> None:
            pulled = self.source.pulled
            place = Place(int(pulled is not None and at > pulled), at)
            begin_subtask(connection, fence, unit=UNIT_LOAD, start=self.source.location(place))
            connection.execute(
                f"DELETE FROM {META}.dm_frontier WHERE source = %s AND bucket >= %s", (fence.ref.source, BUCKETS)
            )
            connection.execute(
                f"UPDATE {META}.dm_subtask SET buckets = %s WHERE source = %s", (BUCKETS, fence.ref.source)
            )
            save_table_schemas(connection, fence.ref, [TableSchema(one, target_of(one.name)) for one in tables])
            insert_chunks(connection, fence, [replace(one, number=number) for number, one in enumerate(chunks)])

        self.do(body)
        yield

    def _cut(self, table: Table, at: int) -> list[ChunkProgress]:
        """Chunks that are open at both ends, over the first column of the key if that is a number."""
        order = KeyOrder.of(table)
        if order is None or not order.splittable:
            return [ChunkProgress(0, table.name)]
        edges = sorted(self.world.rng.sample(NUMBERS[1:], self.world.rng.choice([0, 1, 1, 2, 3])))
        limits = list(zip([None, *edges], [*(edge - 1 for edge in edges), None], strict=True))
        if self.world.quirks.min_to_max:
            there = [int(row[order.positions[0]] or b"") for row in self.source.states[at][table.name].values()]
            limits = [
                (max(low or 0, min(there, default=0)), min(high or NUMBERS.stop, max(there, default=0)))
                for low, high in limits
            ]
        return [ChunkProgress(0, table.name, low, high) for low, high in limits]

    def chunks(self) -> list[ChunkProgress]:
        return load_chunks(self.connection(), self.ref)

    # Following the log

    def plan(self, without: Group | None = None) -> SyncPlan:
        """`without`: the group whose held rows are applied."""
        schemas = tuple(load_table_schemas(self.connection(), self.ref))
        if not self.world.ddls:
            return self.plan_of(schemas, frozenset())
        held = held_tables(self.connection(), self.ref)
        return self.plan_of(schemas, held if without is None else self.shards.held_after([after_resync(without)]))

    def plan_of(
        self, schemas: tuple[TableSchema, ...], held: frozenset[TableName], *, several: bool = False
    ) -> SyncPlan:
        """`several`: other tables feed the merged table as well."""
        covered = tuple(sorted(coverages(self.chunks()).items()))
        world, merged = self.world, self.world.database.tables.get(MERGED)
        safe = world.safe or (self.is_in_past() and not world.quirks.exact_past)
        mode = {"compact": world.compact, "whole": world.whole, "safe": safe}
        return plan_for(schemas, covered, several=several or world.sources > 1, held=held, merged=merged, **mode)

    def extent(self) -> tuple[Place, Place]:
        low, edge = extent(read_whole_frontier(self.connection(), self.ref))
        return self.source.place_of(low), self.source.place_of(edge)

    def _follow(self, goal: Place) -> Iterator[None]:
        """Apply the log up to there, or up to where another server's log has all of that."""
        source = self.source
        low, edge = self.extent()
        while True:
            if low == edge and self.shards.unresolved:
                yield from self._look(low)
            if low == edge and has_passed(source.location(low), source.location(goal)):
                return
            ddl = source.ddl_at(low)
            if ddl is not None and low == edge:
                high = low.behind
                if ddl.is_agreed:
                    meet(self, low, ddl)
                else:
                    self._ddl(low, ddl)
            else:
                high = edge if edge != low and not self.world.quirks.crosses_early else self.end_of_epoch(low, goal)
                yield from self.epoch(self.step(low, high), self.plan(), low, high)
            low = edge = high
            self._settle_maybe()
            yield

    def _look(self, here: Place) -> Iterator[None]:
        """Look after DDL that shards make together, and apply what was held back."""
        if self.world.rng.random() < 0.02:
            self.world.locks.rows.clear()
        while (group := self.shards.check(self.source.location(here), BUCKETS, now=True)) is not None:
            yield
            yield from resync(self, group)
        self._settle_maybe()

    def _settle_maybe(self) -> None:
        """Rows that wait for long are met by DDL."""
        often = 0.05 if self.world.ddls else 1.0
        if self.world.rng.random() < (often if self.world.database.waiting() else 0.1):
            self.settle()

    def end_of_epoch(self, low: Place, goal: Place) -> Place:
        source = self.source
        last = len(source.log) if goal.server < low.server else goal.number
        if source.pulled is not None and not low.server:
            if low.number == source.pulled:
                return Place(1, source.first)
            last = min(source.pulled, len(source.log) if goal.server else goal.number)
        elif low.number < source.state_of(low):
            last = source.state_of(low)
        ends = [at for at in range(low.number + 1, last) if source.ddl_at(low._replace(number=at))]
        ends += [self.until] * (low.number < self.until)
        return Place(low.server, min([last, *ends, low.number + self.world.rng.choice([1, 2, 5])]))

    def epoch(self, step: EpochRange, plan: SyncPlan, low: Place, high: Place) -> Iterator[None]:
        for _ in range(30):
            try:
                for work in self._works(step, plan, low, high):
                    self.world.started(work, self, any_time=True)
                    yield
                return
            except Died:
                if self.world.rng.random() < 0.5:
                    raise
                self.world.done["tasks died"] += 1
        raise AssertionError("an epoch never succeeds")

    def _works(self, step: EpochRange, plan: SyncPlan, low: Place, high: Place) -> list[Callable[[], object]]:
        writer = WaveWriter(plan, Target(self.world.transaction, self.world.database.access), step)
        crosses = high.server != low.server
        if plan.whole:
            writer = replace(writer, batch=self.world.rng.choice([1, 3]))
            groups = [
                TransactionGroup(self.step(at, at.behind).hi, 1, partial(self._changes, plan, at, at.number + 1))
                for at in ([] if crosses else [low._replace(number=at) for at in range(low.number, high.number)])
            ] or [TransactionGroup(step.hi, 1, lambda: iter(()))]
            return [partial(TransactionalWriter(writer).write, groups)]
        last = low.number if crosses else high.number
        cuts = [low.number, self.world.rng.randint(low.number, last), last] if plan.compact else [low.number, last]
        pieces = [Compactor(plan).add_all(self._changes(plan, low._replace(number=a), b)) for a, b in pairwise(cuts)]
        waves = waves_of(plan, pieces, 1 + self.generation % 2) if plan.compact else make_waves(plan, pieces[0])
        works: list[Callable[[], object]] = [
            partial(writer.release, {bucket: work for bucket, work in waves.first.items() if bucket in half})
            for half in HALVES
        ]
        final = [partial(writer.advance, waves.second, half, waves.later) for half in HALVES]
        return [final[0], *works, final[1]] if self.world.quirks.releases_late else [*works, *final]

    def _changes(self, plan: SyncPlan, low: Place, high: int) -> Iterator[RowChange]:
        one: Any = Logged(self.source, low, high, self._began(), self.source.location(low).gtid_set)
        return tasks._changes(plan, NOWHERE, one)

    def _began(self) -> int:
        sql = f"SELECT start_location FROM {META}.dm_subtask WHERE source = ?"
        ((start,),) = self.world.database.sqlite.execute(sql, (self.source.name,)).fetchall()
        return int(start.partition('"position": ')[2].partition(",")[0].rstrip("}"))

    def settle(self) -> None:
        """Move rows that wait to places that have become free."""
        around = self.world
        own_only = bool(around.ddls)
        Settler(self.fence, around.transaction, around.database.access, self._mapped, own_only).settle()

    def _mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        connection, ref = self.connection(), self.ref.of_source(source)
        found = applied_form(connection, ref, table)
        if found is None:
            (found,) = [one.table for one in load_table_schemas(connection, ref) if one.table.name == table]
        return map_table(found, self.world.database.tables[target])

    # DDL, as one transaction: that it takes effect once is the business of ddl_world.py

    def _ddl(self, at: Place, ddl: Ddl) -> None:
        step, fence, after = self.step(at, at.behind), self.fence, self.source.states[at.number + 1]

        def body(connection: Any) -> None:
            self._execute(connection, fence, ddl, after)
            connection.strike()

        whole_transaction(self.world.transaction, step, range(BUCKETS), body)

    def _execute(self, connection: Any, fence: Fence, ddl: Ddl, after: Any) -> None:
        database, ref = self.world.database, fence.ref
        schemas = [TableSchema(held.table, target_of(name)) for name, held in after.items()]
        before, ended = _tables(load_table_schemas(connection, ref)), ddl.names if ddl.kind == "drop and create" else ()
        change = SchemaChange(_tables(schemas), renamed=ddl.renames, ended=ended)
        behind = chunks_after.chunks_after(load_chunks(connection, ref), before, change, {MERGED})
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
        at = self.end
        prepared = [one for one in self.source.open_xa(self.now) if one < self._began()]
        if prepared and not world.quirks.no_xa_check:
            yield
            return
        yield
        births = self.births(self.now)
        unchanged = {name: birth for name, birth in surveyed.items() if births.get(name) == birth}
        views = [at.number] * rng.choice([1, 2, 3])
        if world.quirks.unlocked:
            views = [min(max(0, one + rng.choice([-1, 0, 1])), self.now) for one in views]
        if not (world.quirks.opens_anywhere and rng.random() < 0.5):
            yield from self._follow(at)
            if not world.quirks.reads_held and world.ddls:
                held = held_tables(self.connection(), self.ref)
                unchanged = {name: birth for name, birth in unchanged.items() if name not in held}
            if world.quirks.opens_elsewhere:
                at = self.extent()[0]
            if not unchanged or self.extent() != (at, at):
                world.done["no round"] += 1
                yield
                return
        fence, key = self.fence, self.source.location(at).sort_key
        try:
            self.do(lambda tx: open_round(tx, fence, key, Round(number, unchanged)))
        except DmError:
            if not world.quirks.opens_anywhere:
                raise
            return
        yield
        readers = [Reader(self, view, number, fence) for view in views]
        for _ in range(rng.choice([1, 2, 4, 40])):
            if world.quirks.moves_in_a_round and rng.random() < 0.3:
                yield from self._follow(self.end)
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
        self.do(lambda tx: close_round(tx, fence))
        world.done["rounds"] += 1
        yield

    def births(self, at: int) -> dict[TableName, str]:
        server = 0 if self.world.quirks.any_server else self.end.server
        return {name: f"{held.birth} {server}" for name, held in self.source.states[at].items()}
