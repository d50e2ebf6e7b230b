"""A relay that runs until a stop is requested, and a deferred sensor that waits for it. Run by test_scheduler.py.

The source is the Airflow connection `scheduled_source`; the run's configuration may keep the relay running."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher, Param

from airflow_provider_dm.operators.relay import DmRelayOperator, DmRelayStopOperator
from airflow_provider_dm.sensors.relay import RelayCatchUpSensor
from airflow_provider_dm.triggers.events import RelayAdvancedEventTrigger

with DAG("relay_until_stopped", schedule=None, params={"stop": Param(True, type="boolean")}, catchup=False):
    pull = DmRelayOperator(
        task_id="pull", source="scheduled_source", retries=3, retry_delay=1, retry_exponential_backoff=False
    )
    wait = RelayCatchUpSensor(
        task_id="wait", source_id="scheduled_source", deferrable=True, poke_interval=2, timeout=600, retries=1
    )
    stop = DmRelayStopOperator(task_id="stop", source_ids=["scheduled_source"], trigger_rule="all_done")
    wait >> stop

with DAG("relay_for_ever", schedule=None, catchup=False):
    DmRelayOperator(task_id="pull", source="endless_source", retries=2, retry_delay=1)

with DAG("relay_deferred", schedule=None, params={"goal": Param("", type="string")}, catchup=False):
    deferred = DmRelayOperator(task_id="pull", source="deferred_source", deferrable=True, retries=2, retry_delay=1)
    reached = RelayCatchUpSensor(
        task_id="reached",
        source_id="deferred_source",
        min_location="{{ params.goal }}",
        deferrable=True,
        poke_interval=1,
        timeout=600,
    )
    reached >> DmRelayStopOperator(task_id="stop", source_ids=["deferred_source"])

with DAG("relay_deferred_for_ever", schedule=None, catchup=False):
    DmRelayOperator(task_id="pull", source="marked_source", deferrable=True, retries=2, retry_delay=1)

advanced = RelayAdvancedEventTrigger(source_id="deferred_source", dm_meta_conn_id=None, poll_interval=5)
pulled = Asset("dm_relay_of_deferred_source", watchers=[AssetWatcher(name="relay", trigger=advanced)])
with DAG("relay_advanced", schedule=[pulled], catchup=False, max_active_runs=1, is_paused_upon_creation=False):
    EmptyOperator(task_id="seen")
