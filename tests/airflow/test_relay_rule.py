"""The rule by which a relay has caught up, shared by sensor and trigger."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.hooks.relay import goal_of, goal_text, progress_to
from airflow_provider_dm.launch.awaited import Broken, Met, NotYet

GOAL = Location("mysql-bin.000003", 500)
AT_GOAL = RelayStatus("one", Stage.RUNNING, relay=GOAL, heartbeat_age_seconds=1.0)
BEHIND = replace(AT_GOAL, relay=Location("mysql-bin.000003", 499))
ERROR = {"ErrCode": "DM-4023", "Message": "gone"}
OLD, NEW = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "9f2c5a10-71ca-11e1-9e33-c80aa9429562"


MOVED = replace(BEHIND, relay=Location("mysql-bin.000001", 4, suffix=2))
"""The relay has failed over to its second sub-directory; a goal that the upstream gives is in no sub-directory."""


@pytest.mark.parametrize(
    ("status", "found"),
    [
        pytest.param(None, NotYet, id="never reported"),
        pytest.param(BEHIND, NotYet, id="one byte before the goal"),
        pytest.param(MOVED, NotYet, id="another sub-directory"),
        pytest.param(replace(MOVED, relay=replace(GOAL, suffix=2)), Met, id="the goal in another sub-directory"),
        pytest.param(replace(BEHIND, relay=Location("binlog.000009", 4)), Broken, id="another upstream"),
        pytest.param(replace(BEHIND, stage=Stage.PAUSED, error=ERROR), Broken, id="ended with an error"),
        pytest.param(replace(BEHIND, stage=Stage.PAUSED), NotYet, id="paused"),
    ],
)
def test_a_relay_is_awaited_until_its_location_is_the_goal(status: RelayStatus | None, found: type) -> None:
    assert isinstance(progress_to(status, GOAL), found)


@pytest.mark.parametrize("stage", Stage)
def test_a_relay_that_has_reached_the_goal_counts_in_any_stage(stage: Stage) -> None:
    assert progress_to(replace(AT_GOAL, stage=stage, error=ERROR), GOAL) == Met(str(GOAL))


def test_silence_and_trouble_are_shown() -> None:
    silent = progress_to(replace(BEHIND, heartbeat_age_seconds=300.0), GOAL)
    assert isinstance(silent, NotYet)
    assert "no report for 300 s" in silent.why
    troubled = progress_to(replace(BEHIND, error=ERROR), GOAL)
    assert isinstance(troubled, NotYet)
    assert "gone" in troubled.why


def test_a_live_relay_is_awaited_in_any_reported_state() -> None:
    waits = replace(BEHIND, stage=Stage.PAUSED, error=ERROR, pid=7)
    found = progress_to(waits, GOAL)
    assert isinstance(found, NotYet)
    assert "resumes automatically after [DM-4023] gone" in found.why
    assert isinstance(progress_to(replace(waits, heartbeat_age_seconds=61.0), GOAL), Broken)
    assert isinstance(progress_to(replace(waits, pid=None), GOAL), Broken)


# Across a switch to another server


@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), ("0-1", "0-2")], ids=["mysql", "mariadb"])
def test_after_a_switch_gtids_are_compared_and_positions_are_not(old: str, new: str) -> None:
    executed = (lambda n: f"0-1-{n}") if old == "0-1" else (lambda n: f"{OLD}:1-{n}")
    goal = replace(GOAL, gtid_set=executed(40), server_uuid=old)
    moved = Location("mysql-bin.000009", 4, executed(39), suffix=2)  # far after the goal's position, by number
    status = replace(AT_GOAL, relay=moved, sub_dir=f"{new}.000002")

    assert isinstance(progress_to(status, goal), NotYet)
    there = replace(status, relay=replace(moved, gtid_set=executed(40)))
    assert isinstance(progress_to(there, goal), Met)
    # Asked of the new server while the relay still follows the old one.
    assert isinstance(progress_to(replace(there, sub_dir=f"{old}.000001"), replace(goal, server_uuid=new)), Met)
    # On one server positions are exact, and the set may lag behind them.
    assert isinstance(progress_to(replace(status, sub_dir=f"{old}.000002"), goal), Met)


@pytest.mark.parametrize(("held", "wanted"), [("", f"{OLD}:1-3"), (f"{OLD}:1-3", ""), (f"{OLD}:1-3", "0-1-3")])
def test_without_gtids_nothing_is_known_across_servers(held: str, wanted: str) -> None:
    status = replace(AT_GOAL, relay=replace(GOAL, gtid_set=held), sub_dir=f"{NEW}.000002")
    assert isinstance(progress_to(status, replace(GOAL, gtid_set=wanted, server_uuid=OLD)), NotYet)


def test_a_goal_is_equal_after_conversion_to_text() -> None:
    goal = replace(GOAL, gtid_set=f"{OLD}:1-3", server_uuid=OLD)
    assert goal_of(goal_text(goal)).to_json() == goal.to_json()
    assert goal_of("mysql-bin.000003:500") == GOAL
    for text in ("{}", "{", '{"file": "x", "position": 1, "gtid_set": "", "server_uuid": ""}', "here"):
        with pytest.raises(InvalidLocation):
            goal_of(text)
