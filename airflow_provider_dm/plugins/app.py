"""The web app of the page: HTML, assets and JSON. Every route requires Airflow's login.

The app runs in the API server, and reads the metadata DB of `[dm] metadata_conn_id`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import Depends, FastAPI, HTTPException, Request, Response, status
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse
from starlette.datastructures import URL

from airflow_provider_dm.engine.errors import DmError, describe
from airflow_provider_dm.engine.meta.migrate import open_migrated
from airflow_provider_dm.engine.meta.records import SPARK_UI, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.launch.status import StatusRecords, dm_error, lives
from airflow_provider_dm.plugins import access, actions
from airflow_provider_dm.plugins.documents import Selection, page_document
from airflow_provider_dm.plugins.tabs import selection_of_request

STATIC: Final = Path(__file__).with_name("static")
URL_SECONDS: Final = 10.0
"""How long the connection of the metadata DB is cached: a secrets backend may be slow."""

NO_SPARK_UI: Final = (
    "The run {run_id} has no Spark UI now. While it starts, reload this page. The UI ends with the run; to keep it, "
    "enable Spark's event log and start its history server."
)
_MEDIA_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Metadata:
    """The open metadata DB of this process, opened again when the connection changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: MetaStore | None = None
        self._url = ""
        self._read_at = 0.0

    def store(self) -> MetaStore:
        """Return the store. Raises the errors of `DmMetadataHook.get_store`."""
        with self._lock:
            now = time.monotonic()
            if self._store is None or now - self._read_at > URL_SECONDS:
                url = DmMetadataHook().url()
                if self._store is None or url.reveal() != self._url:
                    self._store, self._url = open_migrated(url), url.reveal()
                self._read_at = now
            return self._store


METADATA: Final = Metadata()


def visible_to(user: GetUserDep, request: Request) -> access.UserAccess:
    """Return what the user of a request may see. Raises as `Metadata.store`."""
    return access.UserAccess(StatusRecords(METADATA.store()), user, request)


VisibleDep = Annotated[access.UserAccess, Depends(visible_to)]


def create_app() -> FastAPI:
    """Return the app. All routes need a login; FastAPI's own routes are disabled."""
    app = FastAPI(title="DM", dependencies=[Depends(access.can_read)], openapi_url=None, docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(_HEADERS)
        return response

    @app.exception_handler(DmError)
    async def refused(_request: Request, error: DmError) -> Response:
        return JSONResponse({"error": dm_error(describe(error))}, status.HTTP_409_CONFLICT)

    @app.exception_handler(UnicodeEncodeError)
    async def not_unicode(_request: Request, _error: UnicodeEncodeError) -> Response:
        detail = "The request contains a lone surrogate, which is not valid Unicode."
        return JSONResponse({"detail": detail}, status.HTTP_422_UNPROCESSABLE_CONTENT)

    @app.get("/")
    def page() -> Response:
        return _asset("index.html")

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return _asset(name)

    @app.get("/api/status")
    def document(
        visible: VisibleDep, selection: Annotated[Selection | None, Depends(selection_of_request)]
    ) -> dict[str, Any]:
        return {**page_document(METADATA.store(), selection, visible.run), "user": _user(visible.user)}

    @app.get("/runs/{run_id}/spark-ui")
    def spark_ui(run_id: str, request: Request, visible: VisibleDep) -> Response:
        run = METADATA.store().get_run(run_id)
        shown = run is not None and lives(run) and visible.run(run)
        address = run.progress.get(SPARK_UI) if run is not None and shown else None
        if run is None or not isinstance(address, str):
            return PlainTextResponse(NO_SPARK_UI.format(run_id=run_id), status.HTTP_404_NOT_FOUND)
        return RedirectResponse(spark_ui_from(request.url.hostname or "", address, run.holder.host))

    _add_actions(app)
    return app


def spark_ui_from(airflow: str, address: str, worker: str, here: str = socket.gethostname()) -> str:
    """Return the address of Spark's UI for a browser that has reached this server as `airflow`.

    A driver with a local master reports a loopback address, and listens on all addresses of its machine.

    >>> spark_ui_from("airflow.example", "http://localhost:4041", "worker-1", "api")
    'http://worker-1:4041'
    >>> spark_ui_from("airflow.example", "http://127.0.0.1:4041", "one", "one")
    'http://airflow.example:4041'
    >>> spark_ui_from("airflow.example", "http://proxy.example/spark", "one", "one")
    'http://proxy.example/spark'
    """
    url = URL(address)
    if url.hostname not in ("localhost", "127.0.0.1"):
        return address
    return str(url.replace(hostname=airflow if worker == here else worker))


def _add_actions(app: FastAPI) -> None:
    """Add the routes that act. Airflow's audit log records each request with its user and its body."""

    def route_of(name: str) -> dict[str, Any]:
        return {
            "path": f"/api/{name}",
            "dependencies": [
                Depends(access.can_act),
                Depends(access.require_page_header),
                Depends(action_logging(f"dm_{name}")),
            ],
        }

    @app.post(**route_of("pause"))
    def pause(request: actions.StageRequest, visible: VisibleDep) -> dict[str, str]:
        visible.require_task(request.task)
        return {"msg": actions.set_stage(METADATA.store(), request, Stage.PAUSED)}

    @app.post(**route_of("resume"))
    def resume(request: actions.StageRequest, visible: VisibleDep) -> dict[str, str]:
        visible.require_task(request.task)
        return {"msg": actions.set_stage(METADATA.store(), request, Stage.RUNNING)}

    @app.post(**route_of("unlock"))
    def unlock(decision: actions.LockDecision, visible: VisibleDep) -> dict[str, str]:
        visible.require_lock(decision.lock)
        return {"msg": actions.decide_lock(METADATA.store(), decision)}

    @app.post(**route_of("binlog"))
    def binlog(decision: actions.StatementDecision, visible: VisibleDep) -> dict[str, str]:
        visible.require_task(decision.task)
        return {"msg": actions.decide_statement(METADATA.store(), decision)}

    @app.post(**route_of("purge"))
    def purge(request: actions.PurgeRequest, visible: VisibleDep) -> dict[str, str]:
        visible.require_source(request.source)
        return {"msg": actions.purge_previewed_files(METADATA.store(), request)}

    @app.get("/api/purge", dependencies=[Depends(access.can_act)])
    def preview(source: str, visible: VisibleDep) -> dict[str, Any]:
        visible.require_source(source)
        return actions.purge_preview(METADATA.store(), source)


def _asset(name: str) -> Response:
    """Return a file of the page; the name is only compared with the names of existing files, so it cannot leave the
    directory."""
    for file in STATIC.iterdir():
        if file.name == name and file.suffix in _MEDIA_TYPES:
            return FileResponse(file, media_type=_MEDIA_TYPES[file.suffix])
    raise HTTPException(status.HTTP_404_NOT_FOUND)


def _user(user: Any) -> dict[str, Any]:
    return {"name": user.get_name(), "mayAct": access.may_act(user)}
