"""Hooks: what a task of a DAG may ask of the engine through Airflow connections."""
