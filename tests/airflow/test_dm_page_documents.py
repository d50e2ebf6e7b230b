"""The documents of the DM page: those of dmctl, a verdict on each source, and the history of its runs."""

from typing import Any, Final

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder, this_process
from airflow_provider_dm.engine.shard.lock import DdlInfo, reported
from airflow_provider_dm.launch.ddl_locks import locks_document
from airflow_provider_dm.launch.status import StatusRecords
from airflow_provider_dm.links.task_instance import LONGEST_IDENTITY, TaskInstanceRef, task_instance_of
from airflow_provider_dm.plugins.documents import Selection, page_document

TASK, SOURCE = "shop", "mysql-01"
ERROR: Final = {"ErrCode": "DM-6032", "Message": "the DDL cannot be followed.", "Workaround": "Skip it."}
IN_SYNC: Final[dict[str, Any]] = {"lag_seconds": 1.0, "unresolved_groups": []}
AT: Final = Location("mysql-bin.000002", 900)


def a_run(
    store: MetaStore, progress: dict[str, Any], *, number: int = 1, process: str = "", app: str = "incremental_sync"
) -> str:
    identity = TaskInstanceRef("dag", "manual__1", "sync", -1).identity
    holder = Holder(identity, "1", "worker-1", process or this_process())
    store.start_run(f"r{number}", task=TASK, app=app, holder=holder)
    store.heartbeat_run(f"r{number}", {SOURCE: progress})
    return f"r{number}"


def a_subtask(store: MetaStore, stage: Stage = Stage.RUNNING, unit: Unit = Unit.SYNC, task: str = TASK) -> None:
    store.put_subtask(task, SOURCE, unit=unit, stage=stage, needed=AT, applied=AT)


def verdict(store: MetaStore) -> tuple[str, str]:
    (task,) = page_document(store, Selection([TASK]))["tasks"]
    found = task["verdicts"][SOURCE]
    assert task["verdict"]["level"] == found["level"]
    return found["level"], found["state"]


GROUP: Final[dict[str, Any]] = {
    "target": "`a`.`t`",
    "DDLs": [],
    "synced": [],
    "unsynced": [],
    "waits": "for a.t2",
    "since": None,
}


HELD: Final = {**IN_SYNC, "unresolved_groups": [GROUP]}
ENDED_HOLDING: Final = {**HELD, "held_back_seconds": 5.0}


@pytest.mark.parametrize(
    ("stage", "unit", "progress", "expected"),
    [
        (Stage.RUNNING, Unit.SYNC, IN_SYNC, ("good", "In sync")),
        (Stage.RUNNING, Unit.SYNC, {**IN_SYNC, "lag_seconds": 61.0}, ("warn", "Behind")),
        (Stage.RUNNING, Unit.SYNC, {**IN_SYNC, "lag_seconds": None}, ("busy", "Starting")),
        (Stage.RUNNING, Unit.SYNC, HELD, ("warn", "Rows held back")),
        (Stage.RUNNING, Unit.SYNC, {**IN_SYNC, "contested_rows": 3}, ("warn", "Rows held back")),
        (Stage.RUNNING, Unit.LOAD, {"unit": "load", "rows": 3, "chunks": 2, "chunks_done": 1}, ("busy", "Copying")),
        (Stage.STOPPED, Unit.SYNC, {}, ("busy", "Starting")),
        (Stage.STOPPED, Unit.SYNC, IN_SYNC, ("idle", "Done")),
        (Stage.STOPPED, Unit.SYNC, ENDED_HOLDING, ("warn", "Rows held back")),
    ],
)
def test_a_source_of_a_living_run(
    store: MetaStore, stage: Stage, unit: Unit, progress: dict[str, Any], expected: tuple[str, str]
) -> None:
    """It runs; or its run has not begun it yet, or has finished it."""
    a_subtask(store, stage, unit)
    a_run(store, progress)
    assert verdict(store) == expected


def test_a_source_that_an_error_has_paused_needs_a_user(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    store.put_subtask_error(TASK, SOURCE, {**ERROR, RESUMES_IN_SECONDS: 4.0})
    assert verdict(store) == ("warn", "Retrying")
    store.put_subtask_error(TASK, SOURCE, ERROR, at=AT)
    assert verdict(store) == ("bad", "Paused by an error")
    store.put_subtask_paused(TASK, SOURCE)
    assert verdict(store) == ("warn", "Paused")


def test_a_sync_without_a_run(store: MetaStore) -> None:
    a_subtask(store, Stage.STOPPED)
    assert verdict(store) == ("idle", "Not running")
    run = a_run(store, IN_SYNC)
    store.finish_run(run, stage=Stage.FINISHED, result={})
    assert verdict(store) == ("idle", "Not running")
    run = a_run(store, ENDED_HOLDING, number=2)
    store.finish_run(run, stage=Stage.FINISHED, result={})
    assert verdict(store) == ("warn", "Rows held back")
    run = a_run(store, IN_SYNC, number=3)
    store.finish_run(run, stage=Stage.PAUSED, error=ERROR)
    assert verdict(store) == ("bad", "Failed")
    a_subtask(store)
    a_run(store, IN_SYNC, number=4, process=f"{this_process()}0")  # a process of that start time is no more
    assert verdict(store) == ("bad", "Lost")


def test_a_comparison_beside_a_sync_is_not_the_run_of_the_sync(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    a_run(store, {}, number=2, app="verify", process=f"{this_process()}0")
    assert verdict(store) == ("good", "In sync")
    (subtask,) = StatusRecords(store).status(TASK)["sources"][0]["subTaskStatus"]
    assert (subtask["stage"], subtask["sync"]["secondsBehindMaster"]) == ("Running", "1")
    assert StatusRecords(store).status()["tasks"][0]["taskStatus"] == "Running"


def test_a_running_comparison_after_a_sync_is_not_a_lost_run(store: MetaStore) -> None:
    a_subtask(store, Stage.STOPPED)
    store.finish_run(a_run(store, IN_SYNC), stage=Stage.FINISHED, result={})
    run = a_run(store, {}, number=2, app="verify")
    assert verdict(store) == ("idle", "Not running")
    store.finish_run(run, stage=Stage.PAUSED, error=ERROR)
    assert verdict(store) == ("bad", "Failed")


def test_a_paused_relay_is_a_warning_for_its_source(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    store.put_relay_status(RelayStatus(SOURCE, Stage.PAUSED, master=AT, relay=AT))
    assert verdict(store) == ("warn", "Relay paused")


def test_sources_that_disagree_need_a_user(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    table, both = TableName("a", "t"), [SOURCE, "mysql-02"]

    def report(source: str, sql: str) -> None:
        def how(found: dict[str, Any] | None) -> dict[str, Any]:
            from airflow_provider_dm.engine.shard.lock import Lock

            before = None if found is None else Lock.from_json(found)
            return reported(before, TASK, table, 1, DdlInfo(source, (sql,), ("a.t1",), "x"), both).to_json()

        store.change_ddl_lock(TASK, f"{TASK}-{table.quoted()}", 1, how)

    report(SOURCE, "ALTER TABLE `a`.`t` ADD COLUMN c INT")
    assert verdict(store) == ("good", "In sync")
    report("mysql-02", "ALTER TABLE `a`.`t` ADD COLUMN c BIGINT")
    assert verdict(store) == ("bad", "DDL conflict")


def test_the_page_has_the_documents_of_dmctl(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    store.put_relay_status(RelayStatus("lonely", Stage.RUNNING, master=AT, relay=AT))
    found = page_document(store)
    (task,) = found["tasks"]
    (listed,) = StatusRecords(store).status()["tasks"]
    assert {name: task[name] for name in listed} == listed
    assert task["sourceStatus"] == StatusRecords(store).status(TASK)["sources"]
    assert found["locks"] == locks_document(store)["locks"]
    assert found["relays"] == StatusRecords(store).status(sources=["lonely"])["sources"]


def test_tasks_are_found_by_their_names_and_by_their_sources(store: MetaStore) -> None:
    a_subtask(store)
    a_run(store, IN_SYNC)
    store.put_relay_status(RelayStatus("lonely", Stage.RUNNING, master=AT, relay=AT))

    def found(**selected: list[str]) -> tuple[list[str], list[str]]:
        page = page_document(store, Selection(**selected))
        return [one["taskName"] for one in page["tasks"]], [one["sourceStatus"]["source"] for one in page["relays"]]

    assert found(tasks=[TASK]) == found(sources=[SOURCE]) == found(tasks=[TASK], sources=[SOURCE]) == ([TASK], [])
    assert found(tasks=["another"]) == found(sources=["of no relay yet"]) == found() == ([], [])
    assert found(tasks=[TASK], sources=["lonely"]) == ([TASK], ["lonely"])


def test_the_history_covers_several_runs(store: MetaStore) -> None:
    a_subtask(store)
    store.finish_run(a_run(store, {**IN_SYNC, "history": [[15, 2.0, 9.0]]}), stage=Stage.FINISHED)
    a_run(store, {**IN_SYNC, "history": [[300, None, 1.0], [315, 0.0, 7.0]]}, number=2)
    (task,) = page_document(store, Selection([TASK]))["tasks"]
    assert task["history"] == {SOURCE: [[15, 2.0, 9.0], [16, None, None], [300, None, 1.0], [315, 0.0, 7.0]]}
    assert [run["id"] for run in task["runs"]] == ["r2", "r1"]
    assert task["runs"][0]["airflow"]["path"] == "/dags/dag/runs/manual__1/tasks/sync"


def test_a_task_instance_is_read_from_the_identity_that_it_has() -> None:
    for one in (TaskInstanceRef("d", "manual__1+00:00", "group.t", 7), TaskInstanceRef("d", "r", "t")):
        assert task_instance_of(one.identity) == one
    long = TaskInstanceRef("d" * 250, "r" * 250, "t")
    assert len(long.identity) == LONGEST_IDENTITY
    assert task_instance_of(long.identity) is None
    assert task_instance_of("dmctl:host:1") is None


def test_a_poll_of_many_tasks_has_two_queries_for_each(store: MetaStore) -> None:
    """What is the same for all is read once: subtasks, relays and locks."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT"):
            asked.append(statement)

    def questions() -> int:
        asked.clear()
        page_document(store)
        return len(asked)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        a_subtask(store, task="task0")
        one = questions()
        for number in range(1, 6):
            a_subtask(store, task=f"task{number}")
        assert questions() == one + 5 * 2
    finally:
        event.remove(Engine, "before_cursor_execute", note)
