"""query-status prints what DM's dmctl prints."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import RelayStatus, Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.status import relay_stage, source_status, task_status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GTIDS = "09bec856-ba95-11ea-850a-58f2b4af5188:1-28"


def relay(**changes: Any) -> RelayStatus:
    known: dict[str, Any] = {
        "source": "mysql-replica-01",
        "stage": Stage.RUNNING,
        "master": Location("mysql-bin.000005", 916, GTIDS),
        "relay": Location("mysql-bin.000005", 4, GTIDS),
        "sub_dir": "09bec856-ba95-11ea-850a-58f2b4af5188.000001",
        "host": "worker2",
        "pid": 7,
        "heartbeat_age_seconds": 1.0,
    }
    return RelayStatus(**{**known, **changes})


RELAY = relay()


def subtask(unit: Unit = Unit.SYNC, stage: Stage = Stage.RUNNING, applied: Location | None = None) -> SubtaskStatus:
    return SubtaskStatus("test", "mysql-replica-01", unit, stage, None, applied, NOW)


def run(*, age: float = 1.0, error: dict[str, Any] | None = None) -> Run:
    holder = Holder("dmctl", "1", "host")
    looked: dict[str, Any] = {"mysql-replica-01": {"unresolved_groups": []}}
    return Run("r", "test", "incremental_sync", holder, Stage.RUNNING, NOW, NOW, age, progress=looked, error=error)


def shown_of(one: SubtaskStatus, last: Run | None, pulled: RelayStatus | None = RELAY) -> dict[str, Any]:
    (shown,) = source_status("mysql-replica-01", pulled, [(one, last)])["subTaskStatus"]
    found: dict[str, Any] = shown
    return found


def test_a_syncing_subtask_shows_where_it_is_and_that_it_is_synced() -> None:
    shown = shown_of(subtask(applied=Location("mysql-bin.000005", 916, GTIDS)), run())

    assert (shown["name"], shown["stage"], shown["unit"]) == ("test", "Running", "Sync")
    assert shown["sync"]["syncerBinlog"] == shown["sync"]["masterBinlog"] == "(mysql-bin.000005, 916)"
    assert shown["sync"]["synced"] is True


@pytest.mark.parametrize(
    ("caught_up", "pulled", "synced"),
    [
        (True, None, True),  # without a relay log, the sync itself has seen the end of the source's log
        (False, RELAY, False),
        (None, RELAY, True),  # the sync has ended there; the relay still reports
        (None, None, False),
        (None, relay(stage=Stage.STOPPED), False),
        (None, relay(heartbeat_age_seconds=90.0), False),
        (None, relay(error={"ErrCode": "DM-4020"}), False),  # it reports the end that it knew before it lost the source
    ],
)
def test_a_source_is_synced_only_by_a_recent_report(
    caught_up: bool | None, pulled: RelayStatus | None, synced: bool
) -> None:
    progress = {"unresolved_groups": [], "caught_up": bool(caught_up)}
    last = replace(run(age=1.0 if caught_up is not None else 3600.0), progress={"mysql-replica-01": progress})

    shown = shown_of(subtask(applied=Location("mysql-bin.000005", 916, GTIDS)), last, pulled)
    assert shown["sync"]["synced"] is synced


def test_a_subtasks_own_error_is_shown_before_its_runs_error() -> None:
    own, of_run = ({"ErrCode": code, "ErrScope": "upstream", "Message": "m"} for code in ("DM-6032", "DM-6005"))
    paused = subtask(stage=Stage.PAUSED)
    for one, error in ((paused, of_run), (replace(paused, error=own), own)):
        (shown,) = shown_of(one, run(error=of_run))["result"]["errors"]
        assert {key: shown[key] for key in error} == error
    assert task_status([(replace(paused, error=own), run())], []).startswith("Error - Some error occurred in subtask")


def test_a_subtask_that_resumes_automatically_is_paused_while_its_run_lives() -> None:
    error = {"ErrCode": "DM-6001", "ErrScope": "downstream", "Message": "m", "ResumesInSeconds": 4.0}
    waiting = replace(subtask(stage=Stage.PAUSED), error=error)

    shown = shown_of(waiting, run())
    assert (shown["stage"], shown["resumesInSeconds"]) == ("Paused", 4.0)
    assert shown["result"]["errors"][0]["ErrCode"] == "DM-6001"
    shown = shown_of(waiting, run(age=99.0))
    assert (shown["stage"], shown["result"], shown["resumesInSeconds"]) == ("Stopped", None, None)


def test_a_subtask_whose_run_has_failed_is_paused_with_the_runs_error() -> None:
    """A load reports no error of its own."""
    error = {"ErrCode": "DM-2002", "ErrScope": "downstream", "Message": "denied"}
    for age in (1.0, 9_999.0):
        shown = shown_of(subtask(Unit.LOAD), replace(run(age=age, error=error), stage=Stage.PAUSED))
        assert (shown["stage"], shown["result"]["errors"][0]["ErrCode"]) == ("Paused", "DM-2002")
    of_another_source = replace(run(error=error), stage=Stage.PAUSED, progress={"mysql-replica-02": {}})
    assert shown_of(subtask(Unit.LOAD), of_another_source)["stage"] == "Running"


def test_a_relay_that_failed_is_paused_and_shows_its_error_as_dm_does() -> None:
    error = {
        "ErrCode": "DM-4022",
        "ErrClass": "BinlogPurged",
        "ErrScope": "upstream",
        "Message": "gone.",
        "Workaround": "w",
    }
    ended = relay(stage=Stage.PAUSED, error={**error, "Reaction": "stop"}, heartbeat_age_seconds=99_999.0)

    shown = source_status("mysql-replica-01", ended, [])["sourceStatus"]["relayStatus"]

    assert shown["stage"] == "Paused"
    assert shown["result"] == {
        "isCanceled": False,
        "errors": [{**error, "ErrLevel": "high", "RawCause": ""}],
        "detail": None,
    }
    assert list(shown["result"]["errors"][0])[:4] == ["ErrCode", "ErrClass", "ErrScope", "ErrLevel"]


@pytest.mark.parametrize(
    ("stage", "shown"), [("New", "Stopped"), ("Running", "Stopped"), ("Paused", "Stopped"), ("Finished", "Finished")]
)
def test_a_relay_that_no_longer_reports(stage: str, shown: str) -> None:
    assert relay_stage(relay(stage=Stage(stage), heartbeat_age_seconds=99.0)).value == shown


@pytest.mark.parametrize(
    ("progress", "name", "expected"),
    [
        ({"binlog_type": "remote"}, "binlogType", "remote"),
        ({"contested_rows": 3}, "contested_rows", 3),
        (None, "binlogType", "local"),
        (None, "contested_rows", 0),
        (None, "secondsBehindMaster", None),
        (None, "totalRows", "0"),
    ],
)
def test_the_sync_shows_what_its_run_has_reported(progress: dict[str, Any] | None, name: str, expected: object) -> None:
    last = None if progress is None else replace(run(), progress={"mysql-replica-01": progress})
    assert shown_of(subtask(), last)["sync"][name] == expected


def test_the_task_status_is_dms_sentence() -> None:
    failed = run(error={"ErrCode": "DM-1"})

    assert task_status([(subtask(), run())], [relay()]) == "Running"
    assert task_status([(subtask(stage=Stage.FINISHED), run())], [relay()]) == "Finished"
    assert task_status([(subtask(stage=Stage.PAUSED), failed)], []).startswith("Error - Some error occurred in subtask")
    assert task_status([(subtask(), run())], [relay(stage=Stage.PAUSED)]).startswith("Error - Relay status is Paused")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(["nope"], "task nope has no source or not exist"), (["-s", "nope"], "source nope is not known")],
)
def test_an_unknown_name_is_an_answer_with_an_error(
    asked: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code = main(["query-status", *asked, "--work-dir", str(tmp_path)])

    answer = json.loads(capsys.readouterr().out)
    assert (exit_code, answer["result"]) == (1, False)
    assert answer["msg"].startswith(expected)


SYNCING = {
    "changes_applied": 1200,
    "total_rps": 40.6,
    "recent_rps": 12.0,
    "transactions": 70,
    "bytes": 9000,
    "lag_seconds": 3.4,
    "seconds_left": 7.5,
    "contested_rows": 0,
    "unresolved_groups": [],
    "safeMode": {},
}


def test_the_sync_unit_has_all_that_dms_has() -> None:
    working = replace(run(), progress={"mysql-replica-01": SYNCING})
    at = subtask(applied=Location("mysql-bin.000005", 400, GTIDS))

    assert shown_of(at, working)["sync"] == {
        "totalEvents": "1200",
        "totalTps": "40",
        "recentTps": "12",
        "masterBinlog": "(mysql-bin.000005, 916)",
        "masterBinlogGtid": GTIDS,
        "syncerBinlog": "(mysql-bin.000005, 400)",
        "syncerBinlogGtid": GTIDS,
        "blockingDDLs": [],
        "unresolvedGroups": [],
        "synced": False,
        "binlogType": "local",
        "secondsBehindMaster": "3",
        "blockDDLOwner": "",
        "conflictMsg": "",
        "totalRows": "1200",
        "totalRps": "40",
        "recentRps": "12",
        "ioTotalBytes": "9000",
        "dumpIOTotalBytes": "0",
        "totalTransactions": "70",
        "contested_rows": 0,
        "heldBackSeconds": None,
        "heldBackBytes": 0,
        "safeMode": {},
        "remainingSeconds": 7.5,
        "goalFar": "",
    }


HELD = {
    "target": "`s`.`o`",
    "DDLs": ["ADD c int"],
    "synced": ["`s`.`o_1`"],
    "unsynced": ["`s`.`o_2`"],
    "waits": "for it",
}


@pytest.mark.parametrize(
    ("shown", "needed", "synced"),
    [
        ({}, 916, True),
        ({"unresolved_groups": None}, 916, False),  # the run has begun, and its sync has not checked yet
        (
            {"unresolved_groups": [{**HELD, "since": 0.0}], "held_back_seconds": 60.4, "held_back_bytes": 500},
            400,
            False,
        ),
        ({"unresolved_groups": [], "contested_rows": 2}, 916, False),
        (None, 916, True),  # the last run was another app: a load
        (None, 400, False),
    ],
)
def test_a_source_that_holds_rows_back_is_not_synced(shown: dict[str, Any] | None, needed: int, synced: bool) -> None:
    progress = {} if shown is None else {"mysql-replica-01": {**SYNCING, **shown}}
    last = replace(run(), app="full_migration" if shown is None else "incremental_sync", progress=progress)
    end = Location("mysql-bin.000005", 916, GTIDS)
    at = replace(subtask(applied=end), needed=replace(end, position=needed))

    found = shown_of(at, last)["sync"]
    assert found["synced"] is synced
    if shown and shown.get("unresolved_groups"):
        assert (found["heldBackSeconds"], found["heldBackBytes"]) == (60, 500)
        assert found["unresolvedGroups"] == [{**HELD, "since": "1970-01-01T00:00:00+00:00"}]


@pytest.mark.parametrize(
    ("stage", "age", "behind"), [(Stage.RUNNING, 1.0, "3"), (Stage.RUNNING, 100.0, "103"), (Stage.STOPPED, 20.0, "23")]
)
def test_a_lag_grows_without_a_run(stage: Stage, age: float, behind: str) -> None:
    last = replace(run(age=age), stage=stage, progress={"mysql-replica-01": SYNCING})

    assert shown_of(subtask(), last)["sync"]["secondsBehindMaster"] == behind


def test_a_subtask_that_a_user_has_paused_is_canceled() -> None:
    paused = replace(subtask(stage=Stage.PAUSED), desired=Stage.PAUSED)
    assert shown_of(paused, run())["result"] == {"isCanceled": True, "errors": [], "detail": None}
