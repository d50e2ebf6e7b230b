"""Operators by which a user's decision reaches a task: they use the functions of dmctl's verbs."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_dm.engine.meta.records import OperatorKind, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.launch import task_control
from airflow_provider_dm.operators.binlog import DmBinlogOperator
from airflow_provider_dm.operators.checkpoint import DmCheckpointOperator
from airflow_provider_dm.operators.table_schema import DmTableSchemaOperator
from airflow_provider_dm.operators.task_control import DmTaskControlOperator
from tests.airflow.support import context

HERE = Location("mysql-bin.000003", 400, "", 2, "u")
DDL = "ALTER TABLE shop.t ADD COLUMN c int"


@pytest.fixture
def store(work_dir: Path) -> Iterator[MetaStore]:
    """One task: `one` is paused by a DDL, `two` syncs."""
    with DmMetadataHook().get_store() as opened:
        for source in ("one", "two"):
            opened.put_subtask("shop", source, unit=Unit.SYNC, stage=Stage.RUNNING, needed=HERE, applied=HERE)
        opened.put_subtask_error("shop", "one", {"ErrCode": "DM-6032"}, at=HERE)
        yield opened


def run(operator: Any) -> Any:
    return operator.execute({**context(), "params": {"source": "one"}})


def test_a_statement_is_replaced_and_the_decision_reverted(store: MetaStore) -> None:
    replaced = run(DmBinlogOperator(task_id="x", task="shop", action="replace", sql=f"{DDL};"))

    assert list(replaced["sources"]) == ["one"]
    assert replaced["sources"]["one"]["binlogPos"] == "mysql-bin.000003:400"
    (stored,) = store.operators("shop", "one")
    assert (stored.kind, stored.statements) == (OperatorKind.REPLACE, (DDL,))
    run(DmBinlogOperator(task_id="x", task="shop", action="revert", sources=["one"]))
    assert store.operators("shop", "one") == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"action": "skip", "sources": ["two"]}, "DM-6070"),
        ({"action": "skip", "sources": ["one", "two"]}, "DM-6070"),
        ({"action": "skip", "binlog_pos": "mysql-bin.000004:4"}, "invalid --binlog-pos"),
        ({"action": "replace", "sources": ["one"]}, "`replace` needs a statement"),
        ({"action": "skip", "sources": ["three"]}, "DM-9046"),
        ({"action": "jump"}, "DM-9066"),
        ({"action": "skip", "sources": "one"}, "DM-9066"),
    ],
)
def test_an_impossible_decision_fails_without_a_retry(store: MetaStore, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(AirflowFailException, match=why):
        run(DmBinlogOperator(task_id="x", task="shop", **arguments))
    assert store.operators("shop", "one") == store.operators("shop", "two") == []


def test_sources_without_such_a_place_are_left_out_by_naming_the_others(store: MetaStore) -> None:
    """The remedy of DM-6070."""
    assert list(run(DmBinlogOperator(task_id="x", task="shop", action="skip", sources=["one"]))["sources"]) == ["one"]


def test_a_pause_waits_until_the_run_is_paused(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_control, "OBEY_SECONDS", 0.1)
    store.start_run("r1", task="shop", app="incremental_sync", holder=Holder("airflow:d/r/t", "1", "h"))
    pause = DmTaskControlOperator(task_id="x", task="shop", action="pause", sources=["two"])

    with pytest.raises(AirflowException, match="DM-9049") as raised:
        run(pause)
    assert not isinstance(raised.value, AirflowFailException)
    assert {one.source: one.desired for one in store.list_subtasks()}["two"] is Stage.PAUSED
    store.put_subtask_paused("shop", "two")
    assert run(pause) == {"task": "shop", "action": "pause", "sources": ["two"]}


def test_a_load_is_paused_as_a_whole(store: MetaStore) -> None:
    store.put_subtask("shop", "two", unit=Unit.LOAD, stage=Stage.RUNNING)
    with pytest.raises(AirflowFailException, match=r"DM-1002.*all of its sources"):
        run(DmTaskControlOperator(task_id="x", task="shop", action="pause", sources=["two"]))


def test_a_stop_removes_a_task_whose_run_has_ended(store: MetaStore) -> None:
    assert run(DmTaskControlOperator(task_id="x", task="shop", action="stop"))["sources"] == ["one", "two"]
    assert store.list_subtasks() == []


def test_a_file_is_a_template_and_its_text_is_no_rendered_field(store: MetaStore, tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    file.write_text("name: shop\nmysql-instances: [{source-id: '{{ params.source }}'}]\n")
    skip = DmBinlogOperator(task_id="x", task=str(file), action="skip", sources=["one"])

    assert run(skip)["task"] == "shop"
    assert skip.task == str(file)
    file.write_text("name: {{ params.\n")
    with pytest.raises(AirflowFailException, match="as a Jinja template"):
        run(skip)


@pytest.mark.parametrize("operator", [DmCheckpointOperator, DmTableSchemaOperator])
def test_an_unknown_action_is_refused_before_the_target_is_asked(operator: Any, work_dir: Path) -> None:
    more = {"database": "d", "table": "t"} if operator is DmTableSchemaOperator else {}
    with pytest.raises(AirflowFailException, match=r"DM-9066.*'forget'"):
        operator(task_id="x", task="t.yaml", action="forget", **more).execute({"ti": SimpleNamespace()})
