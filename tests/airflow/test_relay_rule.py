"""When a relay has caught up: the rule that sensor and trigger share."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.hooks.relay import Behind, Broken, CaughtUp, judge

GOAL = Location("mysql-bin.000003", 500)
AT_GOAL = RelayStatus("one", Stage.RUNNING, relay=GOAL, heartbeat_age_seconds=1.0)
BEHIND = replace(AT_GOAL, relay=Location("mysql-bin.000003", 499))
ERROR = {"ErrCode": "DM-4010", "Message": "gone"}


def test_a_relay_that_never_spoke_is_behind() -> None:
    assert isinstance(judge(None, GOAL), Behind)


@pytest.mark.parametrize("stage", Stage)
def test_whatever_it_does_now_what_is_on_disk_is_on_disk(stage: Stage) -> None:
    assert judge(replace(AT_GOAL, stage=stage, error=ERROR), GOAL) == CaughtUp(GOAL)


def test_one_byte_is_missing() -> None:
    assert isinstance(judge(BEHIND, GOAL), Behind)


def test_the_upstream_knows_no_sub_directories() -> None:
    """After a fail-over the relay is in its second sub-directory, and the goal, asked upstream, is in no particular."""
    moved = replace(BEHIND, relay=Location("mysql-bin.000001", 4, suffix=2))
    assert isinstance(judge(moved, GOAL), Behind)
    assert isinstance(judge(replace(moved, relay=replace(GOAL, suffix=2)), GOAL), CaughtUp)


def test_another_upstream_is_never_caught_up_with() -> None:
    assert isinstance(judge(replace(AT_GOAL, relay=Location("binlog.000009", 4)), GOAL), Broken)


def test_a_relay_that_stopped_with_an_error_is_not_waited_for() -> None:
    assert isinstance(judge(replace(BEHIND, stage=Stage.PAUSED, error=ERROR), GOAL), Broken)
    assert isinstance(judge(replace(BEHIND, stage=Stage.PAUSED), GOAL), Behind)


def test_silence_and_trouble_are_said() -> None:
    silent = judge(replace(BEHIND, heartbeat_age_seconds=300.0), GOAL)
    assert isinstance(silent, Behind)
    assert "said nothing for 300 s" in silent.why
    troubled = judge(replace(BEHIND, error=ERROR), GOAL)
    assert isinstance(troubled, Behind)
    assert "gone" in troubled.why
