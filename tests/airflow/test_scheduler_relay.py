"""In a real Airflow: a deferred task whose relay is a process of its own, through everything that may happen to either.

Both DAG runs are started at once, and their relays live beside each other: what one test waits for, the other does."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.hooks.relay import goal_of, progress_to
from airflow_provider_dm.launch.awaited import NotYet
from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import arguments, files_with, restart_triggerer, running, wait_for

CANARY = "c4nary-of-the-deferred"
STOPPED_DAG, MARKED_DAG = "relay_deferred", "relay_deferred_for_ever"
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Deferred:
    """Two runs, each with a deferred task `pull`."""

    airflow: Airflow
    server: Server
    store: MetaStore
    stopped_run: str
    marked_run: str
    goal: str
    """A file of the source that does not exist yet."""
    far: str
    """One that will not exist."""

    def pid(self, source_id: str) -> int:
        """Return the pid of the living relay, as it reports itself; 0: there is none."""
        status = self.store.relay_status(source_id)
        alive = status is not None and status.pid in running(self.airflow, b"airflow_provider_dm.engine.relay")
        return status.pid or 0 if status is not None and alive else 0

    def stage(self, source_id: str) -> Stage | None:
        status = self.store.relay_status(source_id)
        return status.stage if status is not None else None

    def state(self, dag: str, run: str) -> tuple[str | None, int]:
        task = self.airflow.api.task(dag, run, "pull")
        return task.state, task.try_number


@pytest.fixture(scope="module")
def deferred(airflow: Airflow, mariadb_source: Server) -> Iterator[Deferred]:
    server = mariadb_source
    server.create_user("canary_deferred", CANARY)
    for conn_id in ("deferred_source", "marked_source"):
        where = {"host": server.host, "port": server.port}
        airflow.api.put_connection(conn_id, conn_type="dm_database", **where, login="canary_deferred", password=CANARY)
    file = server.log_end()[0]
    base, _, number = file.rpartition(".")
    goal, far = (f"{base}.{int(number) + more:06d}:4" for more in (1, 1000))
    stopped_run = airflow.api.trigger(STOPPED_DAG, {"goal": goal})
    marked_run = airflow.api.trigger(MARKED_DAG)
    for dag, run in ((STOPPED_DAG, stopped_run), (MARKED_DAG, marked_run)):
        airflow.api.wait_for_task(dag, run, "pull", states=("deferred",), seconds=240)
    with MetaStore.open(Secret(f"sqlite:///{airflow.home / 'dm' / 'meta.db'}")) as store:
        yield Deferred(airflow, server, store, stopped_run, marked_run, goal, far)
        for source_id in ("deferred_source", "marked_source"):  # where a test has failed
            store.set_relay_desired(source_id, Stage.STOPPED)


def test_a_relay_survives_its_triggerer_and_is_restarted_until_it_is_stopped(deferred: Deferred) -> None:
    """One run of one attempt: the triggerer restarts, the relay is killed, and at last the same DAG stops it."""
    airflow, run = deferred.airflow, deferred.stopped_run
    first = deferred.pid("deferred_source")
    assert first
    assert CANARY.encode() not in arguments(first)
    worker = airflow.api.task(STOPPED_DAG, run, "pull").pid
    assert worker is None or not arguments(worker)  # no process of Airflow waits for it

    restart_triggerer(airflow)
    assert deferred.pid("deferred_source") == first
    assert deferred.store.relay_desired("deferred_source") is Stage.RUNNING
    os.kill(first, signal.SIGKILL)

    wait_for(lambda: deferred.pid("deferred_source") not in (0, first))
    wait_for(lambda: deferred.state(STOPPED_DAG, run) == ("deferred", 1))
    deferred.server.sql("FLUSH LOGS")  # the goal is there now
    assert airflow.api.wait_for_run(STOPPED_DAG, run, seconds=240) == "success"
    tasks = {task.task_id: (task.state, task.try_number) for task in airflow.api.tasks(STOPPED_DAG, run)}
    assert tasks == {"pull": ("success", 1), "reached": ("success", 1), "stop": ("success", 1)}
    result = airflow.api.xcom(STOPPED_DAG, run, "pull")
    assert result["stage"] == "Stopped"
    assert result["location"].rpartition(":")[0] >= deferred.goal.rpartition(":")[0]
    assert not deferred.pid("deferred_source")
    goal_file = deferred.goal.rpartition(":")[0]

    def is_noticed() -> bool:
        """Return True if Airflow has an asset event of a location after the goal, which the asset's watcher saw."""
        found = [one["extra"]["payload"] for one in airflow.api.call("GET", "/assets/events")["asset_events"]]
        return any(one["location"].rpartition(":")[0] >= goal_file for one in found)

    wait_for(is_noticed)
    wait_for(lambda: airflow.api.call("GET", "/dags/relay_advanced/dagRuns")["total_entries"])
    log = airflow.api.log(STOPPED_DAG, run, "pull")
    assert f"process {first} on" in log
    assert "has not reported for" in log
    assert CANARY not in log
    assert files_with(CANARY, airflow.home) == []


def test_a_cleared_task_adopts_its_relay_and_a_task_marked_as_failed_ends_it(deferred: Deferred) -> None:
    airflow, run = deferred.airflow, deferred.marked_run
    assert deferred.pid("marked_source")  # neither the other run's restarts nor its stop were meant for this one
    assert deferred.state(MARKED_DAG, run) == ("deferred", 1)

    deferred.store.set_relay_desired("marked_source", Stage.PAUSED)
    wait_for(lambda: deferred.stage("marked_source") is Stage.PAUSED)
    assert isinstance(progress_to(deferred.store.relay_status("marked_source"), goal_of(deferred.far)), NotYet)

    body = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": ["pull"]}
    airflow.api.call("POST", f"/dags/{MARKED_DAG}/clearTaskInstances", body)
    wait_for(lambda: deferred.state(MARKED_DAG, run) == ("deferred", 2))
    # Airflow tells a trigger of a user's deed only once it runs.
    wait_for(lambda: " starting" in airflow.api.log(MARKED_DAG, run, "pull", try_number=2))
    assert deferred.pid("marked_source")
    assert deferred.store.relay_desired("marked_source") is not Stage.STOPPED
    deferred.store.set_relay_desired("marked_source", Stage.RUNNING)
    wait_for(lambda: deferred.stage("marked_source") is Stage.RUNNING)

    airflow.api.set_task_state(MARKED_DAG, run, "pull", "failed")
    wait_for(lambda: not deferred.pid("marked_source"))
    assert deferred.store.relay_desired("marked_source") is Stage.STOPPED
    assert airflow.api.wait_for_run(MARKED_DAG, run, seconds=240) == "failed"
