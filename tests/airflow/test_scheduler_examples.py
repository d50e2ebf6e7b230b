"""A person triggers example DAGs from Airflow's form: a sync without an end, its relay's maintenance, the cut-over."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import running, sync_task, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(600)]
SCHEMA, TASK, SOURCE = "t_examples", "examples", "examples_01"
READS_SECONDS = 8.0
CUT_OVER = {
    *("small_lag", "writes_stopped", "sources", "applied", "nothing_held"),
    *("verify", "switched", "stop_sync"),
}


@pytest.fixture
def servers(airflow: Airflow, mysql_source: Server, mariadb_target: Server) -> Iterator[tuple[Server, Server]]:
    both = {SOURCE: mysql_source, "examples_target": mariadb_target}
    for conn_id, server in both.items():
        server.create_user("examples", "c4nary-of-the-examples")
        where = {"host": server.host, "port": server.port, "login": "examples", "password": "c4nary-of-the-examples"}
        airflow.api.put_connection(conn_id, conn_type="dm_database", **where)
        server.sql(f"CREATE DATABASE {SCHEMA}; CREATE TABLE {SCHEMA}.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)")
    airflow.api.put_connection("spark_default", conn_type="spark", host="local[1]")
    yield mysql_source, mariadb_target
    for server in both.values():
        server.sql(f"DROP DATABASE IF EXISTS {SCHEMA}; DROP DATABASE IF EXISTS {SCHEMA}_meta")


def trigger(page: Page, airflow: Airflow, dag: str, **params: str) -> str:
    """Fill in the form of a DAG's Params, press Trigger and return the run."""
    page.goto(f"{airflow.url}/dags/{dag}")
    page.get_by_role("button", name=re.compile("^Trigger")).first.click()
    dialog = page.get_by_role("dialog")
    for name, value in params.items():
        dialog.locator(f"#element_{name}").fill(value)
    dialog.get_by_role("button", name="Trigger", exact=True).click()
    page.wait_for_url(re.compile("/runs/"))
    (run, *_) = airflow.api.call("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
    return str(run["dag_run_id"])


def approve(airflow: Airflow, run: str, task: str) -> None:
    """Answer as late as a person would, and again where the task asks again."""
    airflow.api.wait_for_task("dm_cut_over", run, task, states=("awaiting_input",), seconds=240)
    asked = f"/dags/dm_cut_over/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
    while airflow.api.task("dm_cut_over", run, task).state != "success":
        time.sleep(READS_SECONDS)
        if airflow.api.task("dm_cut_over", run, task).state == "awaiting_input":
            if not airflow.api.call("GET", asked)["response_received"]:
                airflow.api.call("PATCH", asked, {"chosen_options": ["Approve"], "params_input": {}})


def test_from_a_sync_without_an_end_to_the_cut_over(
    airflow: Airflow, servers: tuple[Server, Server], page: Page
) -> None:
    source, target = servers
    file = sync_task(airflow, source, name=TASK, source_id=SOURCE, schema=SCHEMA)
    sync = trigger(page, airflow, "dm_continuous_sync", task=file, target="examples_target")
    source.sql(f"INSERT INTO {SCHEMA}.t (n) VALUES (1), (2), (3)")
    wait_for(lambda: target.sql(f"SELECT COUNT(*) FROM {SCHEMA}.t")[0] == (3,), seconds=180)
    assert airflow.api.task("dm_continuous_sync", sync, "incremental_sync").state == "deferred"

    care = trigger(page, airflow, "dm_relay_maintenance", task=file)
    run = trigger(page, airflow, "dm_cut_over", task=file, target="examples_target")
    approve(airflow, run, "writes_stopped")
    assert airflow.api.wait_for_run("dm_relay_maintenance", care, seconds=120) == "success"
    approve(airflow, run, "switched")

    assert airflow.api.wait_for_run("dm_cut_over", run, seconds=120) == "success"
    assert {one.task_id for one in airflow.api.tasks("dm_cut_over", run) if one.state == "success"} == CUT_OVER
    wait_for(lambda: not running(airflow, b"launch.detached"), seconds=60)
    assert airflow.api.wait_for_run("dm_continuous_sync", sync, seconds=60) == "failed"
    assert "DM-9064" in airflow.api.log("dm_continuous_sync", sync, "incremental_sync")
