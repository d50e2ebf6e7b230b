"""A load in rounds holds its law after every commit, and each of its rules is needed.

The engine's own code in the world of rounds_world.py."""

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pymysql
import pytest

from airflow_provider_dm.engine.binlog.applied import Remaining
from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.downstream import contested_row, frontier, rounds, shard_groups
from airflow_provider_dm.engine.downstream.copy_progress import CHUNKS
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.downstream.row_statements import Verb, write_rows
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge import settling
from airflow_provider_dm.engine.merge.owner_writer import OwnerRows, OwnerWriter
from airflow_provider_dm.engine.reading import key_comparison
from airflow_provider_dm.engine.reading.key_comparison import KeyComparison
from airflow_provider_dm.engine.shard import turn
from airflow_provider_dm.engine.shard.group import Group, ShardDdl
from airflow_provider_dm.engine.sync.coverage import CoverageFilter
from airflow_provider_dm.engine.sync.ddl import chunks_after
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets
from airflow_provider_dm.engine.sync.shard_ddl.shard_locks import ShardLocks
from airflow_provider_dm.engine.sync.write import apply, causality, dependence, transactional
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.compactor import FoldedChanges
from airflow_provider_dm.engine.sync.write.disputed import Disputed
from airflow_provider_dm.engine.sync.write.marks import ValueMarks
from tests.unit.sync import rounds_driver, rounds_reader, rounds_shards, rounds_waves
from tests.unit.sync.rounds_world import KINDS, MODES, LawBroken, Quirks, World, engine_in_the_world
from tests.unit.sync.sqlite_target import Database

pytestmark = pytest.mark.computes


class _EveryValue(frozenset[int]):
    def __contains__(self, _value: object) -> bool:
        return True


EVERY_VALUE: Final = _EveryValue([0])

HISTORIES = 2_000
"""Of all kinds and modes together; `docker/local chaos rounds-model` plays more."""
LONG = "two sources, DDL, failover"
"""Its histories take three times as long as others: kinds with shard DDL have a third of them."""
EACH = 3 * HISTORIES // ((3 * len(KINDS) - 4) * len(MODES)) + 1


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    with engine_in_the_world():
        yield


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS.keys())
def test_the_target_is_exact_after_every_commit(options: dict[str, Any], mode: dict[str, Any]) -> None:
    done: Counter[str] = Counter()
    each = EACH // 3 if "ddls" in options else EACH
    for seed in range(each):
        world = World(seed, **options, **mode)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        done += world.done

    assert done["repeated"] > 3 * each  # the world is as dangerous as it claims to be
    for accident in ("drivers died", "Fenced"):
        assert done[accident] > each / 40, accident
    if options.get("past"):  # everything is there
        return
    assert done["rounds"] > each
    if options.get("ddls"):
        assert done["shard DDL"] > each
        assert done["re-syncs"] > each
    if options.get("fails_over"):
        assert done["failovers"] > each / 3
        assert done["no round"] > each / 20
    if "shards" not in options:  # these have fewer tables of their own
        assert done["begun anew"] > each / 100
    for accident in ("readers died", "readers lost their table", "lock not granted"):
        assert done[accident] > each / 40, accident
    if options.get("sources", 1) > 1:
        assert done["commits with rows that wait"] > each / 2


def harms(histories: int = 400, *, first: int = 0, **options: Any) -> bool:
    """Return True if the broken protocol breaks the law, or notices itself, in one of so many histories.

    `first`: the history to begin with, as those before it do not show it.
    """
    for seed in range(first, first + histories):
        try:
            World(seed, **options).run()
        except (DmError, AssertionError, sqlite3.Error, pymysql.Error, ValueError):
            return True
    return False


# The driver and its rounds


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("moves_in_a_round", {}),
        ("closes_at_once", {}),
        ("no_birth_check", {}),
        ("unlocked", {}),
        ("min_to_max", {}),
        ("no_xa_check", {"xa": True}),
        ("takes_over", {}),
        ("reads_held", KINDS["shards, DDL"]),
        ("crosses_early", KINDS["one source, failover"]),
        ("crosses_early", {}),
        ("crosses_early", {"compact": False}),
        ("releases_late", {}),
        ("exact_past", KINDS["one source, a past not ours"]),
    ],
)
def test_each_rule_of_the_driver_is_needed(rule: str, options: dict[str, Any]) -> None:
    assert harms(quirks=Quirks(**{rule: True}), **options)


def test_a_round_is_opened_where_all_buckets_are_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not harms(30, quirks=Quirks(opens_anywhere=True))

    def opened(connection: Any, fence: Fence, at: str, this: rounds.Round) -> None:
        with patch.object(rounds, "extent", lambda _stands: (at, at)):
            rounds.open_round(connection, fence, at, this)

    monkeypatch.setattr(rounds_driver, "open_round", opened)

    assert harms(quirks=Quirks(opens_anywhere=True))


def test_a_round_is_opened_where_its_snapshots_are() -> None:
    """Births name their server, which is enough where it is asked for them."""
    one, both = Quirks(opens_elsewhere=True), Quirks(opens_elsewhere=True, any_server=True)

    assert not harms(30, quirks=one, **KINDS["one source, failover"])
    assert harms(quirks=both, first=260, **KINDS["one source, failover"])


# Rules of the engine, each broken by a patch


def _without_its_round(real: Any) -> Any:
    def update(
        self: MetaRows, connection: Any, ref: Any, changes: str, new: Any, where: str = "", values: Any = ()
    ) -> int:
        if self is CHUNKS and "AND round = %s" in where:
            where, values = where.replace(" AND round = %s", ""), (*values[:2], values[3])
        return int(real(self, connection, ref, changes, new, where, values))

    return update


def _filtered_after_only(real: Any) -> Any:
    def covered(self: CoverageFilter, change: RowChange, answers: Any) -> RowChange:
        return RowChange(change.table, change.before, real(self, change, answers).after)

    return covered


def _by_code_points(_source: object, sql: bytes) -> list[tuple[bytes]]:
    pairs = re.findall(rb"x'([0-9a-f]*)' COLLATE \w+(>=|<=)_utf8mb4 x'([0-9a-f]*)'", sql)
    return [(b"".join(b"%d" % (left >= right if sign == b">=" else left <= right) for left, sign, right in pairs),)]


class _Replacing(OwnerWriter):
    def insert_new(self, connection: Any, waiting: Collection[bytes], new: OwnerRows) -> int:
        for statement in write_rows(self.mapping, new.literals, Verb.REPLACE, dialect=self.access.dialect):
            self.access.execute(connection, statement)
        return 0


def _wave_1_unmarked(real: Any) -> Any:
    """Late ones delete what wave 2 has written."""

    def unmarked(transactions: Any, step: Any, act: Any, buckets: Sequence[int], body: Any) -> Any:
        if act is frontier.FrontierMove.ADVANCE:
            return real(transactions, step, act, buckets, body)
        transactions(lambda connection: body(connection, buckets))
        return tuple(buckets)

    return unmarked


def _last_first(real: Any) -> Any:
    def last_first(
        marks: ValueMarks, changes: Sequence[dependence.LoggedChange], *, alone: bool
    ) -> dependence.ChangeOrder:
        order: dependence.ChangeOrder = real(marks, changes, alone=alone)
        order.levels = [max(order.levels) - level for level in order.levels]
        return order

    return last_first


def _own_rows(real: Any) -> Any:
    """The row's own driver may have ended before."""
    return lambda *given: [row for row in real(*given) if row.source == "source_0"]


def _first(group: Group) -> ShardDdl | None:
    return next((one.items[0] for one in group.members if one.items), None)


FAILOVER, TWO = KINDS["one source, failover"], KINDS["two sources"]
PARTS: Final = vars(SyncPlan)["parts"].func


def _no_part_if_safe(plan: SyncPlan) -> Any:
    return {} if plan.safe else PARTS(plan)


EACH_CHANGE: Final = {"compact": False}
BROKEN: Final[dict[str, tuple[Any, str, Any, dict[str, Any]]]] = {
    "a page needs its round": (MetaRows, "update", _without_its_round(MetaRows.update), {}),
    "before is filtered as well as after": (
        *(CoverageFilter, "_covered", _filtered_after_only(CoverageFilter._covered)),
        {},
    ),
    "the last key of a page is covered": (
        *(KeyComparison, "compare", lambda *keys, real=KeyComparison.compare: real(*keys) or 1),
        {},
    ),
    "texts have the order of the source": (key_comparison, "read", _by_code_points, {"first": 330}),
    "a page of a merged table replaces nothing": (rounds_reader, "OwnerWriter", _Replacing, TWO),
    "a changed key needs a new copy": (chunks_after, "copied_by", lambda _table: None, {}),
    "rows of a restarted table are removed from the target": (
        *(chunks_after, "chunks_after"),
        lambda *given, real=chunks_after.chunks_after: replace(real(*given), emptied=()),
        {},
    ),
    # An exact plan would miss the row that an UPDATE finds nowhere; this one writes it.
    "uncovered rows are not written": (
        *(SyncPlan, "parts"),
        property(_no_part_if_safe),
        KINDS["one source, safe mode"],
    ),
    "repeated transactions are skipped": (Remaining, "of", lambda *_sets: None, FAILOVER),
    "unique values need two waves": (
        *(causality, "_exact_in_two_waves"),
        lambda changes, sort, *_is: causality._exact_in_one_wave(changes, sort),
        {},
    ),
    "values are disputed by the rows of all tasks": (
        *(rounds_waves, "make_waves", lambda plan, folded, _disputed=None: make_waves(plan, folded)),
        {},
    ),
    "frontier and rows are one transaction": (Database, "commits_early", True, {}),
    "wave 1 has a frontier statement": (
        *(apply, "fenced_transaction", _wave_1_unmarked(frontier.fenced_transaction)),
        {},
    ),
    # Each change is in the bucket of its own first value, as if there were no groups.
    "a change is in one bucket with what depends on it": (
        *(dependence.ChangeOrder, "buckets", lambda self, buckets: (one % buckets for one in self._first)),
        EACH_CHANGE,
    ),
    "changes that depend on each other keep their order": (
        *(dependence.ChangeOrder, "of", _last_first(dependence.ChangeOrder.of)),
        EACH_CHANGE,
    ),
    "the driver that frees a key moves the waiting row": (
        *(settling, "lock_rows", _own_rows(contested_row.lock_rows)),
        TWO,
    ),
    "a log changes its rows also while they wait": (OwnerWriter, "_locked", lambda *_: set(), TWO),
    "the target's DDL waits for shards of the source": (
        *(turn, "due_item", lambda group, _tables: _first(group)),
        KINDS[LONG],
    ),
    "and for rows that wait": (ShardLocks, "_waiting", lambda *_asked, **_of: "", {"first": 64, **KINDS[LONG]}),
    "and for sources that have not begun": (World, "late", lambda _world: [], KINDS[LONG]),
    "rows of a held shard are passed over": (rounds_driver, "held_tables", lambda *_asked: frozenset(), KINDS[LONG]),
    "they are applied for the keys that are covered": (rounds_driver, "coverages", lambda _chunks: {}, KINDS[LONG]),
    "they are applied once": (
        *(rounds_shards, "extent", lambda rows: (min(row.position for row in rows),) * 2),
        KINDS[LONG],
    ),
}


@pytest.mark.parametrize(("owner", "name", "broken", "options"), BROKEN.values(), ids=BROKEN)
def test_each_rule_is_needed(
    owner: Any, name: str, broken: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)

    assert harms(**options)


# The frontier


def test_each_resync_has_its_own_frontier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of an earlier one may find its beginning again, and then move a frontier on without this one's rows."""
    World(91003003995, **KINDS["shards, DDL"], **MODES["every change of whole transactions"]).run()
    monkeypatch.setattr(shard_groups, "_resync_lane", lambda ref, *_of: f"re-sync {ref.source}")

    with pytest.raises(LawBroken, match="too much"):
        World(91003003995, **KINDS["shards, DDL"], **MODES["every change of whole transactions"]).run()


def test_an_epoch_ends_where_it_did_even_if_the_frontier_only_moved_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """`position < hi` instead of `position = lo`: then nothing notices another end, and rows suffer."""

    def forward(connection: Any, step: frontier.EpochRange, act: frontier.FrontierMove, buckets: Sequence[int]) -> int:
        marks = ",".join(["%s"] * len(buckets))
        column, guard = ("position", "") if act is frontier.FrontierMove.ADVANCE else ("released", "AND released < %s")
        return int(
            connection.execute(
                f"UPDATE dm_meta.dm_frontier SET {column} = %s WHERE bucket IN ({marks}) AND generation = %s "
                f"AND position < %s {guard}",
                (step.hi, *buckets, step.fence.generation, step.hi, *([step.hi] if guard else [])),
            )
        )

    monkeypatch.setattr(frontier, "move", forward)
    monkeypatch.setattr(
        frontier,
        "_is_open",
        lambda state, step, act: (
            state.position < step.hi and (act is frontier.FrontierMove.ADVANCE or state.released < step.hi)
        ),
    )

    assert harms(quirks=Quirks(crosses_early=True), first=243)
    assert not harms(30)


def test_every_attempt_has_the_same_disputed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave 1 of the first attempt deletes more rows than the next attempt writes again."""
    chance = Random(1)

    def others(plan: SyncPlan, folded: FoldedChanges, disputed: Disputed | None = None) -> Waves:
        return make_waves(plan, folded, chance.choice([EVERY_VALUE, disputed]))

    monkeypatch.setattr(rounds_waves, "make_waves", others)

    assert harms()


class SafeAtTimes(World):
    """Safe mode is set or removed at any time, even while an epoch is half applied."""

    asked = 0

    @property
    def safe(self) -> bool:
        self.asked += 1
        return Random(f"0{self.seed}-{self.asked}").random() < 0.5

    @safe.setter
    def safe(self, _value: bool) -> None:
        pass


@pytest.mark.parametrize("first", [210, 540, 835])
def test_safe_mode_may_change_while_an_epoch_is_half_applied(first: int) -> None:
    """Wave 1 is the same: in these histories rows were missing when it was not."""
    for seed in range(first, first + 10):
        SafeAtTimes(seed).run()


def test_every_transaction_checks_the_generation() -> None:
    """Tasks of the old driver, without a new generation, meet those of the new one, who has cut the log elsewhere."""
    assert not harms(30, quirks=Quirks(haunted=0.6))
    assert harms(quirks=Quirks(keeps_generation=True, haunted=0.6), first=122)


@pytest.mark.parametrize("compact", [True, False])
def test_transactions_larger_than_memory_leave_no_state_that_the_source_never_had(
    monkeypatch: pytest.MonkeyPatch, *, compact: bool
) -> None:
    monkeypatch.setattr(transactional, "LARGE_BYTES", 2)
    monkeypatch.setattr(transactional, "PIECE_CHANGES", 2)

    assert not harms(30, whole=True, compact=compact)


# Merged tables


def test_each_shard_is_folded_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that moves to another shard vanishes, or breaks the chain of its changes."""
    rounds_driver.plan_for.cache_clear()
    monkeypatch.setattr(rounds_driver, "SharedTargets", partial(SharedTargets, owned=False))
    try:
        assert harms(**KINDS["shards"])
    finally:
        rounds_driver.plan_for.cache_clear()


def test_the_harness_finds_no_fault_in_sound_code() -> None:
    assert not harms(30)
