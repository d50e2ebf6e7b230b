"""The plugin, registered by the entry point `airflow.plugins`. Every component of Airflow imports this module.

So this module builds nothing: the API server imports and builds the web app at the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "/dm"
_ROOT: Final = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
_DAG_RUN: Final = f"{_ROOT}{PREFIX}/?dag_id={{DAG_ID}}&run_id={{RUN_ID}}"


class DmPageApp:
    """The web app of the page, made at the first request."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            from airflow_provider_dm.plugins.app import create_app

            self._app = create_app()
        await self._app(scope, receive, send)


def _view(destination: str, url_route: str, href: str) -> dict[str, str]:
    return {
        "name": "DM",
        "href": href,
        "destination": destination,
        "url_route": url_route,
        "icon": f"{_ROOT}{PREFIX}/static/icon.svg",
    }


class DmPlugin(AirflowPlugin):
    """A plugin with the page "DM" in the navigation, and as a tab of DAG runs and of task instances."""

    name = "dm"
    fastapi_apps = [{"app": DmPageApp(), "url_prefix": PREFIX, "name": "DM"}]  # noqa: RUF012  as the base class has it
    external_views = [  # noqa: RUF012
        _view("nav", "dm", f"{_ROOT}{PREFIX}/"),
        _view("dag_run", "dm-run", _DAG_RUN),
        _view("task_instance", "dm-task", f"{_DAG_RUN}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}"),
    ]
