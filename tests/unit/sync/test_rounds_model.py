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
        except (DmError, AssertionError, sqlite3.Error, ValueError):
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


def test_a_page_needs_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MetaRows.update

    def update(
        self: MetaRows, connection: Any, ref: Any, changes: str, new: Any, where: str = "", values: Any = ()
    ) -> int:
        if self is CHUNKS and "AND round = %s" in where:
            where, values = where.replace(" AND round = %s", ""), (*values[:2], values[3])
        return real(self, connection, ref, changes, new, where, values)

    monkeypatch.setattr(MetaRows, "update", update)

    assert harms()


def test_before_is_filtered_as_well_as_after(monkeypatch: pytest.MonkeyPatch) -> None:
    real = CoverageFilter._covered

    def covered(self: CoverageFilter, change: RowChange, answers: Any) -> RowChange:
        found = real(self, change, answers)
        return RowChange(change.table, change.before, found.after)

    monkeypatch.setattr(CoverageFilter, "_covered", covered)

    assert harms()


def test_the_last_key_of_a_page_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    real = KeyComparison.compare
    monkeypatch.setattr(KeyComparison, "compare", lambda self, *keys: real(self, *keys) or 1)

    assert harms()


def test_texts_have_the_order_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_code_points(_source: object, sql: bytes) -> list[tuple[bytes]]:
        pairs = re.findall(rb"x'([0-9a-f]*)' COLLATE \w+(>=|<=)_utf8mb4 x'([0-9a-f]*)'", sql)
        return [(b"".join(b"%d" % (left >= right if sign == b">=" else left <= right) for left, sign, right in pairs),)]

    monkeypatch.setattr(key_comparison, "read", by_code_points)

    assert harms(first=330)


def test_a_page_of_a_merged_table_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Replacing(OwnerWriter):
        def insert_new(self, connection: Any, waiting: Collection[bytes], new: OwnerRows) -> int:
            for statement in write_rows(self.mapping, new.literals, Verb.REPLACE, dialect=self.access.dialect):
                self.access.execute(connection, statement)
            return 0

    monkeypatch.setattr(rounds_reader, "OwnerWriter", Replacing)

    assert harms(**KINDS["two sources"])


def test_the_model_finds_that_a_changed_key_needs_a_new_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not harms(30)
    monkeypatch.setattr(chunks_after, "copied_by", lambda _table: None)

    assert harms()


def test_rows_of_a_restarted_table_are_removed_from_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    real = chunks_after.chunks_after
    monkeypatch.setattr(chunks_after, "chunks_after", lambda *given: replace(real(*given), emptied=()))

    assert harms()


def test_the_model_finds_that_uncovered_rows_must_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact plan would miss the row that an UPDATE finds nowhere; this one writes it."""
    real = vars(SyncPlan)["parts"].func
    monkeypatch.setattr(SyncPlan, "parts", property(lambda plan: {} if plan.safe else real(plan)))

    assert not harms(30)
    assert harms(**KINDS["one source, safe mode"])


def test_a_round_is_opened_where_its_snapshots_are() -> None:
    """Births name their server, which is enough where it is asked for them."""
    one, both = Quirks(opens_elsewhere=True), Quirks(opens_elsewhere=True, any_server=True)

    assert not harms(30, quirks=one, **KINDS["one source, failover"])
    assert harms(quirks=both, first=260, **KINDS["one source, failover"])


def test_the_model_finds_that_repeated_transactions_must_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remaining, "of", lambda *_sets: None)

    assert harms(**KINDS["one source, failover"])


BROKEN: Final[dict[str, tuple[Any, str, Any]]] = {
    "the target's DDL waits for shards of the source": (turn, "due_item", lambda group, _tables: _first(group)),
    "and for rows that wait": (ShardLocks, "_waiting", lambda *_asked, **_of: ""),
    "and for sources that have not begun": (World, "late", lambda _world: []),
    "rows of a held shard are passed over": (rounds_driver, "held_tables", lambda *_asked: frozenset()),
    "they are applied for the keys that are covered": (rounds_driver, "coverages", lambda _chunks: {}),
    "they are applied once": (rounds_shards, "extent", lambda rows: (min(row.position for row in rows),) * 2),
}


@pytest.mark.parametrize(("owner", "name", "broken"), BROKEN.values(), ids=BROKEN)
def test_each_rule_of_shard_ddl_is_needed(owner: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)

    assert harms(first=64 if name == "_waiting" else 0, **KINDS[LONG])


def _first(group: Group) -> ShardDdl | None:
    return next((one.items[0] for one in group.members if one.items), None)


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


def test_the_model_finds_that_one_wave_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        causality,
        "_exact_in_two_waves",
        lambda changes, sort, _is_disputed, _is_anew: causality._exact_in_one_wave(changes, sort),
    )

    assert harms()


def test_values_are_disputed_by_the_rows_of_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_waves, "make_waves", lambda plan, folded, _disputed=None: make_waves(plan, folded))

    assert harms()


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


def test_frontier_and_rows_are_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "commits_early", True)

    assert harms()


def test_every_transaction_checks_the_generation() -> None:
    """Tasks of the old driver, without a new generation, meet those of the new one, who has cut the log elsewhere."""
    assert not harms(30, quirks=Quirks(haunted=0.6))
    assert harms(quirks=Quirks(keeps_generation=True, haunted=0.6), first=122)


def test_the_model_finds_that_wave_1_needs_a_frontier_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave 1 without its frontier statement: late ones delete what wave 2 has written."""
    real = frontier.fenced_transaction

    def unmarked(transactions: Any, step: Any, act: Any, buckets: Sequence[int], body: Any) -> Any:
        if act is frontier.FrontierMove.ADVANCE:
            return real(transactions, step, act, buckets, body)
        transactions(lambda connection: body(connection, buckets))
        return tuple(buckets)

    monkeypatch.setattr(apply, "fenced_transaction", unmarked)

    assert harms()


def test_a_change_needs_what_depends_on_it_in_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change in the bucket of its own first value, as if there were no groups."""
    monkeypatch.setattr(dependence.ChangeOrder, "buckets", lambda self, buckets: (one % buckets for one in self._first))

    assert harms(compact=False)


def test_changes_that_depend_on_each_other_need_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    real = dependence.ChangeOrder.of

    def last_first(
        marks: ValueMarks, changes: Sequence[dependence.LoggedChange], *, alone: bool
    ) -> dependence.ChangeOrder:
        order = real(marks, changes, alone=alone)
        order.levels = [max(order.levels) - level for level in order.levels]
        return order

    monkeypatch.setattr(dependence.ChangeOrder, "of", last_first)

    assert harms(compact=False)


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


def test_the_driver_that_frees_a_key_moves_the_waiting_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own driver may have ended before."""
    real: Any = contested_row.lock_rows

    def own_rows(connection: Any, ref: Any, ids: Any) -> Any:
        return [row for row in real(connection, ref, ids) if row.source == "source_0"]

    monkeypatch.setattr(settling, "lock_rows", own_rows)

    assert harms(**KINDS["two sources"])


def test_a_log_changes_its_rows_also_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnerWriter, "_locked", lambda *_: set())

    assert harms(**KINDS["two sources"])


def test_the_harness_finds_no_fault_in_sound_code() -> None:
    assert not harms(30)
