"""Follow the sources until a person ends it: one deferred task, which takes no worker slot.

The sync is a process on the worker that started it; a trigger watches it. Give the task a queue that one worker serves.
A sync that is killed, or whose machine restarts, is a failed attempt: the next one goes on at the checkpoint. To end
it, mark the task as failed, or use `dm_cut_over`, which stops the sync once nothing is missing in the target.
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
    params={
        "task": task_param(Path(__file__).with_name("dm_demo.task.yaml")),
        "target": target_param(),
    },
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
