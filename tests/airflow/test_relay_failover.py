"""The sensor beside a real relay whose upstream is replaced: GTID sets carry the goal over, positions do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_provider_dm.hooks.database import DmDatabaseHook
from airflow_provider_dm.hooks.relay import RelayLogHook, goal_text, progress_to, server_goal
from airflow_provider_dm.launch.awaited import NotYet
from airflow_provider_dm.operators.relay import DmRelayOperator
from airflow_provider_dm.sensors.relay import RelayCatchUpSensor
from tests.conftest import StartServers
from tests.integration.relay.replicas import has_all_of, promote, replicate, replicated


def test_a_goal_of_the_old_server_is_reached_on_the_new_one(
    start_own: StartServers,
    connection: Callable[..., None],
    work_dir: Path,
    run_dag: Callable[..., Any],
    forked_relays: None,
) -> None:
    old, new = start_own(*replicated("old", "new", "mariadb", ("--log-slave-updates=ON",)))
    replicate(old, new)
    old.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    pull: dict[str, Any] = {"source": {"source-id": "moved", "enable-gtid": True}, "until": "caught-up"}

    connection("moved", conn_type="dm_database", host=old.host, port=old.port, login="root")
    with DAG("before") as before:
        DmRelayOperator(task_id="pull", **pull)
    assert run_dag(before).state == "success"
    old.sql("INSERT INTO d.t VALUES (1)")
    goal = server_goal(DmDatabaseHook("moved").endpoint())
    has_all_of(old, new)
    old.kill()
    promote(new)
    new.sql("INSERT INTO d.t VALUES (2)")
    assert isinstance(progress_to(RelayLogHook().status("moved"), goal), NotYet)

    connection("moved", conn_type="dm_database", host=new.host, port=new.port, login="root")
    with DAG("after") as after:
        relay = DmRelayOperator(task_id="pull", deferrable=True, **pull)
        kept = RelayCatchUpSensor(task_id="kept", source_id="moved", min_location=goal_text(goal), timeout=20)
        asked = RelayCatchUpSensor(task_id="asked", source_id="moved", timeout=20)
        relay >> [kept, asked]
    run = run_dag(after)

    assert {ti.task_id: ti.state for ti in run.get_task_instances()} == dict.fromkeys(
        ("pull", "kept", "asked"), "success"
    )
    status = RelayLogHook().status("moved")
    assert status is not None
    assert status.relay is not None
    assert status.relay.suffix == 2
    assert status.relay.file < goal.file  # by number the goal is still ahead
