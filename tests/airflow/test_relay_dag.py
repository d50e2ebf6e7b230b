"""A relay as a task, and the sensor that waits for it: `dag.test()` with a real source."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.hooks.database import DmDatabaseHook
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.hooks.relay import RelayLogHook, goal_of, goal_text, progress_to
from airflow_provider_dm.launch.awaited import Broken, NotYet
from airflow_provider_dm.operators.relay import DmRelayOperator, DmRelayStopOperator, Until
from airflow_provider_dm.operators.relay_purge import DmRelayPurgeOperator
from airflow_provider_dm.sensors.relay import RelayCatchUpSensor
from testbed import Server
from tests.airflow.support import Define, RunDag, context, later, states
from tests.waiting import wait_for

GOAL = Location("mysql-bin.000001", 500)


@pytest.fixture
def upstream(mysql_source: Server, connection: Define, work_dir: Path, forked_relays: None) -> Server:
    connection("replica_01", conn_type="dm_database", host=mysql_source.host, port=mysql_source.port, login="root")
    return mysql_source


def end_of_source() -> Location:
    with DmDatabaseHook("replica_01").get_conn() as session:
        return current_location(session)


@pytest.mark.parametrize("deferrable", [False, True], ids=["poked", "deferred"])
def test_pull_until_caught_up_then_wait_for_it(
    upstream: Server, unique_database: str, run_dag: RunDag, deferrable: bool
) -> None:
    upstream.sql(f"CREATE DATABASE `{unique_database}`")
    with DAG(f"pull_{deferrable}") as dag:
        pull = DmRelayOperator(task_id="pull", source="replica_01", until="caught-up", deferrable=deferrable)
        wait = RelayCatchUpSensor(
            task_id="wait", source_id="replica_01", deferrable=deferrable, poke_interval=1, timeout=300
        )
        stop = DmRelayStopOperator(task_id="stop", source_ids=["replica_01"])
        pull >> wait >> stop
    goal = end_of_source()

    run = run_dag(dag)

    assert states(run) == {"pull": "success", "wait": "success", "stop": "success"}
    if not deferrable:  # its own relay has ended by itself
        (pulled,) = (ti for ti in run.get_task_instances() if ti.task_id == "pull")
        result = pulled.xcom_pull(task_ids="pull")
        assert (result["stage"], result["caught_up"]) == ("Finished", True)
    hook = RelayLogHook()
    status = hook.status("replica_01")
    assert status is not None
    assert status.stage is Stage.FINISHED
    files = hook.list_files("replica_01")
    assert str(files[-1].file) == goal.file
    assert files[-1].size >= goal.position
    with DmMetadataHook().get_store() as store:
        assert store.relay_desired("replica_01") is Stage.STOPPED


def test_a_purge_by_the_rules_of_the_source_keeps_what_a_task_needs(upstream: Server, run_dag: RunDag) -> None:
    of_source = {"source-id": "replica_01", "purge": {"remain-space": 1 << 30}}
    off = {**of_source, "purge": {"interval": 0}}
    first = end_of_source()
    for _ in range(3):
        upstream.sql("FLUSH BINARY LOGS")
    with DmMetadataHook().get_store() as store:
        store.put_subtask("shop", "replica_01", unit=Unit.SYNC, stage=Stage.STOPPED, needed=first)
        with DAG("purge_by_rules") as dag:
            pull = DmRelayOperator(task_id="pull", source=off, until="caught-up")
            kept = DmRelayPurgeOperator(task_id="kept", source=of_source)
            pull >> kept >> DmRelayPurgeOperator(task_id="off", source=off)
        run = run_dag(dag)
        assert set(states(run).values()) == {"success"}
        held = RelayLogHook().list_files("replica_01")
        assert str(held[0].file) == first.file, held
        found = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
        assert "stays: task shop (Stopped) needs" in found["kept"]["kept"]
        assert found["off"] == {"source": "replica_01", "preview": False, "files": [], "bytes": 0, "kept": ""}

        store.put_subtask("shop", "replica_01", unit=Unit.SYNC, stage=Stage.STOPPED, needed=end_of_source())
        preview = DmRelayPurgeOperator(task_id="preview", source=of_source, preview=True).execute(context())
        assert RelayLogHook().list_files("replica_01") == held
        found = DmRelayPurgeOperator(task_id="again", source=of_source).execute(context())
    assert preview == {**found, "preview": True}
    assert found["files"] == [f"{one.path.parent.name}/{one.file}" for one in held[:-1]]
    assert len(RelayLogHook().list_files("replica_01")) == 1


@pytest.mark.parametrize(("until", "deferrable"), [("stopped", False), ("stopped", True), ("caught-up", True)])
def test_a_source_that_denies_the_login_fails_the_task_without_a_retry(
    mariadb_source: Server,
    connection: Define,
    work_dir: Path,
    run_dag: RunDag,
    capfd: pytest.CaptureFixture[str],
    until: Until,
    deferrable: bool,
) -> None:
    host = {"host": mariadb_source.host, "port": mariadb_source.port}
    connection("replica_01", conn_type="dm_database", **host, login="nobody", password="c4nary-relay")
    with DAG(f"pull_denied_{until}_{deferrable}") as dag:
        DmRelayOperator(task_id="pull", source="replica_01", until=until, deferrable=deferrable, retries=3)

    run = run_dag(dag)

    (ti,) = run.get_task_instances()
    assert (ti.state, ti.try_number) == ("failed", 1)
    output = "".join(capfd.readouterr())
    assert "DM-2002" in output
    assert "c4nary-relay" not in output
    # With a goal, the task asks its source for that before it starts a relay: there is no row to judge then.
    ended = RelayLogHook().status("replica_01")
    assert isinstance(progress_to(ended, GOAL), NotYet if ended is None else Broken)
    assert (ended is None) is (until == "caught-up")


def test_a_relay_on_another_machine_is_watched_and_not_doubled(
    mariadb_source: Server, connection: Define, work_dir: Path, run_dag: RunDag
) -> None:
    connection("replica_01", conn_type="dm_database", host=mariadb_source.host, port=mariadb_source.port, login="root")
    goal = end_of_source()
    elsewhere = {"pid": 4711, "host": "elsewhere", "stage": Stage.RUNNING}
    say(relay=goal.at(4), **elsewhere)
    with DAG("watch_elsewhere") as dag:
        DmRelayOperator(task_id="pull", source="replica_01", until="caught-up", deferrable=True)
    reports = later(3.0, DmMetadataHook().get_store(), put, relay=goal, **elsewhere)

    run = run_dag(dag)

    reports.join()
    assert states(run) == {"pull": "success"}
    assert not (work_dir / "relay" / "replica_01").exists()


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_task_starts_its_own_relay_after_an_error_of_another(
    upstream: Server, work_dir: Path, run_dag: RunDag, deferrable: bool
) -> None:
    elsewhere = {"pid": 4711, "host": "elsewhere", "stage": Stage.RUNNING}
    say(**elsewhere)
    with DAG(f"own_{deferrable}") as dag:
        DmRelayOperator(task_id="pull", source="replica_01", until="caught-up", deferrable=deferrable)
    error = {"ErrCode": "DM-2002", "Message": "an old password"}
    ends = later(3.0, DmMetadataHook().get_store(), put, **elsewhere | {"pid": None, "error": error})

    run = run_dag(dag)

    ends.join()
    assert states(run) == {"pull": "success"}
    assert (work_dir / "relay" / "replica_01").exists()


def test_a_relay_of_a_worker_is_started_again_until_its_task_is_killed(upstream: Server) -> None:
    names = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    pull = DmRelayOperator(task_id="pull", source="replica_01")

    def living(*earlier: int | None) -> int | None:
        status = RelayLogHook().status("replica_01")
        return status.pid if status is not None and status.pid not in earlier else None

    with ThreadPoolExecutor(1) as worker:
        ended = worker.submit(pull.execute, context(**names))
        first = wait_for(living)
        assert first is not None
        os.kill(first, signal.SIGTERM)
        second = wait_for(lambda: living(first))
        pull.on_kill()
        with pytest.raises(AirflowException, match="the relay of replica_01 was ended with its task"):
            ended.result(timeout=120)
    assert living() is None, second


@pytest.mark.parametrize("end_from_trigger", [True, False], ids=["ends-in-triggerer", "resumes-on-worker"])
def test_a_deferred_sensor_notices_later_events(work_dir: Path, run_dag: RunDag, end_from_trigger: bool) -> None:
    say(stage=Stage.RUNNING, relay=Location("mysql-bin.000001", 4))
    with DAG(f"deferred_{end_from_trigger}") as dag:
        RelayCatchUpSensor(
            task_id="wait",
            source_id="replica_01",
            min_location=str(GOAL),
            deferrable=True,
            end_from_trigger=end_from_trigger,
            poke_interval=1,
        )
    reports = later(3.0, DmMetadataHook().get_store(), put, stage=Stage.RUNNING, relay=GOAL)

    run = run_dag(dag)

    reports.join()
    assert states(run) == {"wait": "success"}


def test_a_sensor_that_runs_out_of_time_fails_or_skips_in_both_modes(work_dir: Path, run_dag: RunDag) -> None:
    say(stage=Stage.RUNNING, relay=Location("mysql-bin.000001", 4))
    with DAG("too_late") as dag:
        for deferrable in (True, False):
            for soft_fail in (True, False):
                RelayCatchUpSensor(
                    task_id=f"{'deferred' if deferrable else 'poked'}_{'soft' if soft_fail else 'hard'}",
                    source_id="replica_01",
                    min_location=str(GOAL),
                    deferrable=deferrable,
                    soft_fail=soft_fail,
                    poke_interval=0.5,
                    timeout=1,
                )
    assert states(run_dag(dag)) == {
        "deferred_soft": "skipped",
        "deferred_hard": "failed",
        "poked_soft": "skipped",
        "poked_hard": "failed",
    }


def say(**parts: Any) -> None:
    with DmMetadataHook().get_store() as store:
        put(store, **parts)


def put(store: MetaStore, **parts: Any) -> None:
    store.put_relay_status(RelayStatus("replica_01", **parts))


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_with_soft_fail_skips_after_a_failed_first_poke(deferrable: bool, work_dir: Path) -> None:
    wait = RelayCatchUpSensor(task_id="wait", source_id="nobody", deferrable=deferrable, soft_fail=True, timeout=60)
    with pytest.raises(AirflowSkipException, match="has no login" if deferrable else "soft_fail"):
        wait.execute(context())


def test_a_rescheduled_sensor_keeps_its_goal_and_a_cleared_one_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([goal_text(GOAL), goal_text(GOAL.at(GOAL.position + 1))])
    monkeypatch.setattr("airflow_provider_dm.sensors.base.end_of_source", lambda *_: next(ends))
    waits = [RelayCatchUpSensor(task_id="wait", source_id="replica_01", mode="reschedule") for _ in range(4)]
    kept: dict[str, str] = {}
    state = SimpleNamespace(get=kept.get, set=kept.__setitem__)
    contexts: list[Any] = [{"task_state_store": state, "ti": SimpleNamespace(try_number=n)} for n in (1, 1, 2, 2)]
    goals = [
        goal_of(wait._goal_of(context, None, "replica_01", None)) for wait, context in zip(waits, contexts, strict=True)
    ]
    assert [goal.position - GOAL.position for goal in goals] == [0, 0, 1, 1]
