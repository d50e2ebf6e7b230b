"""Hooks: the engine's functions for DAGs, through Airflow connections."""
