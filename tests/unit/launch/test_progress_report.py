"""The lines about a run: where each comes from, and when."""

import time
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.job import Job
from airflow_provider_dm.launch.progress_report import ProgressReporter, ReportOutput, closing_table

HOLDER = Holder("airflow:d/r/t", "1", "h")


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def reporter(job: Job, store: MetaStore, shown: list[str]) -> ProgressReporter:
    return ProgressReporter(
        job.spec.app,
        job.spec.task.name,
        job.spec.run_id,
        store,
        ReportOutput(shown.append, shown.append, every_seconds=0.0),
    )


def begin(reporter: ProgressReporter, progress: dict[str, Any]) -> None:
    if reporter.store.get_run(reporter.run_id) is None:
        reporter.store.start_run(reporter.run_id, task=reporter.task, app=reporter.app, holder=HOLDER)
    reporter.store.heartbeat_run(reporter.run_id, progress)


def test_a_sync_is_shown_from_its_start_to_its_pause(
    reporter: ProgressReporter, store: MetaStore, shown: list[str]
) -> None:
    reporter.report_if_due()
    begin(reporter, {})
    reporter.report_if_due()
    syncing = {"location": "bin.000003:99", "changes_applied": 12, "recent_rps": 3.0, "lag_seconds": 2.0}
    begin(reporter, {"one": syncing})
    reporter.report_if_due()
    store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.PAUSED)
    store.set_subtask_desired("shop", "one", Stage.PAUSED)
    reporter.report_if_due()

    line = "incremental sync: one at bin.000003:99, 12 rows (3/s), lag 2 s"
    assert shown == [
        "incremental sync: starting Spark, 0 s",
        "incremental sync: preparing, 0 s",
        line,
        f"{line}, waits for 0 s: one is paused by a user; `dmctl resume-task shop` resumes it",
    ]


def test_the_pause_of_an_earlier_run_is_not_this_ones(
    reporter: ProgressReporter, store: MetaStore, shown: list[str]
) -> None:
    error = {"ErrCode": "DM-6001", "Message": "of yesterday"}
    store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING)
    store.put_subtask_error("shop", "one", error)
    begin(reporter, {})
    reporter.report_if_due()
    begin(reporter, {"one": {"lag_seconds": 0.0}})
    reporter.report_if_due()

    assert "of yesterday" not in shown[0]
    assert "of yesterday" in shown[1]


def test_a_wait_has_an_age(reporter: ProgressReporter, shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> None:
        raise MetaUnreachable("sqlite://", "gone")

    monkeypatch.setattr(MetaStore, "get_run", lambda _, run_id: away(run_id))
    began = time.monotonic()
    reporter.report_if_due(began)
    reporter.report_if_due(began + 65)

    assert shown == [
        f"incremental sync: waits for 0 s: the metadata DB is not reachable ({MetaUnreachable.code})",
        f"incremental sync: waits for 1 min 5 s: the metadata DB is not reachable ({MetaUnreachable.code})",
    ]


def test_pieces_are_shown(reporter: ProgressReporter, shown: list[str]) -> None:
    begin(reporter, {"one": {"pieces": 8, "pieces_done": 2}})
    reporter.report_if_due()
    assert shown == ["incremental sync: 2 of 8 pieces (25 %)"]


def test_a_line_is_printed_once_per_interval(reporter: ProgressReporter, shown: list[str]) -> None:
    reporter.report_output = replace(reporter.report_output, every_seconds=60.0)
    reporter.report_if_due()
    assert shown == []


def test_a_load_is_shown_as_a_whole(
    reporter: ProgressReporter, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was just read, as the triggerer does at each poll, is not read again."""
    load = {"unit": "load", "rows": 1000, "chunks": 4, "chunks_done": 1, "contested_rows": 0}
    begin(reporter, {"one": load, "two": load})
    run = reporter.store.get_run(reporter.run_id)
    monkeypatch.setattr(MetaStore, "get_run", None)
    reporter.report_if_due(run=run)
    assert shown == ["incremental sync: 2,000 rows (0/s), 2 of 8 chunks (25 %)"]


def test_the_result_of_a_run_is_a_table() -> None:
    group = {"target": "`shop`.`orders`", "waits": "for two"}
    synced = {
        "status": "waiting for lock",
        "changes_applied": 1200,
        "seconds": 61.4,
        "unresolved_groups": {"one": [group]},
        "sources": {"one": {"location": "bin.000003:99", "changes_applied": 1200, "transactions": 7, "ddl_applied": 1}},
    }
    assert closing_table("incremental_sync", synced) == [
        "incremental sync: waiting for lock, 1,200 changes in 1 min 1 s",
        "  source  location       changes  transactions  DDL  rows held in",
        "  one     bin.000003:99  1,200    7             1    `shop`.`orders`",
    ]
    tables = [{"target": "`shop`.`orders`", "source_rows": 5, "target_rows": 4, "equal": False}]
    assert closing_table("verify", {"verified": False, "tables": tables}) == [
        "verify: source and target differ",
        "  table            source rows  target rows  equal",
        "  `shop`.`orders`  5            4            NO",
    ]
    copied = {"rows": 5, "seconds": 2.0, "sources": {"one": {"rows": 5, "tables": 1, "start": "bin.000001:4"}}}
    assert closing_table("full_migration", copied) == [
        "full migration: 5 rows in 2 s",
        "  source  rows  tables  copied as of",
        "  one     5     1       bin.000001:4",
    ]
    assert closing_table("full_migration", {"rows": 0}) == ["full migration: 0 rows"]
