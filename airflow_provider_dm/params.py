"""Parameters of a DAG that runs one DM task: the fields of the form by which a user triggers it in Airflow's UI.

params={"task": task_param("/opt/dm/orders.yaml"), "target": target_param("tidb")}
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Param


def task_param(path: str | Path) -> Param:
    """Return the parameter that names a task.yaml; `path` is its default."""
    return Param(str(path), type="string", description="Path of the task.yaml, on every worker")


def target_param(conn_id: str = "dm_target_default") -> Param:
    """Return the parameter that names the connection of the target."""
    return Param(conn_id, type="string", description="Airflow connection of the target")
