"""Migrate one source: check, copy, apply the changes since then, compare every row.

Trigger it with the path of a task.yaml and the connection of the target. The source's connection has the source-id as
its id. The comparison requires that the source is not written to; for a source with continuous writes use
`dm_micro_batches` instead.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_dm.params import target_param, task_param
from airflow_provider_dm.task_groups.migration import DmMigrationTaskGroup

with DAG(
    dag_id="dm_one_source",
    description="One migration: precheck, full migration, incremental sync, verify",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "example"],
    doc_md=__doc__,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=10)},
) as dag:
    DmMigrationTaskGroup("migration", task="{{ params.task }}", target_conn_id="{{ params.target }}")
