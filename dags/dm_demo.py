"""Merge the shards of a MariaDB and a MySQL into one database: full migration, incremental sync, cut-over.

The two sources and the target are Airflow connections; `dm_demo.task.yaml` next to this file is an ordinary DM task
file. The trigger form asks for that file and the target. The relay tasks run in parallel to the others
until `stop_relay` ends them. If shards of a merged table execute the same DDL at different times, `incremental_sync`
may end while it waits for some of them; `drain` continues.

`stop_writes` represents a step of every cut-over: the applications stop writing before the last changes are drained and
everything is compared. Here it stops the demo's writer; in your own DAG, use an approval instead.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_provider_dm.operators.full_migration import DmFullMigrationOperator
from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.precheck import DmPrecheckOperator
from airflow_provider_dm.operators.relay import DmRelayOperator, DmRelayStopOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator
from airflow_provider_dm.params import target_param, task_param
from airflow_provider_dm.sensors.relay import RelayCatchUpSensor
from airflow_provider_dm.sensors.shard_ddl import ShardDdlLockSensor

TASK = "{{ params.task }}"
SOURCES = ("mariadb-01", "mysql-02")
WRITER_POLL_SECONDS = 0.5
WRITER_STOP_TIMEOUT_SECONDS = 60


@task
def stop_writes(source: str) -> None:
    """Ask the demo's writer on `source` to stop and wait until it has."""
    import time

    from airflow_provider_dm.hooks.database import DmDatabaseHook

    connection = DmDatabaseHook(dm_database_conn_id=source).get_conn()
    try:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE dm_demo_control.writer SET stop_requested = 1")
            deadline = time.monotonic() + WRITER_STOP_TIMEOUT_SECONDS
            while cursor.execute("SELECT 1 FROM dm_demo_control.writer WHERE running = 1"):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the writer on {source} did not stop in {WRITER_STOP_TIMEOUT_SECONDS} s")
                time.sleep(WRITER_POLL_SECONDS)
    finally:
        connection.close()


with DAG(
    dag_id="dm_demo",
    description="Two sharded sources into one database, during writes",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "demo"],
    doc_md=__doc__,
    # A task whose process or Spark driver is killed resumes at its checkpoint in the target.
    default_args={"retries": 3, "retry_delay": timedelta(seconds=2), "target_conn_id": "{{ params.target }}"},
) as dag:
    precheck = DmPrecheckOperator(task_id="precheck", task=TASK)
    full_migration = DmFullMigrationOperator(task_id="full_migration", task=TASK)
    incremental_sync = DmIncrementalSyncOperator(task_id="incremental_sync", task=TASK, until="caught-up")
    drain = DmIncrementalSyncOperator(task_id="drain", task=TASK, until="caught-up")
    # A comparison would report held-back rows as differences: wait until all shards have executed their DDL.
    agreed = ShardDdlLockSensor(task_id="agreed", task=TASK, deferrable=True, timeout=600)
    verify = DmVerifyOperator(task_id="verify", task=TASK)
    writes_stopped = stop_writes.expand(source=list(SOURCES))
    stop_relay = DmRelayStopOperator(task_id="stop_relay", source_ids=list(SOURCES), trigger_rule="all_done")

    for source in SOURCES:
        precheck >> DmRelayOperator(task_id=f"relay_{source}", source=source, until="stopped")
        caught_up = RelayCatchUpSensor(
            task_id=f"relay_caught_up_{source}", source_id=source, deferrable=True, timeout=600
        )
        full_migration >> caught_up >> incremental_sync

    precheck >> full_migration
    incremental_sync >> writes_stopped >> drain >> agreed >> verify >> stop_relay
