"""Syncs that run until they are ended, in a worker and deferred. Run, and killed, by test_scheduler_sync.py."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param

from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.sensors.sync import CheckpointPassedSensor

COMMON: dict[str, Any] = {
    "task": "{{ params.task }}",
    "target_conn_id": "sync_target",
    "until": "forever",
    "retry_delay": 1,
}

with DAG("sync_for_ever", schedule=None, params={"task": Param("", type="string")}, catchup=False):
    DmIncrementalSyncOperator(task_id="sync", retries=3, spark_conf={"spark.ui.enabled": "true"}, **COMMON)

with DAG(
    "sync_deferred",
    schedule=None,
    params={"task": Param("", type="string"), "events": Param("", type="string")},
    catchup=False,
):
    event_log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": "{{ params.events }}",
    }
    DmIncrementalSyncOperator(task_id="sync", retries=1, deferrable=True, spark_conf=event_log, **COMMON)

with DAG("sync_for_a_while", schedule=None, params={"task": Param("", type="string")}, catchup=False):
    limit = timedelta(seconds=90)
    DmIncrementalSyncOperator(task_id="sync", retries=0, deferrable=True, execution_timeout=limit, **COMMON)

with DAG("many_sensors", schedule=None, catchup=False):
    sensor: Any = CheckpointPassedSensor.partial(
        task_id="passed", task="many", location="bin.000003:400", deferrable=True, poke_interval=1, timeout=300
    )
    sensor.expand(source_id=[f"s{number:02}" for number in range(8)])
