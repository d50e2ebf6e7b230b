"""Automatic resumption of a sync: its conditions, its pauses, and requests of a user meanwhile."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER
from airflow_provider_dm.engine.config.source import CheckerConfig
from airflow_provider_dm.engine.downstream.errors import Fenced, TargetBusy, TargetDenied, TargetUnreachable
from airflow_provider_dm.engine.errors import DmError, InvariantBroken, Reaction
from airflow_provider_dm.engine.merge.errors import OtherSourcesNeeded
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.errors import BothLogsFailed, RelaySilent
from airflow_provider_dm.engine.sync.gate import Gate
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.resuming import GIVE_UP_SECONDS, Backoff, is_transient, run_sync_resuming
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from tests.unit.sync.loop_world import FENCE, NOWHERE

PLAIN = CheckerConfig(backoff_jitter=False)
DEAD, WELL = (0.1, False), (10.0, True)
"""Lives of the loop: their seconds, and whether it has worked."""
LOST = TargetUnreachable("target", "gone")


def pauses(backoff: Backoff, lives: list[tuple[float, bool]], *, every: float = 1.0) -> list[float | None]:
    """The pause after each of these lives, of which one ends every so many seconds."""
    found = []
    for number, (seconds, worked) in enumerate(lives):
        backoff = backoff.failed(seconds, worked=worked, now=number * every)
        found.append(backoff.pause_seconds(now=number * every))
        backoff = backoff.longer()
    return found


def test_a_delay_is_doubled_from_a_second_to_five_minutes() -> None:
    assert pauses(Backoff(PLAIN, bounded=False), [DEAD] * 11) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_half_of_a_delay_is_random() -> None:
    found = {Backoff(CheckerConfig(), bounded=False, steps=3).pause_seconds(now=0.0) for _ in range(50)}

    assert len(found) > 1
    assert all(one is not None and 4 <= one <= 8 for one in found)


@pytest.mark.parametrize(
    ("life", "pause"),
    [
        (DEAD, 64),
        ((299, True), 64),
        ((300, True), 32),
        ((900, True), 8),
        ((9e9, True), 1),
        ((900, False), 64),  # it was alive and came to nothing
    ],
)
def test_five_healthy_minutes_reduce_the_backoff_by_one_step(life: tuple[float, bool], pause: float) -> None:
    assert pauses(Backoff(PLAIN, bounded=False, steps=6), [life]) == [pause]


def test_the_sources_checker_decides_the_pauses() -> None:
    checker = CheckerConfig.model_validate(
        {"backoff-min": "2s", "backoff-max": "9s", "backoff-factor": 2, "backoff-jitter": False, "backoff-rollback": 0}
    )

    assert pauses(Backoff(checker, bounded=False), [DEAD] * 4) == [2, 4, 8, 9]
    assert pauses(Backoff(checker, bounded=False, steps=3), [WELL]) == [2]
    assert pauses(Backoff(CheckerConfig(check_enable=False), bounded=False), [WELL]) == [None]


def test_a_bounded_run_gives_up_without_progress() -> None:
    every = GIVE_UP_SECONDS / 4
    steady = CheckerConfig(backoff_jitter=False, backoff_factor=1)

    assert pauses(Backoff(steady, bounded=True), [DEAD] * 6, every=every) == [1, 1, 1, 1, None, None]
    assert pauses(Backoff(steady, bounded=False), [DEAD] * 6, every=every) == [1] * 6
    assert pauses(Backoff(steady, bounded=True), [DEAD] * 3 + [WELL] + [DEAD] * 2, every=every) == [1] * 6


def test_a_delay_that_would_exceed_the_limit_is_not_begun() -> None:
    found = pauses(Backoff(PLAIN, bounded=True), [DEAD] * 10, every=0.0)

    assert found == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert pauses(Backoff(PLAIN, bounded=True, steps=9, failing_since=-1.0), [DEAD]) == [None]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LOST, True),
        (TargetBusy(1205, "LOCK_WAIT_TIMEOUT"), True),
        (RelaySilent("s", "here", "why"), True),
        (BothLogsFailed("s", "here", "l", "u", "w", Reaction.RETRY), True),
        (BothLogsFailed("s", "here", "l", "u", "w", Reaction.STOP), False),
        (InvariantBroken("a", "b"), False),
        (Fenced("t", "s", 1, 2), False),
        (OtherSourcesNeeded("s", 3), False),
    ],
)
def test_only_transient_errors_are_retried(error: DmError, expected: bool) -> None:
    assert is_transient(error) is expected


def test_errors_that_need_a_new_process_are_the_callers_choice() -> None:
    assert not is_transient(LOST, (TargetUnreachable,))


# Requests of a user

NO_RETRIES = CheckerConfig(check_enable=False)
SOURCE = cast(
    SyncSource,
    SimpleNamespace(
        fence=FENCE,
        target=NOWHERE.resolve(),
        job=SimpleNamespace(until=UNTIL_FOREVER),
        spec=SimpleNamespace(config=SimpleNamespace(checker=NO_RETRIES)),
    ),
)


class RecordingStore:
    """A metadata DB that records pauses."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.times, self.then = 0, then

    def put_subtask_paused(self, task: str, source: str) -> None:
        self.times += 1
        self.then()

    def put_subtask_error(self, *_: object, at: object) -> None:
        pass


def result(*, finished: bool) -> SyncResult:
    return SyncResult(Location("bin.000001", 4), finished, 0, 0, 0, 0, 0, 1.5)


def pausing(gate: Gate, script: list[SyncResult | Exception], then: Callable[[], object]) -> tuple[SyncResult, int]:
    """Return its result, and how often it has reported a pause."""
    store = RecordingStore(then)

    def run() -> SyncResult:
        if isinstance(outcome := script.pop(0), Exception):
            raise outcome
        return outcome

    return run_sync_resuming(SOURCE, cast(MetaStore, cast(Any, store)), gate, SyncProgress(), run), store.times


def gate(stage: Stage) -> Gate:
    made = Gate(threading.Event())
    made.request(stage)
    return made


def test_a_gate_opens_and_closes_until_the_run_ends() -> None:
    ending = threading.Event()
    one = Gate(ending)
    seen = []
    for stage in (Stage.RUNNING, Stage.PAUSED, Stage.RUNNING, Stage.STOPPED, Stage.RUNNING):
        one.request(stage)
        seen.append((one.closed.is_set(), one.is_paused))
    assert seen == [(False, False), (True, True), (False, False), (True, False), (False, False)]

    ending.set()
    one.end()
    one.request(Stage.RUNNING)
    assert one.closed.is_set()
    one.request(Stage.PAUSED)
    assert not one.is_paused


@pytest.mark.parametrize("first", [result(finished=False), LOST], ids=["between two epochs", "while it fails anyway"])
def test_a_paused_sync_waits_and_continues(first: SyncResult | DmError) -> None:
    paused = gate(Stage.PAUSED)

    ended, times = pausing(paused, [first, result(finished=True)], lambda: paused.request(Stage.RUNNING))

    assert (ended.finished, times) == (True, 1)


def test_a_stop_during_a_pause_ends_the_run() -> None:
    paused = gate(Stage.PAUSED)

    assert pausing(paused, [result(finished=False)], lambda: paused.request(Stage.STOPPED))[0].finished is False


def test_a_run_at_its_goal_does_not_pause() -> None:
    assert pausing(gate(Stage.PAUSED), [result(finished=True)], lambda: None)[1] == 0


@pytest.mark.parametrize(
    ("stage", "error"), [(Stage.PAUSED, InvariantBroken("a", "b")), (Stage.RUNNING, LOST), (Stage.STOPPED, LOST)]
)
def test_an_error_that_needs_a_user_is_raised(stage: Stage, error: DmError) -> None:
    with pytest.raises(type(error)):
        pausing(gate(stage), [error], lambda: None)


def test_a_query_that_is_denied_needs_a_user() -> None:
    denied = pymysql.err.OperationalError(1142, "SELECT command denied to user 'dm'@'%' for table 'dm_online_ddl'")
    with pytest.raises(TargetDenied, match="the target or a source denies access: SELECT command denied"):
        pausing(gate(Stage.RUNNING), [denied], lambda: None)


def test_a_source_that_is_resumed_while_it_ends_continues() -> None:
    """The work has seen the gate closed, and when it is asked why, it is open again."""
    paused = gate(Stage.PAUSED)
    script, runs = [result(finished=False), result(finished=True)], 0

    def run() -> SyncResult:
        nonlocal runs
        runs += 1
        paused.request(Stage.RUNNING)
        return script.pop(0)

    ended = run_sync_resuming(SOURCE, cast(MetaStore, cast(Any, None)), paused, SyncProgress(), run)

    assert (ended.finished, runs) == (True, 2)
