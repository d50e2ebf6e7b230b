"""The launcher and the Spark driver of a deferred task: a retry is never a second writer."""

import os
import signal
from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import Watch, arguments, connected, files_with, running, sync_task, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
CANARY = "c4nary-of-the-sync"
SCHEMA = "t_scheduled_sync"
DAG_ID = "sync_deferred"


@pytest.fixture
def pair(airflow: Airflow, mysql_source: Server, mariadb_target: Server) -> Iterator[tuple[Server, Server]]:
    servers = {"sync_source": mysql_source, "sync_target": mariadb_target}
    for server in servers.values():
        server.sql(f"CREATE DATABASE {SCHEMA}; CREATE TABLE {SCHEMA}.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)")
    with connected(airflow, servers, CANARY, SCHEMA):
        yield mysql_source, mariadb_target


def drivers(airflow: Airflow) -> list[int]:
    """The Python drivers, not the JVMs that started them."""
    found = running(airflow, b"spark_apps/incremental_sync.py")
    return [pid for pid in found if b"org.apache.spark" not in arguments(pid)]


def write(source: Server) -> None:
    source.sql(f"INSERT INTO {SCHEMA}.t (n) VALUES (1), (2), (3)")


def equal(pair: tuple[Server, Server]) -> bool:
    one, other = (server.sql(f"SELECT * FROM {SCHEMA}.t ORDER BY id") for server in pair)
    return one == other


def test_a_deferred_sync_outlives_workers_and_is_ended_by_a_user(airflow: Airflow, pair: tuple[Server, Server]) -> None:
    events = airflow.home / "events"
    events.mkdir()
    task = sync_task(airflow, pair[0], name="scheduled_sync", source_id="sync_source", schema=SCHEMA)
    with Watch(airflow, CANARY) as watch:
        run = airflow.api.trigger(DAG_ID, {"task": task, "events": str(events)})  # Spark keeps an event log
        airflow.api.wait_for_task(DAG_ID, run, "sync", states=("deferred",), seconds=240)
        write(pair[0])
        wait_for(lambda: equal(pair))
    (first,) = drivers(airflow)
    for program in (b"launch.detached", b"org.apache.spark", b"spark_apps/incremental_sync.py", b"engine.relay"):
        assert [one for one in watch.seen if program in one], program
    assert watch.exposed == set()
    assert [path for path in events.rglob("*") if path.is_file() and b"SparkListener" in path.read_bytes()]

    # kill -9 to the launcher: the driver goes, and the next attempt continues.
    (launcher,) = running(airflow, b"launch.detached")
    os.kill(launcher, signal.SIGKILL)
    wait_for(lambda: first not in drivers(airflow))
    write(pair[0])
    wait_for(lambda: equal(pair))
    assert airflow.api.task(DAG_ID, run, "sync").try_number == 2
    assert "DM-9024" in airflow.api.log(DAG_ID, run, "sync", 1)

    # It is cleared: the old run ends by that, whose stop is not taken for a user's, and continues with one driver.
    (second,) = drivers(airflow)
    body = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": ["sync"]}
    airflow.api.call("POST", f"/dags/{DAG_ID}/clearTaskInstances", body)
    wait_for(lambda: second not in drivers(airflow))
    write(pair[0])
    wait_for(lambda: equal(pair))
    assert airflow.api.wait_for_task(DAG_ID, run, "sync", states=("deferred",), seconds=240).try_number == 3
    assert len(drivers(airflow)) == 1

    # It is paused by a user.
    with MetaStore.open(f"sqlite:///{airflow.home / 'dm' / 'meta.db'}") as store:
        store.set_subtask_desired("scheduled_sync", "sync_source", Stage.PAUSED)
        wait_for(lambda: store.list_subtasks(task="scheduled_sync")[0].stage is Stage.PAUSED)

        # A user marks the task as failed: nothing of it runs any more, and what the user wanted stays.
        airflow.api.set_task_state(DAG_ID, run, "sync", "failed")
        wait_for(lambda: not running(airflow, b"launch.detached"))
        assert drivers(airflow) == []
        wait_for(lambda: store.list_subtasks(task="scheduled_sync")[0].desired is Stage.PAUSED)
        assert airflow.api.wait_for_run(DAG_ID, run, seconds=240) == "failed"
    assert files_with(CANARY, airflow.home) == []
