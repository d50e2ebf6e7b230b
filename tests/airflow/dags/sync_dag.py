"""A sync that runs until somebody ends it. Run, and killed, by test_scheduler_sync.py."""

from airflow.sdk import DAG, Param

from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator

with DAG("sync_for_ever", schedule=None, params={"task": Param("", type="string")}, catchup=False):
    DmIncrementalSyncOperator(
        task_id="sync",
        task="{{ params.task }}",
        target_conn_id="sync_target",
        spark_conn_id="sync_spark",
        until="forever",
        retries=3,
        retry_delay=1,
    )
