"""pause-task, resume-task and stop-task: requests in the metadata DB, and the answers of the commands."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.errors import LeaseHeld
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.shard.lock import DdlInfo, Lock, reported
from airflow_provider_dm.launch import task_control

ONE, TWO = "mysql-01", "mysql-02"


@dataclass
class Desk:
    """A metadata DB, and the commands."""

    work: Path
    store: MetaStore
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        assert main([*arguments, "--work-dir", str(self.work)]) == code
        found: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return found

    def put(self, source: str, stage: Stage = Stage.RUNNING, unit: Unit = Unit.SYNC, task: str = "shop") -> None:
        self.store.put_subtask(task, source, unit=unit, stage=stage)

    def run(self, task: str = "shop") -> None:
        self.store.start_run(f"r-{task}", task=task, app="incremental_sync", holder=Holder("dmctl", "1", "worker9"))

    def desired(self, task: str = "shop") -> dict[str, Stage | None]:
        return {one.source: one.desired for one in self.store.list_subtasks(task=task)}


@pytest.fixture
def desk(tmp_path: Path, store: MetaStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(task_control, "OBEY_SECONDS", 0.0)
    return Desk(tmp_path, store, capsys)


def test_dms_document_for_a_fulfilled_request(desk: Desk) -> None:
    desk.put(ONE, Stage.PAUSED)
    desk.run()

    document = desk("pause-task", "shop")

    answer = {"result": True, "msg": "", "source": ONE, "worker": "worker9"}
    assert document == {"op": "Pause", "result": True, "msg": "", "sources": [answer]}
    assert list(document) == ["op", "result", "msg", "sources"]
    assert desk.desired() == {ONE: Stage.PAUSED}


def test_a_relay_that_ignores_a_stop_is_named_and_the_request_kept(desk: Desk) -> None:
    desk.put(ONE)
    desk.put(TWO, Stage.PAUSED)
    desk.run()

    document = desk("pause-task", "shop", code=1)

    assert [(one["source"], one["msg"]) for one in document["sources"]] == [
        (ONE, "it is still Running after 0 s"),
        (TWO, ""),
    ]
    assert desk.desired() == {ONE: Stage.PAUSED, TWO: Stage.PAUSED}


@pytest.mark.parametrize("verb", ["pause-task", "resume-task"])
def test_no_process_receives_the_request(desk: Desk, verb: str) -> None:
    desk.put(ONE, Stage.STOPPED)

    (answer,) = desk(verb, "shop", code=1)["sources"]

    assert answer["msg"].startswith("it has no run")


def test_resume_returns_the_error_that_paused_it(desk: Desk) -> None:
    desk.put(ONE)
    desk.store.put_subtask_error("shop", ONE, {"ErrCode": "DM-6005", "Message": "a duplicate."})
    desk.run()

    (answer,) = desk("resume-task", "shop", code=1)["sources"]

    assert "[DM-6005] a duplicate." in answer["msg"]


def test_a_source_alone_means_all_of_its_tasks(desk: Desk) -> None:
    for task in ("shop", "stock"):
        desk.put(ONE, Stage.PAUSED, task=task)
        desk.put(TWO, task=task)

    document = desk("pause-task", "-s", ONE)

    assert [(one["task"], one["source"]) for one in document["sources"]] == [("shop", ONE), ("stock", ONE)]
    assert desk.desired() == desk.desired("stock") == {ONE: Stage.PAUSED, TWO: None}


def test_sources_that_load_together_pause_together(desk: Desk) -> None:
    desk.put(ONE, unit=Unit.LOAD)
    desk.put(TWO, unit=Unit.LOAD)

    assert "is loading" in desk("pause-task", "shop", "-s", ONE, code=1)["msg"]
    assert desk.desired() == {ONE: None, TWO: None}


def test_a_running_task_is_stopped_before_it_is_removed(desk: Desk) -> None:
    desk.put(ONE)
    desk.run()

    (answer,) = desk("stop-task", "shop", code=1)["sources"]
    assert (answer["msg"], answer["worker"]) == ("it has not ended after 0 s and is Running", "worker9")
    assert desk.desired() == {ONE: Stage.STOPPED}

    desk.put(ONE, Stage.STOPPED)
    assert desk("stop-task", "shop", code=1)["result"] is False, "a frozen app, which may still write"
    desk.store.finish_run("r-shop", stage=Stage.STOPPED)
    assert desk("stop-task", "shop")["op"] == "Stop"
    assert desk.store.list_subtasks() == []


def test_one_source_of_a_continuing_run_is_forgotten_when_it_has_ended(desk: Desk) -> None:
    desk.put(ONE, Stage.STOPPED)
    desk.put(TWO)
    desk.run()

    assert desk("stop-task", "shop", "-s", ONE)["result"] is True
    assert desk.desired() == {TWO: None}


def test_a_start_withdraws_the_desired_stages_of_a_task(desk: Desk) -> None:
    """The end of a run that has obeyed a stop withdraws that alone."""
    for source, wish in ((ONE, Stage.PAUSED), (TWO, Stage.STOPPED)):
        desk.put(source)
        desk.store.set_subtask_desired("shop", source, wish)
    desk.put("mysql-03")
    task_control.want_running(desk.store, "shop", [ONE, TWO], instead_of=(Stage.STOPPED,))
    assert desk.desired() == {ONE: Stage.PAUSED, TWO: Stage.RUNNING, "mysql-03": None}
    task_control.want_running(desk.store, "shop", [ONE, TWO, "mysql-03", "mysql-04"])
    assert desk.desired() == {ONE: Stage.RUNNING, TWO: Stage.RUNNING, "mysql-03": None}


def test_a_dead_runs_lease_expires_and_a_live_runs_lease_refuses(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_control, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(task_control, "OTHERS_POLL_SECONDS", 0.001)
    ours = Holder(identity="airflow:d/r2/t", attempt="1", host="worker9")
    dead = desk.store.acquire_lease("shop", TWO, Holder("airflow:d/r1/t", "1", "worker9"), ttl_seconds=0.02, at_least=0)

    task_control.wait_for_others(desk.store, "shop", [ONE, TWO], ours)
    assert desk.store.lease_held("shop", TWO, Holder("airflow:d/r1/t", "1", "worker9")) is None

    alive = replace(dead, ttl_seconds=60.0)
    desk.store.renew_lease(alive)
    clock = SimpleNamespace(monotonic=iter(range(0, 400, 40)).__next__, sleep=lambda _: None)
    monkeypatch.setattr(task_control, "time", clock)
    with pytest.raises(LeaseHeld, match="airflow:d/r1/t"):
        task_control.wait_for_others(desk.store, "shop", [ONE, TWO], ours)
    task_control.wait_for_others(desk.store, "shop", [ONE, TWO], replace(ours, identity="airflow:d/r1/t"))


def test_an_unknown_task(desk: Desk) -> None:
    assert desk("stop-task", "ship", "-s", ONE, code=1)["msg"] == f"task ship is not known on {ONE}"
    assert main(["pause-task", "--work-dir", str(desk.work)]) == 1
    assert "pause-task needs a task, or -s" in desk.capsys.readouterr().err


def test_a_stopped_task_leaves_no_reports_in_locks_for_its_next_start(desk: Desk) -> None:
    table = TableName("shop", "o")
    for number, sources in enumerate(((ONE,), (ONE, TWO))):
        lock = None
        for source in sources:
            lock = reported(lock, "shop", table, number, DdlInfo(source, (f"ADD {source[-2:]}",)), (ONE, TWO))
        desk.store.change_ddl_lock("shop", "shop-`shop`.`o`", number, lambda _, made=lock: made.to_json())  # type: ignore[misc]
    desk.put(ONE, Stage.STOPPED)
    desk.put(TWO, Stage.STOPPED)
    assert desk("stop-task", "shop", "-s", ONE)["result"] is True
    left = [Lock.from_json(body) for body, _ in desk.store.ddl_locks("shop")]
    assert [(one.number, one.owner, one.synced) for one in left] == [(1, TWO, [TWO])]
    assert desk("stop-task", "shop")["result"] is True
    assert desk.store.ddl_locks("shop") == []


def test_a_stopped_task_leaves_no_lock_of_a_source_that_had_left_it(desk: Desk) -> None:
    lock = reported(None, "shop", TableName("shop", "o"), 0, DdlInfo(TWO, ("ADD c",)), (ONE, TWO))
    desk.store.change_ddl_lock("shop", lock.id, 0, lambda _: lock.to_json())
    desk.put(ONE, Stage.STOPPED)
    desk.put(ONE, Stage.STOPPED, task="other")
    assert desk("stop-task", "shop")["result"] is True
    assert desk("shard-ddl-lock")["msg"] == "no DDL lock exists"


def test_start_task_resumes_a_source_that_an_error_has_paused_beside_others(desk: Desk) -> None:
    task, sources = desk.work / "task.yaml", [desk.work / f"{name}.yaml" for name in (ONE, TWO)]
    names = "\n".join(f"- {{source-id: {name}}}" for name in (ONE, TWO))
    task.write_text(
        f"name: shop\ntask-mode: all\ntarget-database: {{host: h, port: 1, user: u}}\nmysql-instances:\n{names}"
    )
    for name, path in zip((ONE, TWO), sources, strict=True):
        path.write_text(f"source-id: {name}\nfrom: {{host: h, port: 1, user: u}}")
        desk.put(name)
    desk.store.put_subtask_error("shop", ONE, {"ErrCode": "DM-6004", "Message": "a row is refused."})
    desk.run()

    desk("start-task", str(task), *(word for path in sources for word in ("--source", str(path))), code=1)

    assert desk.desired() == {ONE: Stage.RUNNING, TWO: None}
