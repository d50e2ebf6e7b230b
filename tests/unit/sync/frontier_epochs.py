"""A driver's log in the world of frontier_world.py, cut into epochs and applied, as sync/loop.py does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, RouteRule
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.frontier import Step, extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.subtask import note_location, read_subtask
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_feeders, load_table_schemas
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_SYNCING
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask import SubtaskRules
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import make_plan
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.blobs import pack, unpack
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, Unit
from airflow_provider_dm.engine.sync.write.writing import spreads
from tests.unit.sync.frontier_surroundings import key_of, place_of
from tests.unit.sync.histories import TARGETS, Logged
from tests.unit.sync.sqlite_target import META, Died

if TYPE_CHECKING:
    from tests.unit.sync.frontier_driver import Driver


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
HALVES: Final = ([0, 1], [2, 3])
"""Two tasks, each with its own buckets."""


class Epochs:
    """The loop of sync/loop.py, as far as it is about what is applied."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.world = driver, driver.world
        self.fence = driver.fence
        connection = self.world.database.connection()
        subtask = read_subtask(connection, driver.ref)
        assert subtask is not None
        self.until = subtask.overwrite_until.position if subtask.overwrite_until is not None else 0
        self.plan = make_the_plan(
            tuple(sorted(load_table_schemas(connection, driver.ref), key=self._number_of)),
            elsewhere=frozenset(
                {one.target for one in load_feeders(connection, driver.ref) if one.source != driver.name}
            ),
            together=self.world.quirks.together,
            compact=self.world.compact,
            whole=self.world.whole,
        )
        contests = driver.contests(MOST_WHILE_SYNCING)
        self.sharing = Sharing(
            contests,
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
        stands = read_whole_frontier(self.world.database.connection(), self.driver.ref)
        low, edge = (int(key.rsplit(".", 1)[1]) for key in extent(stands))
        yield from self._look(low)
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
                    before, self.plan = self.plan, self.sharing.noticed(self.plan)
                    if self.plan is before:
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
            self.sharing.finish(self.plan, self._wait)

    def _look(self, low: int) -> Iterator[None]:
        self.world.transaction(lambda tx: note_location(tx, self.fence, place_of(low)))
        if not self.world.quirks.no_looks:
            self.plan = self.sharing.look(self.plan)
        yield

    def _wait(self, seconds: float) -> bool:
        self.world.time += seconds
        return False

    def _next_end(self, low: int, edge: int) -> int:
        if edge > low and not self.world.quirks.ignore_edge:
            return edge
        high = min(len(self.driver.log), low + self.world.rng.choice([1, 3, 8, 20]))
        return min(high, self.until) if low < self.until else high

    def _works(self, low: int, high: int) -> list[Callable[[], int | None]]:
        step = Step(self.fence, key_of(low), key_of(high))
        safe = low < self.until and not self.world.quirks.exact_past
        plan = self.plan = replace(self.plan, safe=safe)
        writer = WaveWriter(plan, Target(self.world.transaction, self.world.database.access), step)
        if plan.whole:
            return [partial(self._whole, writer, low, high)]
        waves = self._waves(writer, low, high)
        works: list[Callable[[], int | None]] = []
        for half in HALVES:
            first = {bucket: work for bucket, work in waves.first.items() if bucket in half}
            works.append(partial(writer.release, first))
        works += [partial(writer.advance, waves.second, half, waves.later) for half in HALVES]
        if self.world.quirks.release_after:
            works = [works[2], works[0], works[1], works[3]]
        return works

    def _whole(self, writer: WaveWriter, low: int, high: int) -> int:
        """One task, by the source's transactions; how the log is cut into them is the same each time."""
        writer = replace(writer, batch=self.world.rng.choice([1, 4, 9]))
        ends = [end for end in range(low + 1, high) if self.world.history.ends_transaction(end)] + [high]
        units = [
            Unit(key_of(end), end - begin, partial(self._changes, begin, end)) for begin, end in pairwise([low, *ends])
        ]
        return TransactionalWriter(writer).write(units).contested

    def _waves(self, writer: WaveWriter, low: int, high: int) -> Waves:
        """Folded in two pieces, as two ranges would be; the pieces are put together as blobs are."""
        plan = writer.plan
        if spreads(plan):
            cut = self.world.rng.randint(low, high)
            ranges = ((low, cut), (cut, high))
            pieces = [pack(plan, Compactor(plan).add_all(self._changes(a, b)), 1)[0] for a, b in ranges]
            folded = unpack(plan, pieces)
        else:  # one task, without blobs
            folded = Compactor(plan).add_all(self._changes(low, high))
        return make_waves(plan, folded)

    def _changes(self, low: int, high: int) -> Iterator[Logged]:
        yield from self.driver.log[low:high]


@lru_cache(4096)  # a plan is immutable, and worlds of one kind have few of them
def make_the_plan(
    schemas: tuple[TableSchema, ...],
    *,
    elsewhere: frozenset[TableName] = frozenset(),
    together: bool = False,
    compact: bool = True,
    whole: bool = False,
) -> SyncPlan:
    plan = make_plan(
        schemas,
        {one.name: one for one in TARGETS},
        rules=SubtaskRules(RULES, ROUTER),
        buckets=BUCKETS,
        merged=None if together else elsewhere,
    )
    return replace(plan, compact=compact, whole=whole)
