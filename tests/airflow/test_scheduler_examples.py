"""A user triggers example DAGs: one migration, batches, a sync without an end, its relay's maintenance and the
cut-over. A form is filled in once; the other DAGs are triggered by the API. The sharded merge with DDL is
test_scheduler_shard_ddl.py."""

import time
from collections.abc import Iterator

import pytest
import yaml
from playwright.sync_api import Page

from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import connected, running, trigger, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(1800)]
SCHEMA, TASK, SOURCE = "t_examples", "examples", "examples_01"
READS_SECONDS = 8.0
MIGRATION = {f"migration.{one}" for one in ("precheck", "full_migration", "incremental_sync", "verify")}
CUT_OVER = {
    *("small_lag", "writes_stopped", "sources", "applied", "nothing_held"),
    *("verify", "switched", "stop_sync"),
}


@pytest.fixture
def servers(airflow: Airflow, mysql_source: Server, mariadb_target: Server) -> Iterator[tuple[Server, Server]]:
    both = {SOURCE: mysql_source, "examples_target": mariadb_target}
    mysql_source.sql(f"CREATE DATABASE {SCHEMA}; CREATE TABLE {SCHEMA}.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)")
    with connected(airflow, both, "c4nary-of-the-examples", SCHEMA):
        yield mysql_source, mariadb_target


def approve(airflow: Airflow, run: str, task: str) -> None:
    """Answer as late as a user would, and again where the task asks again."""
    airflow.api.wait_for_task("dm_cut_over", run, task, states=("awaiting_input",), seconds=240)
    asked = f"/dags/dm_cut_over/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
    since = time.monotonic()
    while (state := airflow.api.task("dm_cut_over", run, task).state) != "success":
        if state != "awaiting_input" or airflow.api.call("GET", asked)["response_received"]:
            since = time.monotonic()
        elif time.monotonic() - since > READS_SECONDS:
            airflow.api.call("PATCH", asked, {"chosen_options": ["Approve"], "params_input": {}})
        time.sleep(1)


def trigger_again(airflow: Airflow, dag: str, **params: str) -> str:
    """Trigger a DAG that has the form of `dm_one_source`."""
    airflow.api.wait_for_dag(dag)
    forms = [airflow.api.call("GET", f"/dags/{one}/details")["params"] for one in ("dm_one_source", dag)]
    assert forms[0] == forms[1]
    return airflow.api.trigger(dag, params)


def task_file(airflow: Airflow) -> str:
    task = {
        "name": TASK,
        "task-mode": "all",
        "meta-schema": f"{SCHEMA}_meta",
        "mysql-instances": [{"source-id": SOURCE, "block-allow-list": "ours"}],
        "block-allow-list": {"ours": {"do-dbs": [SCHEMA]}},
    }
    path = airflow.home / f"{TASK}.yaml"
    path.write_text(yaml.safe_dump(task))
    return str(path)


def test_from_a_migration_to_the_cut_over(airflow: Airflow, servers: tuple[Server, Server], page: Page) -> None:
    source, target = servers
    file, api = task_file(airflow), airflow.api
    source.sql(f"INSERT INTO {SCHEMA}.t (n) VALUES (1)")
    migrated = trigger(page, airflow, "dm_one_source", task=file, target="examples_target")
    assert api.wait_for_run("dm_one_source", migrated, seconds=400) == "success"
    ended = [one for one in api.tasks("dm_one_source", migrated) if one.state == "success"]
    assert {one.task_id for one in ended} == MIGRATION
    logs = {one.task_id: api.log("dm_one_source", migrated, one.task_id, one.try_number) for one in ended}
    unreadable = ("Traceback", "error_detail", "NativeCodeLoader", "c4nary", "Will assume", "follow,")
    assert [(task, word) for task, log in logs.items() for word in unreadable if word in log] == []
    assert all("app.log" in logs[f"migration.{task}"] for task in ("full_migration", "verify"))

    batch = trigger_again(airflow, "dm_micro_batches", task=file, target="examples_target")
    assert api.wait_for_run("dm_micro_batches", batch, seconds=400) == "success"
    assert api.xcom("dm_micro_batches", batch, "incremental_sync")["status"] == "finished"
    api.pause("dm_micro_batches")  # the next one would hold up the sync

    sync = trigger_again(airflow, "dm_continuous_sync", task=file, target="examples_target")
    source.sql(f"INSERT INTO {SCHEMA}.t (n) VALUES (2), (3)")
    wait_for(lambda: target.sql(f"SELECT COUNT(*) FROM {SCHEMA}.t")[0] == (3,), seconds=400)
    api.wait_for_task("dm_continuous_sync", sync, "incremental_sync", states=("deferred",), seconds=400)

    care = api.trigger("dm_relay_maintenance", {"task": file})
    run = trigger_again(airflow, "dm_cut_over", task=file, target="examples_target")
    approve(airflow, run, "writes_stopped")
    assert airflow.api.wait_for_run("dm_relay_maintenance", care, seconds=400) == "success"
    approve(airflow, run, "switched")

    assert airflow.api.wait_for_run("dm_cut_over", run, seconds=400) == "success"
    assert {one.task_id for one in airflow.api.tasks("dm_cut_over", run) if one.state == "success"} == CUT_OVER
    wait_for(lambda: not running(airflow, b"launch.detached"), seconds=400)
    assert airflow.api.wait_for_run("dm_continuous_sync", sync, seconds=400) == "failed"
    assert "DM-9064" in airflow.api.log("dm_continuous_sync", sync, "incremental_sync")
