"""Example DAGs of `dags/`, unchanged. Triggered by test_scheduler_examples.py and test_scheduler_shard_ddl.py."""

from airflow.sdk import DAG

from dags import dm_continuous_sync, dm_cut_over, dm_micro_batches, dm_one_source, dm_relay_maintenance, dm_shard_ddl

continuous: DAG = dm_continuous_sync.dag
cut_over: DAG = dm_cut_over.dag
maintenance: DAG = dm_relay_maintenance.dag
micro_batches: DAG = dm_micro_batches.dag
one_source: DAG = dm_one_source.dag
shard_ddl: DAG = dm_shard_ddl.dag
