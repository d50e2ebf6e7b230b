"""Example DAGs of `dags/`, as they stand. Triggered from Airflow's form by test_scheduler_examples.py."""

from airflow.sdk import DAG

from dags import dm_continuous_sync, dm_cut_over, dm_relay_maintenance

continuous: DAG = dm_continuous_sync.dag
cut_over: DAG = dm_cut_over.dag
maintenance: DAG = dm_relay_maintenance.dag
