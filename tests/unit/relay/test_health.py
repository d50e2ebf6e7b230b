"""A relay's row and its process: only a heartbeat shows that it runs, only its last report shows how it ended."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.health import (
    FRESH_SECONDS,
    GONE_SECONDS,
    AskedToStop,
    RelayAlive,
    RelayCaughtUp,
    RelayFailure,
    RelayGone,
    RelayStart,
    deaths_after,
    doing,
    has_relay_ended,
    is_alive,
    is_past,
    is_pulling,
    relay_state,
    silence,
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
    status = replace(RUNS, stage=stage, error=error)
    assert relay_state(status, desired) == RelayAlive()
    assert ("no space" in doing(status)) is (error is not None)


@pytest.mark.parametrize("desired", [None, *Stage])
def test_the_recorded_error_counts_when_no_process_is_left(desired: Stage | None) -> None:
    assert relay_state(replace(ENDED, stage=Stage.PAUSED, error=ERROR), desired) == RelayFailure(ERROR)


def test_a_relay_that_crashed_while_waiting_may_be_restarted() -> None:
    found = relay_state(replace(SILENT, stage=Stage.PAUSED, error=ERROR), Stage.RUNNING)
    assert isinstance(found, RelayGone)
    assert "process 7 on here" in found.why


@pytest.mark.parametrize("row", [ENDED, replace(ENDED, stage=Stage.STOPPED), SILENT])
def test_a_relay_counts_as_stopped_only_after_a_request(row: RelayStatus) -> None:
    assert relay_state(row, Stage.STOPPED) == AskedToStop()
    assert isinstance(relay_state(row, Stage.RUNNING), RelayGone)


def test_a_relay_that_is_about_to_stop_still_runs() -> None:
    assert isinstance(relay_state(RUNS, Stage.STOPPED), RelayAlive)


def test_final_stages_count_at_once() -> None:
    """Stopped and Finished are reported once, by a process that is ending."""
    assert relay_state(replace(RUNS, stage=Stage.FINISHED), Stage.RUNNING) == RelayCaughtUp()
    assert relay_state(replace(RUNS, stage=Stage.STOPPED), Stage.STOPPED) == AskedToStop()
    assert not is_alive(replace(RUNS, stage=Stage.STOPPED))


def test_no_relay_has_ever_reported() -> None:
    assert isinstance(relay_state(None, Stage.RUNNING), RelayGone)


def test_a_relay_that_ran_long_enough_resets_the_number_of_crashes() -> None:
    assert deaths_after(RelayStart(began_at=1000.0, deaths=5), 1059.0) == 6
    assert deaths_after(RelayStart(began_at=1000.0, deaths=5), 1060.0) == 1


# What a sync asks


def test_a_living_relay_is_not_silent() -> None:
    assert silence(RUNS) is None
    assert not has_relay_ended(RUNS, 1000.0)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "none has ever reported"),
        (replace(RUNS, error=ERROR), "no space"),
        (replace(RUNS, stage=Stage.STOPPED, pid=None), "it has ended (Stopped)"),
        (replace(RUNS, heartbeat_age_seconds=61.0), "its last report is 61 s old"),
        (replace(RUNS, heartbeat_age_seconds=None), "none has ever reported"),
    ],
)
def test_the_reason_why_no_relay_pulls(status: RelayStatus | None, reason: str) -> None:
    assert silence(status) == reason


@pytest.mark.parametrize(
    "ended",
    [
        replace(RUNS, stage=Stage.STOPPED, pid=None),
        replace(RUNS, stage=Stage.FINISHED, pid=None),
        replace(RUNS, stage=Stage.PAUSED, error=ERROR, pid=None),
        replace(RUNS, stage=Stage.PAUSED, error=ERROR),
    ],
    ids=["stopped", "caught up", "ended with an error", "waits for space"],
)
def test_a_relay_that_ended_after_our_start_is_not_awaited(ended: RelayStatus) -> None:
    assert has_relay_ended(replace(ended, heartbeat_age_seconds=5.0), 6.0)
    assert not has_relay_ended(replace(ended, heartbeat_age_seconds=5.0), 4.0), "it may have been started again since"


def test_a_relay_that_was_paused_on_request_is_awaited() -> None:
    assert not has_relay_ended(replace(RUNS, stage=Stage.PAUSED), 1000.0)


def test_the_log_that_a_live_relay_has_reported_must_be_in_its_files() -> None:
    here = Location("mysql-bin.000003", 500)
    before = Location("mysql-bin.000003", 499)
    assert is_past(RUNS, before, 60.0)
    assert not is_past(RUNS, here, 60.0)
    assert not is_past(replace(RUNS, heartbeat_age_seconds=11.0), before, 60.0), "it is the past's row"
    assert not is_past(replace(RUNS, heartbeat_age_seconds=5.0), before, 4.0), "of a relay that may have died since"
    assert not is_past(None, here, 60.0)


def test_a_relay_log_grows_if_its_relay_has_no_error_and_a_recent_report() -> None:
    assert is_pulling(RUNS)
    assert not any(
        is_pulling(other)
        for other in (
            None,
            replace(RUNS, error=ERROR),
            replace(RUNS, stage=Stage.PAUSED),
            replace(RUNS, pid=None),
            replace(RUNS, heartbeat_age_seconds=FRESH_SECONDS + 1),
        )
    )
