"""Check and purge the relay logs of a task's sources every day.

`caught_up` fails if a relay has ended with an error, or does not catch up within an hour. `purge` then applies the
`purge` settings of each source's connection (without them DM's defaults: only below 15 GB of free space). A running
relay purges every hour automatically; the task is for relays that run rarely. If no relay runs, the task must run on
the machine with the relay logs: give it the queue of the relays.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_dm.operators.relay_purge import DmRelayPurgeOperator
from airflow_provider_dm.operators.sources import DmSourcesOperator
from airflow_provider_dm.params import task_param
from airflow_provider_dm.sensors.relay import RelayCatchUpSensor

with DAG(
    dag_id="dm_relay_maintenance",
    description="Check that relays are up to date, and purge their files",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={"task": task_param(Path(__file__).with_name("dm_demo.task.yaml"))},
    tags=["dm", "example"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as dag:
    sources = DmSourcesOperator(task_id="sources", task="{{ params.task }}")
    caught_up = RelayCatchUpSensor.partial(task_id="caught_up", deferrable=True, timeout=3600).expand(
        source_id=sources.output
    )
    caught_up >> DmRelayPurgeOperator.partial(task_id="purge").expand(source=sources.output)
