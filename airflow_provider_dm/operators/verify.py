"""The comparison of a DM task's sources with its target, row by row."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dm.operators.base import DmSparkAppOperator


class DmVerifyOperator(DmSparkAppOperator):
    """An operator that compares every row of a task's tables, and fails, without retry, when source and target differ.

    Rows written to a source after the last sync are differences: verify after a sync that caught up, while the sources
    are not written to.

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param sources: source-ids, paths of ``source.yaml`` files, or dictionaries with their keys; None: all sources of
        the task
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param spark_conn_id: Airflow connection of type ``spark``; if it does not exist, ``[dm] spark_master`` is the
        master
    :param spark_conf: Spark configuration, which overrides the provider's own; it must not hold secrets
    :param driver_memory: memory of the Spark driver, as Spark writes sizes

    Returns ``{"verified": true, "rows", "tables": […], "seconds", "dm_run_id"}``.
    """

    app = "verify"
    writes = False

    def accept(self, result: dict[str, Any]) -> dict[str, Any]:
        """Raise AirflowFailException for a result without "verified". The app itself fails if rows differ."""
        if result.get("verified") is not True:
            raise AirflowFailException(f"the comparison ended without a verdict: {result}")
        return result
