"""The exactly-once protocol survives what can happen, and each of its rules is needed.

The protocol is the engine's own code (target/frontier.py, sync/apply.py, …) in the world of frontier_world.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.sync import apply, causality
from airflow_provider_dm.engine.target import frontier
from tests.unit.sync.frontier_world import Died, Quirks, World

HISTORIES = 150


def play(seed: int, **options: Any) -> World:
    world = World(seed, **options)
    world.run()
    return world


@pytest.mark.parametrize("catch_up", [False, True], ids=["exact", "after a load"])
def test_target_equals_source_whatever_dies_and_whoever_returns(catch_up: bool) -> None:
    deaths = repeats = 0
    for seed in range(HISTORIES):
        world = play(seed, catch_up=catch_up)

        assert world.differences() == [], f"seed {seed}"
        deaths += world.deaths
        repeats += world.repeats

    assert deaths > HISTORIES  # the world is as dangerous as it claims to be
    assert repeats > HISTORIES


def test_late_duplicates_are_refused_or_find_their_work_done() -> None:
    refusals = sum((play(seed).database.refusals for seed in range(20)), start=play(20).database.refusals)

    assert set(refusals) <= {"Fenced", "InvariantBroken"}
    assert refusals["Fenced"] > 0


def damage(prepare: Callable[[World], None] = lambda _: None, *, histories: int = 60, **options: Any) -> int:
    """In how many histories the broken protocol does harm or notices itself."""
    harmed = 0
    for seed in range(histories):
        world = World(seed, **options)
        prepare(world)
        try:
            world.run()
        except (DmError, AssertionError):
            harmed += 1
        else:
            harmed += bool(world.differences())
    return harmed


def test_harness_sees_no_harm_where_nothing_is_broken() -> None:
    assert damage() == 0


def test_rule_1_the_first_epoch_ends_where_buckets_stand() -> None:
    assert damage(quirks=Quirks(ignore_edge=True)) > 0


def test_rule_1_even_if_the_frontier_only_moved_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """`position < hi` instead of `position = lo`: then nothing notices a broken rule 1, and rows suffer."""

    def forward(connection: Any, step: frontier.Step, act: frontier.Act, buckets: Sequence[int]) -> int:
        marks = ",".join(["%s"] * len(buckets))
        column, guard = ("position", "") if act is frontier.Act.ADVANCE else ("released", "AND released < %s")
        return int(
            connection.execute(
                f"UPDATE dm_meta.dm_frontier SET {column} = %s WHERE bucket IN ({marks}) AND generation = %s "
                f"AND position < %s {guard}",
                (step.hi, *buckets, step.generation, step.hi, *([step.hi] if guard else [])),
            )
        )

    monkeypatch.setattr(frontier, "move", forward)
    monkeypatch.setattr(
        frontier,
        "_open",
        lambda stand, step, act: stand.position < step.hi and (act is frontier.Act.ADVANCE or stand.released < step.hi),
    )

    assert damage(quirks=Quirks(ignore_edge=True)) > damage()


def test_rule_2_waves_are_separated() -> None:
    assert damage(quirks=Quirks(release_after=True)) > 0


def test_rule_2_one_wave_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        causality, "_exact_in_two_waves", lambda changes, _part, sort: causality._exact_in_one_wave(changes, sort)
    )

    assert damage() > 0


def test_rule_3_frontier_and_rows_are_one_transaction() -> None:
    def commit_early(world: World) -> None:
        world.database.commits_early = True

    assert damage(commit_early) > 0


def test_rule_4_every_transaction_checks_the_generation() -> None:
    """Without a new one the old driver's tasks meet those of the new driver, who has cut the log elsewhere."""
    assert damage(quirks=Quirks(haunted=0.6)) == 0
    assert damage(quirks=Quirks(no_generation_bump=True, haunted=0.6)) > 0


def test_rule_5_wave_1_leaves_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave 1 without its frontier statement: late ones delete what wave 2 has written."""
    real = frontier.fenced_transaction

    def unmarked(transactions: Any, step: Any, act: Any, buckets: Sequence[int], body: Any) -> Any:
        if act is frontier.Act.ADVANCE:
            return real(transactions, step, act, buckets, body)
        transactions(lambda connection: body(connection, buckets))
        return tuple(buckets)

    monkeypatch.setattr(apply, "fenced_transaction", unmarked)

    assert damage() > 0


@pytest.mark.parametrize("verb", ["insert", "change"])
def test_catch_up_needs_replace(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_replace(changes: Any, part: Any, sort: Any) -> None:
        for key, (before, after) in changes:
            row = part.row_of(key, before, after)
            work = sort.second(row)
            getattr(work, verb if after is not None else "delete").append(row)

    monkeypatch.setattr(causality, "_catch_up", not_replace)

    assert damage(catch_up=True, histories=400) > 0


def test_catch_up_deletes_what_was_born_and_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = causality._catch_up
    monkeypatch.setattr(
        causality,
        "_catch_up",
        lambda changes, part, sort: real([one for one in changes if one[1] != (None, None)], part, sort),
    )

    assert damage(catch_up=True) > 0


def test_without_catch_up_a_load_does_not_converge() -> None:
    def no_catch_up(world: World) -> None:
        world.catch_up_until = 0

    assert damage(no_catch_up, catch_up=True) > 0


def test_a_death_is_not_an_error_that_code_can_catch() -> None:
    assert not issubclass(Died, Exception)
