"""The sensors of a sync, in every mode, as `dag.test()` runs them."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.triggers.base import TaskSuccessEvent

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.links.dm_page import DM_PAGE_KEY, dm_page_url
from airflow_provider_dm.sensors.shard_ddl import ShardDdlLockSensor
from airflow_provider_dm.sensors.sync import CheckpointPassedSensor, NoRowsHeldBackSensor, SyncLagSensor
from airflow_provider_dm.triggers.sync import SyncStateTrigger
from tests.airflow.support import RunDag, context, later, states


def report(run_id: str, **parts: Any) -> None:
    with DmMetadataHook().get_store() as store:
        beat(store, run_id, **parts)


def beat(store: MetaStore, run_id: str, *, lag: float, position: int, held: list[dict[str, Any]]) -> None:
    """Do what a sync's beat does."""
    at = Location("bin.000003", position)
    store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING, needed=at, applied=at)
    if store.get_run(run_id) is None:
        store.start_run(run_id, task="shop", app="incremental_sync", holder=Holder("x", "1", "here"))
    store.heartbeat_run(run_id, {"one": {"lag_seconds": lag, "unresolved_groups": held}})


@pytest.fixture
def behind(work_dir: Path) -> None:
    report("r", lag=60.0, position=4, held=[{"target": "t", "since": 1.0}])


@pytest.mark.parametrize("kind", [SyncLagSensor, ShardDdlLockSensor])
def test_the_file_of_the_task_is_read_once(
    kind: type[SyncLagSensor | ShardDdlLockSensor], behind: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sensor that pokes for an hour does not repeat the warnings about the file every ten seconds."""
    file = tmp_path / "shop.yaml"
    file.write_text("name: shop\nenable-heartbeat: true\nmysql-instances: [{source-id: one}]\n")
    sensor = kind(task_id="lag", task=str(file))
    for _ in range(2):
        assert not sensor.poke(context()).is_done
    assert caplog.text.count("the key enable-heartbeat is deprecated") == 1


@pytest.mark.parametrize("mode", ["poke", "reschedule", "deferrable"])
def test_sensors_wait_for_the_sync(mode: str, behind: None, run_dag: RunDag) -> None:
    how: dict[str, Any] = {"task": "shop", "poke_interval": 0.5, "timeout": 300}
    # dag.test() drops the XComs of a trigger that ends its task.
    how |= {"deferrable": True, "end_from_trigger": False} if mode == "deferrable" else {"mode": mode}
    with DAG(f"sync_sensors_{mode}") as dag:
        first = SyncLagSensor(task_id="lag", max_lag=5, **how)
        last = NoRowsHeldBackSensor(task_id="held", **how)
        first >> CheckpointPassedSensor(task_id="passed", source_id="one", location="bin.000003:400", **how) >> last
    # dag.test() runs each task once, so with `reschedule` nothing may be left to wait for.
    store, seconds = DmMetadataHook().get_store(), 0.0 if mode == "reschedule" else 1.5
    caught_up = later(seconds, store, beat, run_id="r", lag=1.0, position=500, held=[])
    if mode == "reschedule":
        caught_up.join()

    run = run_dag(dag)

    caught_up.join()
    assert states(run) == dict.fromkeys(("lag", "passed", "held"), "success")
    values = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
    assert values == {"lag": {"one": 1.0}, "passed": {"one": "bin.000003:500"}, "held": {"one": None}}
    links = {ti.xcom_pull(task_ids=ti.task_id, key=DM_PAGE_KEY) for ti in run.get_task_instances()}
    assert links == {dm_page_url(task="shop")}


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_sync_that_an_error_has_ended_fails_them(deferrable: bool, behind: None, run_dag: RunDag) -> None:
    with DmMetadataHook().get_store() as store:
        store.put_subtask_error("shop", "one", {"ErrCode": "DM-6032", "Message": "no such column."})
    with DAG(f"sync_broken_{deferrable}") as dag:
        SyncLagSensor(task_id="lag", task="shop", deferrable=deferrable)
        SyncLagSensor(task_id="soft", task="shop", deferrable=deferrable, soft_fail=True)

    assert states(run_dag(dag)) == {"lag": "failed", "soft": "skipped"}


def test_a_deadline_is_a_moment_and_not_a_duration(behind: None) -> None:
    """A triggerer that restarts makes the trigger again of its arguments: it does not wait any longer for that."""
    trigger = SyncStateTrigger(
        task_name="shop",
        sources=[],
        condition={"kind": "LagAtMost", "seconds": 5.0},
        dm_meta_conn_id=None,
        poll_interval=60.0,
        began_at=time.time(),
        deadline=time.time() - 1,
        end_from_trigger=True,
    )
    path, arguments = trigger.serialize()
    assert path == "airflow_provider_dm.triggers.sync.SyncStateTrigger"

    async def event_of(again: SyncStateTrigger) -> Any:
        return await anext(aiter(again.run()))

    event = asyncio.run(event_of(SyncStateTrigger(**arguments)))
    assert event.payload == {"status": "timeout", "message": "one: its lag is 1 min", "locks": []}
    report("r", lag=0.0, position=500, held=[])
    met = asyncio.run(event_of(SyncStateTrigger(**arguments)))
    assert isinstance(met, TaskSuccessEvent)
    assert met.xcoms == {"return_value": {"one": 0.0}}
