"""The link of a task instance to the DM page of its task or source.

Airflow stores links when a task ends; :func:`push_dm_page` stores this one when the work begins, so the button exists
while the task runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

DM_PAGE_KEY: Final = "dm_page_url"
PAGE: Final = "/plugin/dm/dm/"
"""Airflow shows our app's page `/dm/` inside its own page `/plugin/dm`."""


class DmPageLink(BaseOperatorLink):
    """A link "DM page", for operators that call :func:`push_dm_page`."""

    @property
    def name(self) -> str:
        return "DM page"

    @property
    def xcom_key(self) -> str:
        return DM_PAGE_KEY

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the link that the task instance pushed, else the link of the page of all tasks."""
        from airflow.sdk.execution_time.xcom import XCom

        url: str | None = XCom.get_value(ti_key=ti_key, key=DM_PAGE_KEY)
        return url or dm_page_url()


def dm_page_url(**parameters: str | Sequence[str]) -> str:
    """Return the address of the DM page: of ``task=NAME``, of ``source=SOURCE-ID`` or a list of them, or of everything.

    >>> dm_page_url(source=["s1", "s2"]).partition("?")[2]
    'source=s1&source=s2'
    """
    return f"{base_url()}{PAGE}" + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")


def base_url() -> str:
    """Return Airflow's own address without a slash at its end; empty if none is configured."""
    from airflow.sdk import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


def push_dm_page(context: Context, **parameters: str | Sequence[str]) -> None:
    """Store the link of this task instance, with the parameters of :func:`dm_page_url`."""
    context["ti"].xcom_push(key=DM_PAGE_KEY, value=dm_page_url(**parameters))
