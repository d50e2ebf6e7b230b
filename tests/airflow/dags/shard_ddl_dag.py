"""The example DAG of `dags/`, as it stands. Run by test_scheduler_shard_ddl.py."""

from airflow.sdk import DAG

from dags import dm_shard_ddl

dag: DAG = dm_shard_ddl.dag
