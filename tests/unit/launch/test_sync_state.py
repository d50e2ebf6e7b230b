"""The conditions of sync sensors."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.awaited import Awaited, Broken, Met, NotYet
from airflow_provider_dm.launch.sync_state import (
    Condition,
    LagAtMost,
    NothingHeld,
    Passed,
    condition_json,
    condition_of,
    judge_sync,
)

NOW = datetime.now(UTC)
HERE = Location("bin.000003", 400, suffix=2, server_uuid="u")
ONE = SubtaskStatus("shop", "one", Unit.SYNC, Stage.RUNNING, HERE, HERE, NOW)
RUN = Run("r", "shop", "incremental_sync", Holder("i", "1", "h"), Stage.RUNNING, NOW, NOW, 0.0)


def state_of(subtasks: Sequence[SubtaskStatus], run: Run | None, condition: Condition, waited: float = 9.0) -> Awaited:
    return judge_sync(subtasks, run, condition, waited_seconds=waited)


def passed(file: str, position: int, **more: Any) -> Condition:
    return Passed(json.dumps(Location(file, position, **more).to_json()))


def running(**progress: Any) -> Run:
    return replace(RUN, progress={"one": {"lag_seconds": 2.0, "unresolved_groups": [], **progress}})


GROUP = {"target": "t", "since": 1.0}


@pytest.mark.parametrize(
    ("run", "condition", "met"),
    [
        (running(), LagAtMost(2.0), 2.0),
        (running(), LagAtMost(1.9), None),
        (running(lag_seconds=None), LagAtMost(99.0), None),
        (None, LagAtMost(99.0), None),
        (running(), passed("bin.000003", 400), str(HERE)),
        (running(), passed("bin.000002", 999, server_uuid="u"), str(HERE)),
        (running(), passed("bin.000003", 401), None),
        (running(), passed("other.000001", 4), None),
        # Another server: its positions say nothing.
        (running(), passed("bin.000001", 4, server_uuid="v"), None),
        (running(), NothingHeld(), "nothing"),
        (running(unresolved_groups=[GROUP]), NothingHeld(), None),
        (running(contested_rows=1), NothingHeld(), None),
        # A run that begins: rows that wait for their places need nothing of the log.
        (running(unresolved_groups=None), NothingHeld(), None),
        (replace(RUN, progress={}), NothingHeld(), None),
    ],
)
def test_a_condition_is_met_or_not_yet(run: Run | None, condition: Condition, met: Any) -> None:
    state = state_of([ONE], run, condition)
    if met is None:
        assert isinstance(state, NotYet)
    else:
        assert state == Met({"one": None if met == "nothing" else met})


def test_after_a_switch_of_servers_gtid_sets_decide() -> None:
    a, b = "0f1e0000-0000-0000-0000-00000000000a:1-9", "0f1e0000-0000-0000-0000-00000000000a:1-5"
    goal = passed("bin.000001", 4, server_uuid="v", gtid_set=b)
    assert state_of([replace(ONE, applied=replace(HERE, gtid_set=a))], running(), goal) == Met({"one": str(HERE)})
    goal = passed("bin.000001", 4, server_uuid="v", gtid_set=a)
    assert isinstance(state_of([replace(ONE, applied=replace(HERE, gtid_set=b))], running(), goal), NotYet)


def test_every_source_must_meet_the_condition() -> None:
    state = state_of([ONE, replace(ONE, source="two", unit=Unit.LOAD)], running(), LagAtMost(9.0))
    assert state == NotYet("two: its unit is load")


def test_a_run_that_has_ended_is_named_and_its_lag_grows() -> None:
    ended = replace(running(), stage=Stage.FINISHED, heartbeat_age_seconds=60.0)
    assert state_of([ONE], ended, LagAtMost(9.0)) == NotYet("one: its lag is 1 min 2 s; no run is working")


def test_an_error_for_a_user_ends_the_run_and_a_transient_one_does_not() -> None:
    error = {"ErrCode": "DM-6032", "ErrScope": "downstream", "Message": "no such column."}
    paused = replace(ONE, stage=Stage.PAUSED, error=error)
    assert isinstance(state := state_of([paused], running(), LagAtMost(9.0)), Broken)
    assert "DM-6032" in state.why
    resuming = replace(paused, error=error | {RESUMES_IN_SECONDS: 2.0})
    assert isinstance(state_of([resuming], running(), LagAtMost(9.0)), Met)


def test_an_error_of_an_earlier_run_does_not_end_the_wait() -> None:
    error = {"ErrCode": "DM-6032", "ErrScope": "downstream", "Message": "no such column."}
    paused = replace(ONE, stage=Stage.PAUSED, error=error)
    ended = replace(running(), stage=Stage.PAUSED, heartbeat_age_seconds=60.0)
    assert isinstance(state := state_of([paused], ended, LagAtMost(9.0), waited=59.0), NotYet)
    assert "the next run is awaited, as one is paused by an error: [DM-6032" in state.why
    assert isinstance(state_of([paused], ended, LagAtMost(9.0), waited=61.0), Broken)
    # The app of the next run has begun, and its sync has not reported.
    begins = replace(running(), started_at=NOW + timedelta(seconds=1))
    assert isinstance(state_of([paused], begins, LagAtMost(9.0)), NotYet)


@pytest.mark.parametrize("condition", [LagAtMost(2.5), passed("bin.000001", 4), NothingHeld()])
def test_a_trigger_gets_the_condition_as_json(condition: Condition) -> None:
    assert condition_of(json.loads(json.dumps(condition_json(condition)))) == condition
