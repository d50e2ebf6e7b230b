"""The comparison of a DM task's sources with its target, row by row."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dm.operators.base import DmSparkAppOperator


class DmVerifyOperator(DmSparkAppOperator):
    """An operator that compares every row of a task's tables, and fails, without retry, when source and target differ.

    What is written to a source after the last sync is a difference too: verify behind a sync that caught up, while the
    sources rest.

    Arguments: see :class:`~airflow_provider_dm.operators.base.DmTaskOperator` and
    :class:`~airflow_provider_dm.operators.base.DmSparkAppOperator`.

    Returns ``{"verified": true, "rows", "tables": […], "seconds", "dm_run_id"}``.
    """

    app = "verify"
    writes = False

    def accept(self, result: dict[str, Any]) -> dict[str, Any]:
        """Refuse a result that does not say "verified": it is not one. The app fails by itself when rows differ."""
        if result.get("verified") is not True:
            raise AirflowFailException(f"the comparison ended without a verdict: {result}")
        return result
