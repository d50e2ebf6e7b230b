"""The example DAGs run as they are, with their Params, against real servers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dags import dm_micro_batches, dm_one_source
from testbed import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
RunDag = Callable[..., Any]


def test_one_source_is_migrated_and_then_followed_in_batches(
    mysql_source: Server,
    mysql_target: Server,
    unique_database: str,
    connection: Callable[..., None],
    work_dir: Path,
    tmp_path: Path,
    run_dag: RunDag,
) -> None:
    for conn_id, server in {"example_01": mysql_source, "dm_target_default": mysql_target}.items():
        server.create_user("example", "c4nary-of-the-example")
        where = {"host": server.host, "port": server.port}
        connection(conn_id, conn_type="dm_database", **where, login="example", password="c4nary-of-the-example")
    connection("spark_default", conn_type="spark", host="local[2]")
    mysql_source.sql(
        f"CREATE DATABASE {unique_database}; CREATE TABLE {unique_database}.t (id INT PRIMARY KEY);"
        f"INSERT INTO {unique_database}.t VALUES (1), (2)"
    )
    task = {
        "name": unique_database,
        "task-mode": "all",
        "meta-schema": f"{unique_database}_meta",
        "mysql-instances": [{"source-id": "example_01", "block-allow-list": "ours"}],
        "block-allow-list": {"ours": {"do-dbs": [unique_database]}},
    }
    file = tmp_path / "task.yaml"
    file.write_text(yaml.safe_dump(task))
    params = {"task": str(file)}

    run = run_dag(dm_one_source.dag, run_conf=params)
    assert {ti.task_id: ti.state for ti in run.get_task_instances()} == dict.fromkeys(
        [f"migration.{one}" for one in ("precheck", "full_migration", "incremental_sync", "verify")], "success"
    )
    (batch,) = run_dag(dm_micro_batches.dag, run_conf=params).get_task_instances()
    assert batch.state == "success"
    assert batch.xcom_pull(task_ids="incremental_sync")["status"] == "finished"
    assert mysql_target.sql(f"SELECT COUNT(*) FROM {unique_database}.t")[0] == (2,)
