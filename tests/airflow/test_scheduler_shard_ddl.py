"""In a real Airflow: the example DAG in which a user decides about DDL that two sources have made differently."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import load_task
from airflow_provider_dm.engine.meta.migrate import open_migrated
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.reported import EXIT_FINISHED
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.supervisor import Supervisor
from airflow_provider_dm.launch.workdir import TaskDir
from testbed import Server
from testbed.airflow import Airflow
from testbed.airflow_api import TaskState
from tests.airflow.support import connected, files_with

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
CANARY = "c4nary-of-the-shards"
DAG_ID = "dm_shard_ddl"
PLAIN: Final = Path(__file__).parents[1] / "chaos/plain_sync.py"
SCHEMA = "t_shard_ddl"
SHARDS = {"mariadb-01": f"{SCHEMA}.o_1", "mysql-02": f"{SCHEMA}.o_2"}
READS_SECONDS: Final = 10
"""The time in which a user reads the request."""
Servers = dict[str, Server]


@pytest.fixture
def servers(airflow: Airflow, mariadb_source: Server, mysql_source: Server, mysql_target: Server) -> Iterator[Servers]:
    found = {"mariadb-01": mariadb_source, "mysql-02": mysql_source, "dm_target_default": mysql_target}
    for conn_id, server in found.items():
        table = SHARDS.get(conn_id, f"{SCHEMA}.o")
        server.sql(f"CREATE DATABASE {SCHEMA}; CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
    with connected(airflow, found, CANARY, SCHEMA):
        yield found


def task_file(airflow: Airflow, servers: Servers) -> str:
    """The task, from the end of both logs on: the tables are as empty as the target's."""
    instances = []
    for source in ("mariadb-01", "mysql-02"):
        file, position = servers[source].log_end()
        meta = {"binlog-name": file, "binlog-pos": position}
        rules = {"block-allow-list": "ours", "route-rules": ["merge"]}
        instances.append({"source-id": source, "meta": meta, **rules})
    merge = {"schema-pattern": SCHEMA, "table-pattern": "o_*", "target-schema": SCHEMA, "target-table": "o"}
    task = {
        "name": "shard_ddl",
        "task-mode": "incremental",
        "is-sharding": True,
        "meta-schema": f"{SCHEMA}_meta",
        "mysql-instances": instances,
        "block-allow-list": {"ours": {"do-dbs": [SCHEMA]}},
        "routes": {"merge": merge},
    }
    path = airflow.home / "shard_ddl.yaml"
    path.write_text(yaml.safe_dump(task))
    return str(path)


def differ(airflow: Airflow, servers: Servers, task_file: str) -> None:
    """Let the task begin, by the sync that does without Spark, and make different DDL."""
    task, root = load_task(Path(task_file)), airflow.home / "dm"
    configs = tuple(SourceConfig(source_id=one, enable_relay=True) for one in SHARDS)
    logins = {name: Endpoint(name, server.host, server.port, "root") for name, server in servers.items()}
    inputs = Inputs(task, configs, tuple(logins[one] for one in SHARDS), logins["dm_target_default"])
    root.mkdir(mode=0o700, exist_ok=True)
    directory, url = TaskDir.of(task.name, root), Secret(f"sqlite:///{root / 'meta.db'}")
    open_migrated(url).close()
    upstreams = inputs.upstreams(directory, "caught-up")
    with MetaStore.open(url) as store, Relays(upstreams, meta_url=url, log_dir=directory.path):
        holder = Holder(identity="test", attempt="1", host="here")
        supervisor = Supervisor(inputs, upstreams, store, url, holder, SparkSettings())

        def sync() -> int:
            job = supervisor.job("incremental_sync", "caught-up")
            spec = directory.run(job.spec.run_id) / "job.json"
            job.spec.write(spec)
            argv = [sys.executable, str(PLAIN), str(spec)]
            return subprocess.run(argv, env={**os.environ, **job.secrets.by_name}, check=False, timeout=120).returncode

        assert sync() == EXIT_FINISHED  # a DDL of shards has to come after where it began
        for number, (source, kind) in enumerate((("mariadb-01", "int"), ("mysql-02", "bigint"))):
            table = SHARDS[source]
            servers[source].sql(f"INSERT INTO {table} VALUES ({number}, 1)")
            servers[source].sql(f"ALTER TABLE {table} ADD c {kind}; INSERT INTO {table} VALUES ({10 + number}, 2, 3)")


def states(airflow: Airflow, run: str) -> dict[str, str | None]:
    return {one.task_id: one.state for one in airflow.api.tasks(DAG_ID, run)}


def test_a_user_decides_in_airflow_whose_ddl_is_run(airflow: Airflow, servers: Servers) -> None:
    api, task = airflow.api, task_file(airflow, servers)
    differ(airflow, servers, task)
    run = api.trigger(DAG_ID, {"task": task, "target": "dm_target_default"})
    api.wait_for_task(DAG_ID, run, "ask", states=("awaiting_input",), seconds=300)

    ended = states(airflow, run)
    assert (ended["sync"], ended["agreed"]) == ("failed", "failed")
    asked = f"/dags/{DAG_ID}/dagRuns/{run}/taskInstances/ask/-1/hitlDetails"
    detail = api.call("GET", asked)
    for source, kind in (("mariadb-01", "int"), ("mysql-02", "bigint")):
        assert f"{source} has executed:\n\n    ALTER TABLE `{SCHEMA}`.`o` ADD COLUMN `c` {kind}" in detail["body"]
    answer = "Execute the DDL of mysql-02"
    assert answer in detail["options"]

    waits_since: list[float] = []

    def reply(tasks: list[TaskState]) -> None:
        """Answer as late as a user would, and again where the task asks again: Airflow takes a task for failed that
        is resumed before its process is known to have ended, as one that fires too soon (issues 71580, 72716)."""
        if not [one for one in tasks if (one.task_id, one.state) == ("ask", "awaiting_input")]:
            waits_since.clear()
            return
        waits_since.append(time.monotonic())
        if time.monotonic() - waits_since[0] > READS_SECONDS and not api.call("GET", asked)["response_received"]:
            api.call("PATCH", asked, {"chosen_options": [answer], "params_input": {}})

    assert api.wait_for_run(DAG_ID, run, seconds=300, each_poll=reply) == "success"
    ended = states(airflow, run)
    assert ended["run_that_of_mysql-02"] == ended["sync_again"] == ended["synced"] == "success"
    assert ended["run_that_of_mariadb-01"] == ended["made_by_hand"] == ended["later"] == "skipped"
    assert api.xcom(DAG_ID, run, "sync_again")["status"] == "finished"
    decided = api.xcom(DAG_ID, run, "run_that_of_mysql-02")
    assert (decided["owner"], decided["decision"]) == ("mysql-02", "exec")
    target = servers["dm_target_default"]
    assert target.sql(f"SELECT * FROM {SCHEMA}.o ORDER BY id") == [(0, 1, None), (1, 1, None), (10, 2, 3), (11, 2, 3)]
    kinds = "SELECT column_type FROM information_schema.columns WHERE table_schema = %s AND column_name = 'c'"
    assert target.sql(kinds, [SCHEMA]) == [("bigint",)]
    assert files_with(CANARY, airflow.home) == []
