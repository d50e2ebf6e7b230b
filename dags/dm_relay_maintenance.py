"""Look after the relay logs of a task's sources every day: does each relay follow its source, and what may go?

`caught_up` fails where a relay has ended with an error, or is an hour behind. `purge` then applies the `purge` of
each source's connection (without one, DM's defaults: only below 15 GB of free space). A relay that runs does this
every hour by itself; the task is for relays that run seldom. Where no relay runs, it has to run on the machine of the
relay logs: give it the queue of the relays.
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
    description="Relays that follow their sources, and the files that may go",
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={
        "task": task_param(Path(__file__).with_name("dm_demo.task.yaml")),
    },
    tags=["dm", "example"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as dag:
    sources = DmSourcesOperator(task_id="sources", task="{{ params.task }}")
    caught_up = RelayCatchUpSensor.partial(task_id="caught_up", deferrable=True, timeout=3600).expand(
        source_id=sources.output
    )
    caught_up >> DmRelayPurgeOperator.partial(task_id="purge").expand(source=sources.output)
