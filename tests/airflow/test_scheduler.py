"""In a real Airflow: tasks are isolated, run beside each other, are killed, and leave no secret anywhere."""

import os
import signal
from collections.abc import Callable

import pytest

from airflow_provider_dm.engine.meta.migrate import open_migrated
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import Watch, files_with, running, wait_for

CANARY = "c4nary-in-the-scheduler"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def source_of(airflow: Airflow, mariadb_source: Server) -> Callable[[str], Server]:
    """`source_of("scheduled_source")` makes that an Airflow connection, with the canary as its password."""
    mariadb_source.create_user("canary", CANARY)

    def define(conn_id: str) -> Server:
        where = {"host": mariadb_source.host, "port": mariadb_source.port}
        airflow.api.put_connection(conn_id, conn_type="dm_database", **where, login="canary", password=CANARY)
        return mariadb_source

    return define


def relays(airflow: Airflow) -> list[int]:
    """Pids of the relay processes of this Airflow."""
    return running(airflow, b"airflow_provider_dm.engine.relay")


def test_a_relay_runs_beside_a_sensor_until_it_is_stopped(airflow: Airflow, source_of: Callable[[str], Server]) -> None:
    server = source_of("scheduled_source")
    with Watch(airflow, CANARY) as watch:
        run = airflow.api.trigger("relay_until_stopped")
        airflow.api.wait_for_task("relay_until_stopped", run, "wait", states=("deferred", "success"), seconds=240)
        server.sql("FLUSH LOGS")
        assert airflow.api.wait_for_run("relay_until_stopped", run, seconds=240) == "success"

    tasks = {task.task_id: (task.state, task.try_number) for task in airflow.api.tasks("relay_until_stopped", run)}
    assert tasks == {"pull": ("success", 1), "wait": ("success", 1), "stop": ("success", 1)}
    assert airflow.api.xcom("relay_until_stopped", run, "pull")["stage"] == "Stopped"
    assert relays(airflow) == []
    assert any(b"engine.relay" in one for one in watch.seen)
    assert watch.exposed == set()
    assert CANARY not in airflow.api.log("relay_until_stopped", run, "pull")
    assert files_with(CANARY, airflow.home) == []  # logs, XComs and rendered fields in the database, job files


def test_a_relay_that_dies_is_started_again_and_ends_with_its_task(
    airflow: Airflow, source_of: Callable[[str], Server]
) -> None:
    source_of("endless_source")
    run = airflow.api.trigger("relay_for_ever")
    wait_for(lambda: relays(airflow))
    (first,) = relays(airflow)

    os.kill(first, signal.SIGKILL)

    wait_for(lambda: relays(airflow) not in ([], [first]))
    task = airflow.api.wait_for_task("relay_for_ever", run, "pull", seconds=240)
    assert task.try_number == 1

    # A relay never survives its task's process.
    (second,) = relays(airflow)
    assert task.pid is not None
    os.kill(task.pid, signal.SIGKILL)
    wait_for(lambda: second not in relays(airflow))  # the retry may have begun its own by then
    wait_for(lambda: relays(airflow))
    assert airflow.api.task("relay_for_ever", run, "pull").try_number == 2
    assert "died (exit code -9)" in airflow.api.log("relay_for_ever", run, "pull", try_number=1)

    # And a user who marks the task as failed ends the relay.
    airflow.api.set_task_state("relay_for_ever", run, "pull", "failed")
    wait_for(lambda: not relays(airflow))
    assert airflow.api.wait_for_run("relay_for_ever", run, seconds=240) == "failed"


def test_of_many_deferred_sensors_none_is_lost(airflow: Airflow) -> None:
    """Some are met before they are deferred, most while they are, in the same moment."""
    sources, here = [f"s{number:02}" for number in range(8)], Location("bin.000003", 400)
    with open_migrated(Secret(f"sqlite:///{airflow.home / 'dm' / 'meta.db'}")) as store:

        def pass_it(names: list[str]) -> None:
            for one in names:
                store.put_subtask("many", one, unit=Unit.SYNC, stage=Stage.STOPPED, needed=here, applied=here)

        pass_it(sources[:2])
        run = airflow.api.trigger("many_sensors")
        wait_for(
            lambda: sum(one.state == "deferred" for one in airflow.api.tasks("many_sensors", run)) >= 4, seconds=400
        )
        pass_it(sources[2:])
        assert airflow.api.wait_for_run("many_sensors", run, seconds=400) == "success"

    ended = [(one.state, one.try_number) for one in airflow.api.tasks("many_sensors", run)]
    assert ended == [("success", 1)] * 8
