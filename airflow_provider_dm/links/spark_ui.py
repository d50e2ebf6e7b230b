"""The link of a task instance to the web UI of its Spark app, if the user's Spark configuration enables that UI.

The address of the UI is known when Spark has started, which a deferred task does not wait for. So the link leads to the
DM page's app, which reads the address that the Spark app has reported with its progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from airflow_provider_dm.links.dm_page import base_url

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

SPARK_UI_KEY: Final = "dm_spark_ui_url"


class SparkUiLink(BaseOperatorLink):
    """A link "Spark UI", for operators that call :func:`push_spark_ui`."""

    @property
    def name(self) -> str:
        return "Spark UI"

    @property
    def xcom_key(self) -> str:
        return SPARK_UI_KEY

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the link that the task instance pushed; Airflow shows no link for an empty text.

        The XComs of all mapped task instances are searched first, as Airflow logs an error for a missing XCom.
        """
        from airflow.sdk.execution_time.xcom import XCom

        ids = {"dag_id": ti_key.dag_id, "task_id": ti_key.task_id, "run_id": ti_key.run_id}
        if not any(XCom.get_all(key=SPARK_UI_KEY, **ids) or ()):
            return ""
        return XCom.get_value(ti_key=ti_key, key=SPARK_UI_KEY) or ""


def push_spark_ui(context: Context, run_id: str) -> None:
    """Store the link of this task instance to the UI of a run of a Spark app."""
    context["ti"].xcom_push(key=SPARK_UI_KEY, value=f"{base_url()}/dm/runs/{quote(run_id, safe='')}/spark-ui")
