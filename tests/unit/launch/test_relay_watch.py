"""What a relay's row says about its process: only a heartbeat tells life, only its last word tells how it ended."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.launch.relay_watch import (
    GONE_SECONDS,
    Alive,
    Failed,
    Finished,
    Gone,
    Life,
    Stopped,
    deaths_after,
    is_alive,
    seen,
)

ERROR = {"ErrCode": "DM-4003", "Message": "no space", "Reaction": "stop"}
RUNS = RelayStatus(
    "one", Stage.RUNNING, relay=Location("mysql-bin.000003", 500), pid=7, host="here", heartbeat_age_seconds=1.0
)
ENDED = replace(RUNS, pid=None, heartbeat_age_seconds=3600.0)
SILENT = replace(RUNS, heartbeat_age_seconds=GONE_SECONDS + 1)


@pytest.mark.parametrize("stage", [Stage.NEW, Stage.RUNNING, Stage.PAUSED])
@pytest.mark.parametrize("error", [None, ERROR])
@pytest.mark.parametrize("desired", [None, *Stage])
def test_a_relay_that_reports_is_never_a_failure(
    stage: Stage, error: dict[str, str] | None, desired: Stage | None
) -> None:
    found = seen(replace(RUNS, stage=stage, error=error), desired)
    assert isinstance(found, Alive)
    assert ("no space" in found.doing) is (error is not None)


@pytest.mark.parametrize("desired", [None, *Stage])
def test_an_error_is_its_last_word_when_no_process_is_left(desired: Stage | None) -> None:
    assert seen(replace(ENDED, stage=Stage.PAUSED, error=ERROR), desired) == Failed(ERROR)


def test_a_relay_that_died_waiting_may_be_started_again() -> None:
    found = seen(replace(SILENT, stage=Stage.PAUSED, error=ERROR), Stage.RUNNING)
    assert isinstance(found, Gone)
    assert "process 7 on here" in found.why


@pytest.mark.parametrize("row", [ENDED, replace(ENDED, stage=Stage.STOPPED), SILENT])
def test_it_has_stopped_only_if_somebody_wanted_it(row: RelayStatus) -> None:
    assert seen(row, Stage.STOPPED) == Stopped()
    assert isinstance(seen(row, Stage.RUNNING), Gone)


def test_a_relay_that_is_about_to_stop_still_runs() -> None:
    assert isinstance(seen(RUNS, Stage.STOPPED), Alive)


def test_a_last_word_needs_no_silence() -> None:
    """Stopped and Finished are said once, by a process that is at its end."""
    assert seen(replace(RUNS, stage=Stage.FINISHED), Stage.RUNNING) == Finished()
    assert seen(replace(RUNS, stage=Stage.STOPPED), Stage.STOPPED) == Stopped()
    assert not is_alive(replace(RUNS, stage=Stage.STOPPED))


def test_nobody_has_ever_reported() -> None:
    assert isinstance(seen(None, Stage.RUNNING), Gone)


def test_a_steady_life_forgets_the_deaths_before_it() -> None:
    assert deaths_after(Life(began_at=1000.0, deaths=5), 1059.0, 60.0) == 6
    assert deaths_after(Life(began_at=1000.0, deaths=5), 1060.0, 60.0) == 1
