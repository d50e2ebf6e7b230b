"""The exactly-once protocol survives what can happen, and each of its rules is needed.

The protocol is the engine's own code (downstream/frontier.py, sync/write/apply.py, …) in the world of
frontier_world.py."""

from __future__ import annotations

import ast
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream import contested_row, frontier
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge import settling
from airflow_provider_dm.engine.merge.collision import RowsCollide
from airflow_provider_dm.engine.merge.writer import OwnerWriter
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write import apply, causality, dependence, transactional
from airflow_provider_dm.engine.sync.write.apply import MissingRow
from tests.unit.sync.broken_rules import last_first
from tests.unit.sync.frontier_world import COLLIDING, MERGED_CHANGES, MODES, SHARED, SINGLE, Quirks, World
from tests.unit.sync.sqlite_target import Died

pytestmark = pytest.mark.computes

HISTORIES = 180
"""The histories of each kind; `docker/local chaos model` plays more."""


def play(seed: int, **options: Any) -> World:
    world = World(seed, **options)
    world.run()
    return world


@pytest.mark.parametrize("options", (SINGLE | SHARED).values(), ids=(SINGLE | SHARED).keys())
def test_target_equals_source_whatever_dies_and_whoever_returns(options: dict[str, Any]) -> None:
    deaths = repeats = waited = 0
    for seed in range(HISTORIES):
        world = play(seed, **options)

        assert world.differences() == [], f"seed {seed}"
        deaths, repeats, waited = deaths + world.deaths, repeats + world.repeats, waited + (world.waited > 0)

    assert deaths > HISTORIES  # the world is as dangerous as it claims to be
    assert repeats > HISTORIES
    if options in SHARED.values() and options != SHARED["shards, a past not ours"]:  # there nothing collides
        assert waited > HISTORIES / 3


@pytest.mark.parametrize("options", (SINGLE | SHARED).values(), ids=(SINGLE | SHARED).keys())
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_it_does_so_in_every_mode(mode: dict[str, bool], options: dict[str, Any]) -> None:
    for seed in range(HISTORIES // 40):
        assert play(seed, **options, **mode).differences() == [], f"seed {seed}"


@pytest.mark.parametrize("large", [1 << 20, 2], ids=["small", "larger than memory"])
@pytest.mark.parametrize("compact", [True, False])
def test_whole_transactions_leave_no_state_that_the_source_never_had(
    monkeypatch: pytest.MonkeyPatch, large: int, *, compact: bool
) -> None:
    monkeypatch.setattr(transactional, "LARGE_BYTES", large)
    monkeypatch.setattr(transactional, "PIECE_CHANGES", 2)
    for seed in range(HISTORIES // 36):
        world = World(seed, whole=True, compact=compact)
        seen: list[int] = []
        world.transaction = partial(looked_at, world, world.transaction, seen)  # type: ignore[method-assign]
        world.run()

        assert len(set(seen)) > 5


def looked_at(world: World, real: Callable[..., Any], seen: list[int], body: Callable[[Any], Any], /) -> Any:
    """Run a transaction, and hold what the target has behind it against the source at that place."""
    try:
        return real(body)
    finally:
        seen.append(world.drivers[0].applied())
        assert world.differences(seen[-1]) == [], f"at {seen[-1]}"


def test_every_change_needs_what_depends_on_it_in_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change in the bucket of its own first value, as if there were no groups."""
    monkeypatch.setattr(dependence.Order, "buckets", lambda self, buckets: (one % buckets for one in self._first))

    assert harms(compact=False)


def test_every_change_needs_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    last_first(monkeypatch)

    assert harms(compact=False)


def test_every_change_of_an_epoch_is_known_before_any_has_its_bucket() -> None:
    """Rule 1 holds here too: with other bounds there are other groups, and other buckets."""
    assert harms(compact=False, quirks=Quirks(ignore_edge=True))


@pytest.mark.parametrize("options", COLLIDING.values(), ids=COLLIDING.keys())
def test_a_true_collision_ends_in_the_error(options: dict[str, Any]) -> None:
    for seed in range(HISTORIES // 4):
        with pytest.raises(RowsCollide) as collided:
            play(seed, **options)

        assert "91" in str(collided.value)


def test_late_duplicates_are_refused_or_find_their_work_done() -> None:
    refusals = sum((play(seed).database.refusals for seed in range(20)), start=play(20).database.refusals)

    assert set(refusals) <= {"Fenced", "InvariantBroken"}
    assert refusals["Fenced"] > 0


def harms(prepare: Callable[[World], None] = lambda _: None, *, histories: int = 60, **options: Any) -> bool:
    """Tell whether the broken protocol does harm, or notices itself, in one of so many histories."""
    for seed in range(histories):
        world = World(seed, **options)
        prepare(world)
        try:
            world.run()
        except (DmError, AssertionError, sqlite3.IntegrityError):
            return True
        if world.differences():
            return True
    return False


def test_harness_sees_no_harm_where_nothing_is_broken() -> None:
    assert not harms()


def test_rule_1_the_first_epoch_ends_where_buckets_stand() -> None:
    assert harms(quirks=Quirks(ignore_edge=True))


def test_rule_1_even_if_the_frontier_only_moved_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """`position < hi` instead of `position = lo`: then nothing notices a broken rule 1, and rows suffer."""

    def forward(connection: Any, step: frontier.Step, act: frontier.Act, buckets: Sequence[int]) -> int:
        marks = ",".join(["%s"] * len(buckets))
        column, guard = ("position", "") if act is frontier.Act.ADVANCE else ("released", "AND released < %s")
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
        "_open",
        lambda stand, step, act: stand.position < step.hi and (act is frontier.Act.ADVANCE or stand.released < step.hi),
    )

    assert harms(quirks=Quirks(ignore_edge=True))
    assert not harms()


def test_rule_2_waves_are_separated() -> None:
    assert harms(quirks=Quirks(release_after=True))


def test_rule_2_one_wave_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        causality, "_exact_in_two_waves", lambda changes, _part, sort: causality._exact_in_one_wave(changes, sort)
    )

    assert harms(histories=400)


def test_rule_3_frontier_and_rows_are_one_transaction() -> None:
    def commit_early(world: World) -> None:
        world.database.commits_early = True

    assert harms(commit_early)


def test_rule_4_every_transaction_checks_the_generation() -> None:
    """Tasks of the old driver, without a new generation, meet those of the new one, who has cut the log elsewhere."""
    assert not harms(quirks=Quirks(haunted=0.6))
    assert harms(quirks=Quirks(no_generation_bump=True, haunted=0.6))


def test_rule_5_wave_1_leaves_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave 1 without its frontier statement: late ones delete what wave 2 has written."""
    real = frontier.fenced_transaction

    def unmarked(transactions: Any, step: Any, act: Any, buckets: Sequence[int], body: Any) -> Any:
        if act is frontier.Act.ADVANCE:
            return real(transactions, step, act, buckets, body)
        transactions(lambda connection: body(connection, buckets))
        return tuple(buckets)

    monkeypatch.setattr(apply, "fenced_transaction", unmarked)

    assert harms()


# Merged tables


def harms_merged(histories: int = 60, **options: Any) -> bool:
    return harms(histories=histories, changes=MERGED_CHANGES, **options)


def test_each_source_table_is_folded_by_itself() -> None:
    """Issue 9, item 2: a row that moves to another shard vanishes, or breaks the chain of its changes."""
    assert harms_merged(shards=2, quirks=Quirks(together=True))


def test_rows_that_wait_are_looked_after() -> None:
    assert harms_merged(sources=2, quirks=Quirks(no_looks=True))


def test_whoever_gives_a_place_free_moves_the_row_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own driver may have ended before."""
    real: Any = contested_row.lock_rows

    def own_rows(connection: Any, ref: Any, ids: Any) -> Any:
        return [row for row in real(connection, ref, ids) if row.source == "source_0"]

    monkeypatch.setattr(settling, "lock_rows", own_rows)

    assert harms_merged(sources=2)


def test_a_log_changes_its_rows_also_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnerWriter, "_locked", lambda *_: set())

    assert harms_merged(sources=2)


@pytest.mark.parametrize("options", [{}, {"shards": 2}], ids=["alone", "shards"])
def test_a_past_that_is_not_exact_is_written_over_until_its_location(options: dict[str, Any]) -> None:
    assert harms_merged(past=True, quirks=Quirks(exact_past=True), **options)


def test_shards_of_one_source_keep_their_order_while_rows_are_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncPlan, "contended", frozenset())

    assert harms_merged(shards=2, past=True, histories=200)


def test_of_two_sources_only_rows_that_moved_in_a_past_that_is_not_exact_can_be_missing() -> None:
    """A DELETE that is applied behind the INSERT of the other source removes its row, as in DM. No row is invented; a
    source whose row is missing so stops when its log changes it."""
    ended = missing = 0
    for seed in range(HISTORIES):
        world = World(seed, sources=2, past=True, changes=MERGED_CHANGES)
        try:
            world.run()
        except MissingRow:
            continue
        ended += 1
        for one in world.differences():
            row = one.partition(": ")[2]
            assert row.startswith("-"), f"seed {seed}: {one}"
            missing += 1
            key = ast.literal_eval(row[1:])[0]
            writers = {
                number
                for number, log in enumerate(world.history.logs)
                for source, before, after in log
                if any(image is not None and image[0] == key for image in (before, after))
            }
            assert len(writers) == 2, f"seed {seed}: {one}"
    assert ended > HISTORIES / 2
    assert missing > 0


def test_a_death_is_not_an_error_that_code_can_catch() -> None:
    assert not issubclass(Died, Exception)
