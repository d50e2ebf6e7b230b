"""Sync continuously until a user ends it: one deferred task, which takes no worker slot.

The sync is a process on the worker that started it; a trigger watches it. Give the task a queue that one worker serves.
If the sync is killed or its machine restarts, the attempt fails, and the next one continues at the checkpoint. To end
it, mark the task as failed, or use `dm_cut_over`, which stops the sync when the target has all rows.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.params import target_param, task_param

with DAG(
    dag_id="dm_continuous_sync",
    description="Incremental sync without an end, deferred",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "example"],
    doc_md=__doc__,
) as dag:
    DmIncrementalSyncOperator(
        task_id="incremental_sync",
        task="{{ params.task }}",
        target_conn_id="{{ params.target }}",
        until="forever",
        deferrable=True,
        retries=100,
        retry_delay=timedelta(seconds=30),
    )
