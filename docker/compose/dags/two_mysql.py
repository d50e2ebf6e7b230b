"""Merge `app_01.orders` and `app_02.orders` of the two MySQL servers into `app.orders` in TiDB, on Spark's cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow.sdk import DAG

from airflow_provider_dm.operators.full_migration import DmFullMigrationOperator
from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.precheck import DmPrecheckOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator

SOURCES: Final = ("mysql-01", "mysql-02")
TARGET: Final = "dm_target_default"
TASK: Final = {
    "name": "two_mysql",
    "task-mode": "all",
    "mysql-instances": [
        {"source-id": source, "block-allow-list": "apps", "route-rules": ["merge"]} for source in SOURCES
    ],
    "block-allow-list": {"apps": {"do-dbs": ["app_*"]}},
    "routes": {
        "merge": {
            "schema-pattern": "app_*",
            "table-pattern": "orders",
            "target-schema": "app",
            "target-table": "orders",
        }
    },
}

with DAG(
    dag_id="two_mysql",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
):
    (
        DmPrecheckOperator(task_id="precheck", task=TASK, target_conn_id=TARGET)
        >> DmFullMigrationOperator(task_id="full_migration", task=TASK, target_conn_id=TARGET)
        >> DmIncrementalSyncOperator(task_id="incremental_sync", task=TASK, target_conn_id=TARGET, until="caught-up")
        >> DmVerifyOperator(task_id="verify", task=TASK, target_conn_id=TARGET)
    )
