"""Merged tables with `safe-mode: true`: what is written, and counted, is what one change after the other would do."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contest
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.row_key import row_key
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begin_subtask
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge import contests as contests_module
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, target_part
from airflow_provider_dm.engine.sync.safe_mode.last_wins import check_same_safe_mode, overwrite_by_waiting
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.concurrency import spreads
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, TransactionGroup
from tests.unit.sync.loop_world import BUCKETS, FENCE, LO, RULES, Around
from tests.unit.sync.sqlite_target import META, Database, Died, Moment
from tests.unit.sync.target_tables import TARGETS, Logged

UNIQUE = TARGETS[1]
HALVES = (range(BUCKETS // 2), range(BUCKETS // 2, BUCKETS))


def plan_of(shards: int = 2, like: Table = UNIQUE, target: Table = UNIQUE) -> SyncPlan:
    """Return the plan of a source with so many shards, where others feed the same table."""
    tables = [replace(like, name=TableName(f"shop_{number}", "o")) for number in range(shards)]
    return SyncPlan(
        tuple(SourcePart(one, 0, None) for one in tables),
        (target_part(map_table(tables[0], target)),),
        BUCKETS,
        RULES,
        merged=frozenset({0}),
        safe=True,
    )


def log_of(rng: random.Random, shards: int, changes: int) -> list[Logged]:
    """Return changes of shards that each keep their own unique keys, and know nothing of each other's."""
    rows: list[dict[int, tuple[int, int]]] = [{} for _ in range(shards)]
    log: list[Logged] = []
    while len(log) < changes:
        shard, key = rng.randrange(shards), rng.randrange(4)
        mine = rows[shard]
        before = image(key, *mine.pop(key)) if key in mine else None
        after = None
        if before is None or rng.random() < 0.6:
            key = key if rng.random() < 0.7 else rng.choice([one for one in range(4) if one not in mine])
            mine[key] = rng.choice([one for one in range(5) if one not in [u for u, _ in mine.values()]]), len(log)
            after = image(key, *mine[key])
        log.append((shard, before, after))
    return log


def image(*values: int) -> Row:
    return tuple([b"%d" % value for value in values])


@dataclass
class Serial:
    """A target to which changes are applied one by one, as DM's safe mode does."""

    rows: set[Row] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def apply(self, change: Logged) -> None:
        shard, before, after = change
        if before is not None:
            there = {row for row in self.rows if row[0] == before[0]}
            self.rows -= there
            self.counts[f"missing {shard}"] += not there
        if after is not None:
            there = {row for row in self.rows if row[0] == after[0] or row[1] == after[1]}
            self.rows -= there
            self.rows.add(after)
            self.counts[f"present {shard}"] += len(there)


class World:
    """Two sources of one table in the model of a target, each at a place of its own log."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.database = Database(lambda: 0.0)
        self.fences = [FENCE, replace(FENCE, ref=FENCE.ref.of_source("two"))]
        for fence in self.fences:
            self.database.sqlite.execute(
                f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES ('task', '{fence.ref.source}', 1)"
            )
            begin_subtask(self.database.connection(), fence, unit=UNIT_SYNC, start=LO)
        self.places = [0, 0]
        self.counts: Counter[str] = Counter()

    def apply(self, plan: SyncPlan, source: int, changes: Sequence[Logged]) -> None:
        """Apply an epoch repeatedly, until no process dies."""
        low = self.places[source]
        self.places[source] = high = low + len(changes)
        lo, hi = (LO.at(LO.position + place).sort_key for place in (low, high))
        step = EpochRange(self.fences[source], lo, hi)
        while True:
            writer = WaveWriter(plan, Target(self._transaction, self.database.access), step)
            try:
                self._write(writer, changes)
                return
            except Died:
                continue
            finally:
                self._count(writer.collisions)

    def _write(self, writer: WaveWriter, changes: Sequence[Logged]) -> None:
        plan = writer.plan
        if plan.whole:
            unit = TransactionGroup(writer.step.hi, len(changes), partial(iter, changes))
            self._count(TransactionalWriter(writer).write([unit]).collisions)
            return
        waves = make_waves(plan, Compactor(plan).add_all(changes))
        writer.release(waves.first)
        for half in HALVES:
            writer.advance(waves.second, half, waves.later)

    def _count(self, collisions: Sequence[Collision]) -> None:
        for one in collisions:
            shard = one.by.removeprefix("shop_").removesuffix(".o")
            self.counts += Counter({f"missing {shard}": one.missing, f"present {shard}": one.present})

    def _transaction(self, body: Any, /) -> Any:
        moment = self.rng.choice([None, None, Moment.BEFORE, Moment.BETWEEN, Moment.BEFORE_COMMIT])
        return self.database.transaction(body, moment, self.rng.randint(1, 9))

    def rows(self) -> set[Row]:
        return set(self.database.rows(UNIQUE))


@pytest.mark.parametrize(
    ("compact", "whole"), [(True, False), (False, False), (True, True)], ids=["folded", "each", "whole"]
)
def test_the_target_is_what_one_change_after_the_other_makes_of_it(*, compact: bool, whole: bool) -> None:
    plan = replace(plan_of(), compact=compact, whole=whole)
    assert not spreads(plan)
    for seed in range(12):
        rng, serial = random.Random(seed), Serial()
        world, logs = World(rng), [log_of(rng, 2, 30) for _ in range(2)]
        while any(logs):
            source = rng.choice([number for number, log in enumerate(logs) if log])
            some = rng.randint(1, 12)
            epoch, logs[source] = logs[source][:some], logs[source][some:]
            world.apply(plan, source, epoch)
            for change in epoch:
                serial.apply(change)
            assert world.rows() == serial.rows, seed
        # Of changes that share no value, but meet one row of another table, any may be the first: it is counted once.
        assert world.counts.total() <= serial.counts.total(), seed
        assert any(world.counts.values()) == any(serial.counts.values()), seed


def test_an_update_does_not_change_the_row_of_another_table() -> None:
    """An upsert would make (9, 2) its row by the unique value, and count as if it had met its own."""
    for shards in (1, 2):
        world = World(random.Random(1))
        world.database.sqlite.execute("INSERT INTO shop.'unique' VALUES (9, 2, 0)")
        world.apply(plan_of(shards), 0, [(0, image(1, 2, 1), image(1, 2, 2))])
        assert (world.rows(), world.counts) == ({image(1, 2, 2)}, {"missing 0": 1, "present 0": 1})


def test_a_source_that_is_alone_in_the_target_folds_its_changes() -> None:
    plan = plan_of(1)
    assert (plan.overwritable, plan.contended, spreads(plan)) == (frozenset({0}), frozenset(), True)
    assert plan.fingerprint() == replace(plan, safe=False).fingerprint()
    world = World(random.Random(1))
    world.database.sqlite.execute("INSERT INTO shop.'unique' VALUES (1, 1, 0), (3, 3, 0)")

    world.apply(plan, 0, [(0, None, image(1, 2, 1)), (0, image(1, 2, 1), image(1, 3, 2)), (0, image(2, 2, 0), None)])
    assert world.rows() == {image(1, 3, 2)}
    assert world.counts == {"missing 0": 1, "present 0": 2}


def test_a_half_applied_epoch_of_the_other_mode_is_recognized_by_its_plan() -> None:
    safe = plan_of()
    owned = replace(safe, safe=False)
    assert safe.fingerprint() != owned.fingerprint()
    before, filtered = plan_of(1), replace(plan_of(1), merged=frozenset(), in_order=frozenset({0}))
    assert before.fingerprint() != filtered.fingerprint()
    for one, other in ((safe, owned), (owned, safe), (before, filtered)):
        assert one.fingerprint() in {mode.fingerprint() for mode in other.in_all_modes()}


def test_rows_that_may_be_equal_in_the_target_are_not_overwritten() -> None:
    narrower = replace(UNIQUE, unique_keys=(*UNIQUE.unique_keys, Index("v", ("v",), prefixes=(None,))))
    plan = plan_of(target=narrower)
    assert (plan.overwritable, plan.contended, plan.not_overwritable) == (
        frozenset(),
        frozenset(),
        frozenset({UNIQUE.name}),
    )
    assert plan.policies == replace(plan_of(), safe=False).policies == (WritePolicy.WAIT,) * 2
    assert plan_of().policies == (WritePolicy.OVERWRITE,) * 2


def test_text_that_may_be_one_key_keeps_its_order() -> None:
    """Nothing here knows the collation: any two values may be one key of the target."""
    text = Column("k", 0, "varchar", "varchar(9)", nullable=False, charset="utf8mb4", collation="unknown_ci")
    table = Table(TableName("shop", "unique"), (text,), (Index("PRIMARY", ("k",), prefixes=(None,)),))
    plan = plan_of(like=table, target=table)
    log: list[Logged] = [(0, None, (b"a",)), (1, None, (b"A",)), (0, None, (b"b",))]
    waves = make_waves(plan, Compactor(plan).add_all(log))

    written = [
        [row for tables in wave.values() for work in tables.values() for row in work.insert]
        for wave in (waves.second, *waves.later)
    ]
    assert written == [[(b"a",)], [(b"A",)], [(b"b",)]]


def waiting(database: Database, fence: Any, table: str, *rows: Row) -> None:
    owner = RowOwner(fence.ref, TableName(table, "o"))
    contest(database.connection(), owner, UNIQUE.name, ((row_key([row[0] or b""]), row) for row in rows))


class Known(Around):
    """The target of the model, and what its tables are like."""

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        return map_table(replace(UNIQUE, name=table), UNIQUE)


def test_rows_that_wait_are_put_into_their_places_the_last_one_last() -> None:
    """Those of this source: others may be in the middle of an epoch of theirs."""
    world = World(random.Random(1))
    world.database.sqlite.execute("INSERT INTO shop.'unique' VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
    around = Known(world.database)
    waiting(world.database, world.fences[0], "shop_0", image(1, 2, 10), image(5, 5, 10))
    waiting(world.database, world.fences[1], "shop_0", image(3, 4, 30))
    waiting(world.database, world.fences[0], "shop_1", image(6, 5, 20))

    assert overwrite_by_waiting(FENCE, around, replace(plan_of(), safe=False)) == []
    assert world.database.contested() == 4
    found = overwrite_by_waiting(FENCE, around, plan_of())

    assert found == [Collision("shop.unique", 0, 2, "shop_0.o"), Collision("shop.unique", 0, 1, "shop_1.o")]
    assert world.rows() == {image(1, 2, 10), image(3, 3, 0), image(6, 5, 20)}
    assert world.database.contested() == 1
    assert overwrite_by_waiting(FENCE, around, plan_of()) == []


def test_rows_whose_places_are_known_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(random.Random(1))
    waiting(world.database, world.fences[0], "shop_0", image(1, 2, 10))
    world.database.sqlite.execute("INSERT INTO shop.'unique' VALUES (1, 1, 0)")
    around = Known(world.database)
    asked = Contests(FENCE, around, 10)

    monkeypatch.setattr(contests_module, "verdict_on", lambda *_: pytest.fail("asked"))
    with pytest.raises(pytest.fail.Exception, match="asked"):
        asked.check(lambda _mapping: False, now=True)
    assert asked.check(lambda _mapping: True, now=True) == 1


@pytest.mark.parametrize(("ours", "theirs", "is_refused"), [(True, True, False), (True, False, True)])
def test_different_safe_modes_in_one_table_are_refused(*, ours: bool, theirs: bool, is_refused: bool) -> None:
    feeders = [Feeder(name, TableName("shop", "o"), UNIQUE.name) for name in ("one", "two", "gone")]
    safe = {"one": ours, "two": theirs}
    check_same_safe_mode([TableName("shop", "other")], safe, "one", feeders)
    if not is_refused:
        check_same_safe_mode([UNIQUE.name], safe, "one", feeders)
        return
    for mine in safe:
        with pytest.raises(NotSupportedYet, match="some of the sources") as refused:
            check_same_safe_mode([UNIQUE.name], safe, mine, feeders)
        assert "one has it, two does not" in str(refused.value)
