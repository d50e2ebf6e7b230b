"""Move the applications to the target while `dm_continuous_sync` follows the sources.

    small_lag ─▶ writes_stopped ─▶ sources ─▶ applied (one for each) ─▶ nothing_held ─▶ verify ─▶ switched ─▶ stop_sync

A user approves twice in Airflow (Browse, Required Actions): first that the applications no longer write to the sources,
and, after every row was compared, that they use the target. After a rejection the rest is skipped, and the sync
continues. `applied` waits for the end of each source's log at that time, so all earlier writes are applied.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from airflow_provider_dm.operators.sources import DmSourcesOperator
from airflow_provider_dm.operators.task_control import DmTaskControlOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator
from airflow_provider_dm.params import target_param, task_param
from airflow_provider_dm.sensors.sync import CheckpointPassedSensor, NoRowsHeldBackSensor, SyncLagSensor

TASK = "{{ params.task }}"

with DAG(
    dag_id="dm_cut_over",
    description="Cut-over: two approvals, every row compared between them",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml")), "target": target_param()},
    tags=["dm", "example"],
    doc_md=__doc__,
    # Airflow 3.3.2 may fail a task that is answered within a second after it began to wait: a retry asks again.
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
) as dag:
    small_lag = SyncLagSensor(task_id="small_lag", task=TASK, max_lag=30, deferrable=True)
    writes_stopped = ApprovalOperator(
        task_id="writes_stopped",
        subject="Have the applications stopped writing to the sources?",
        body="The target is less than 30 seconds behind. Stop all writes to the sources, then approve.",
    )
    sources = DmSourcesOperator(task_id="sources", task=TASK)
    applied = CheckpointPassedSensor.partial(task_id="applied", task=TASK, deferrable=True, timeout=600).expand(
        source_id=sources.output
    )
    nothing_held = NoRowsHeldBackSensor(task_id="nothing_held", task=TASK, deferrable=True, timeout=600)
    verify = DmVerifyOperator(task_id="verify", task=TASK, target_conn_id="{{ params.target }}")
    switched = ApprovalOperator(
        task_id="switched",
        subject="Every row is equal. Do the applications use the target now?",
        body="Switch the applications to the target, then approve: the sync ends. If you reject, it continues.",
    )
    stop_sync = DmTaskControlOperator(task_id="stop_sync", task=TASK, action="stop")

    small_lag >> writes_stopped >> sources
    applied >> nothing_held >> verify >> switched >> stop_sync
