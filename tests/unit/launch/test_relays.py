"""What is done about a relay that ended, and where relay logs lie."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.launch.relays import (
    DEATHS_ALLOWED,
    LONGEST_PAUSE_SECONDS,
    GiveUp,
    RelayFailed,
    RelayKeepsDying,
    RelayStopped,
    Restart,
    StandBack,
    after_end,
    relay_directory,
)
from airflow_provider_dm.launch.workdir import TaskDir

GONE = {"ErrCode": "DM-4001", "ErrScope": "upstream", "Message": "mysql-bin.000001 was purged."}
LOCKED = {"ErrCode": "DM-4005", "ErrScope": "internal", "Message": "another relay writes."}


def decide(exit_code: int, *, reported: dict[str, str] | None = None, deaths: int = 1) -> Restart | StandBack | GiveUp:
    return after_end("one", exit_code=exit_code, reported=reported, deaths=deaths, log_path=Path("r.log"), tail="boom")


def test_a_killed_relay_is_started_again_with_growing_pauses() -> None:
    pauses = [decide(-9, deaths=deaths) for deaths in range(1, DEATHS_ALLOWED + 1)]

    seconds = [one.after_seconds for one in pauses if isinstance(one, Restart)]
    assert len(seconds) == DEATHS_ALLOWED
    assert seconds == sorted(seconds)
    assert seconds[0] <= 1
    assert seconds[-1] == LONGEST_PAUSE_SECONDS


def test_a_relay_that_always_dies_is_given_up_with_the_end_of_its_log() -> None:
    decision = decide(1, deaths=DEATHS_ALLOWED + 1)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayKeepsDying)
    assert "boom" in str(decision.error)


def test_a_typed_error_is_not_answered_by_a_restart() -> None:
    decision = decide(2, reported=GONE)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayFailed)
    assert "[DM-4001 upstream] mysql-bin.000001 was purged." in str(decision.error)


def test_another_writer_of_the_directory_is_waited_for() -> None:
    assert decide(2, reported=LOCKED, deaths=99) == StandBack(LONGEST_PAUSE_SECONDS)


def test_a_relay_that_ended_on_request_is_not_started_against_that_wish() -> None:
    decision = decide(0)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayStopped)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "tasks/shop/relay/one"),
        ({"enable-relay": True}, "relay/one"),
        ({"enable-relay": False, "relay-dir": "/elsewhere"}, "tasks/shop/relay/one"),
    ],
)
def test_only_a_source_with_enable_relay_has_a_directory_of_its_own(
    config: dict[str, object], expected: str, tmp_path: Path
) -> None:
    source = SourceConfig.model_validate({"source-id": "one", **config})

    assert relay_directory(source, TaskDir.of("shop", tmp_path)) == tmp_path / expected


def test_a_named_relay_dir_is_used_as_it_is(tmp_path: Path) -> None:
    source = SourceConfig.model_validate({"source-id": "one", "enable-relay": True, "relay-dir": "/var/lib/dm/one"})

    assert relay_directory(source, TaskDir.of("shop", tmp_path)) == Path("/var/lib/dm/one")
