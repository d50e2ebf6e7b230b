"""Sync every five minutes: each run applies the changes since the last one, and ends.

A run without changes starts no Spark app. Only one run is active at a time; the next one continues at the checkpoint in
the target. While the DM task is paused the run waits; `dmctl resume-task` resumes the task.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.params import target_param, task_param

with DAG(
    dag_id="dm_micro_batches",
    description="Incremental sync in scheduled batches",
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "example"],
    doc_md=__doc__,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=10)},
) as dag:
    DmIncrementalSyncOperator(
        task_id="incremental_sync", task="{{ params.task }}", target_conn_id="{{ params.target }}", until="caught-up"
    )
