"""How a wish reaches the work, and what a sync makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.downstream.errors import TargetUnreachable
from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.gate import Gate
from airflow_provider_dm.engine.sync.pausing import run_sync_pausing
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.result import SyncResult
from airflow_provider_dm.engine.sync.source import SyncSource
from tests.unit.sync.loop_world import FENCE, NOWHERE

LOST = TargetUnreachable("target", "gone")


class Said:
    """A metadata DB, as far as a pause is told."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.times, self.then = 0, then

    def put_subtask_paused(self, task: str, source: str) -> None:
        self.times += 1
        self.then()


def result(*, finished: bool) -> SyncResult:
    return SyncResult(Location("bin.000001", 4), finished, 0, 0, 0, 0, 0, 1.5)


def pausing(gate: Gate, script: list[SyncResult | DmError], then: Callable[[], object]) -> tuple[SyncResult, int]:
    """Its result, and how often it has said that it pauses."""
    said = Said(then)

    def run() -> SyncResult:
        if isinstance(outcome := script.pop(0), DmError):
            raise outcome
        return outcome

    source = cast(SyncSource, SimpleNamespace(fence=FENCE, target=NOWHERE.resolve()))
    return run_sync_pausing(source, cast(MetaStore, cast(Any, said)), gate, SyncProgress(), run), said.times


def gate(wish: Stage) -> Gate:
    made = Gate(threading.Event())
    made.want(wish)
    return made


def test_a_gate_opens_and_closes_until_the_end_of_all() -> None:
    ending = threading.Event()
    one = Gate(ending)
    seen = []
    for wish in (Stage.RUNNING, Stage.PAUSED, Stage.RUNNING, Stage.STOPPED, Stage.RUNNING):
        one.want(wish)
        seen.append((one.closed.is_set(), one.is_paused))
    assert seen == [(False, False), (True, True), (False, False), (True, False), (False, False)]

    ending.set()
    one.end()
    one.want(Stage.RUNNING)
    assert one.closed.is_set()
    one.want(Stage.PAUSED)
    assert not one.is_paused


@pytest.mark.parametrize("first", [result(finished=False), LOST], ids=["between two epochs", "while it fails anyway"])
def test_it_waits_and_goes_on(first: SyncResult | DmError) -> None:
    paused = gate(Stage.PAUSED)

    ended, times = pausing(paused, [first, result(finished=True)], lambda: paused.want(Stage.RUNNING))

    assert (ended.finished, times) == (True, 1)
    assert ended.seconds == (3.0 if isinstance(first, SyncResult) else 1.5)


def test_what_ends_while_it_is_paused_ends_there() -> None:
    paused = gate(Stage.PAUSED)

    assert pausing(paused, [result(finished=False)], lambda: paused.want(Stage.STOPPED))[0].finished is False


def test_one_that_has_come_to_its_goal_does_not_pause() -> None:
    assert pausing(gate(Stage.PAUSED), [result(finished=True)], lambda: None)[1] == 0


@pytest.mark.parametrize(
    ("wish", "error"), [(Stage.PAUSED, InvariantBroken("a", "b")), (Stage.RUNNING, LOST), (Stage.STOPPED, LOST)]
)
def test_an_error_that_a_person_has_to_see_is_one(wish: Stage, error: DmError) -> None:
    with pytest.raises(type(error)):
        pausing(gate(wish), [error], lambda: None)


def test_one_that_is_resumed_while_it_leaves_goes_on() -> None:
    """The work has seen the gate closed, and when it is asked why, it is open again."""
    paused = gate(Stage.PAUSED)
    script, runs = [result(finished=False), result(finished=True)], 0

    def run() -> SyncResult:
        nonlocal runs
        runs += 1
        paused.want(Stage.RUNNING)
        return script.pop(0)

    source = cast(SyncSource, SimpleNamespace(fence=FENCE, target=NOWHERE.resolve()))
    ended = run_sync_pausing(source, cast(MetaStore, cast(Any, None)), paused, SyncProgress(), run)

    assert (ended.finished, runs) == (True, 2)
