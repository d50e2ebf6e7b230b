"""Permissions of the page, which Airflow's auth manager decides.

    read    the view "Jobs", which the roles Viewer and above have; and for a task, the DAG of its last load or sync
    act     reading, and editing connections, which the roles Op and above have: an action writes to the databases
            behind them

A POST is accepted only from the page: Airflow's session cookie is same-site, and the request needs a header that only a
script of the same origin can set. A request with a bearer token, which no browser adds on its own, needs no header.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException, Request, status

from airflow_provider_dm.engine.meta.records import Run
from airflow_provider_dm.launch.status import StatusRecords
from airflow_provider_dm.links.task_instance import dag_of

PAGE_HEADER: Final = "x-dm-page"
ANSWER_SECONDS: Final = 60.0
"""The time for which an answer of the auth manager about a DAG is cached. The page polls every two seconds."""
MOST_ANSWERS: Final = 10_000
_dag_answers: dict[tuple[str, str], tuple[float, bool]] = {}
"""By user and DAG: the time of the answer, and whether the user may read the DAG."""

can_read = requires_access_view(AccessView.JOBS)


def may_act(user: BaseUser) -> bool:
    return get_auth_manager().is_authorized_connection(method="PUT", user=user)


def _may_read(user: BaseUser, dag: str) -> bool:
    now, key = time.monotonic(), (user.get_id(), dag)
    answered_at, answer = _dag_answers.get(key, (-inf, False))
    if now - answered_at > ANSWER_SECONDS:
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        answer = get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)
        if len(_dag_answers) >= MOST_ANSWERS:
            _dag_answers.clear()
        _dag_answers[key] = now, answer
    return answer


@dataclass(frozen=True)
class UserAccess:
    """What the user of a request may see: no run of a DAG that the user may not read, and nothing of a task whose last
    load or sync is such a run."""

    known: StatusRecords
    user: BaseUser
    request: Request

    def run(self, run: Run | None) -> bool:
        """Return True if the user may see a run. One without a DAG is visible to all who may read the page."""
        dag = dag_of(run.holder.identity) if run is not None else None
        return dag is None or _may_read(self.user, dag)

    def task(self, name: str) -> bool:
        return self.run(self.known.last_run(name))

    def require_task(self, name: str) -> None:
        """Raise HTTPException unless a visible task has exactly this name; a database comparison may ignore case."""
        self._require([subtask.task for subtask in self.known.subtasks if subtask.task == name], f"task {name}")

    def require_lock(self, lock_id: str) -> None:
        """Raise HTTPException for the lock of a task that is not visible; an unknown lock is passed on, and the action
        refuses it."""
        tasks = [lock.task for lock, _ in self.known.locks if lock.id == lock_id]
        self._require(tasks or [""], f"lock {lock_id}")

    def require_source(self, name: str) -> None:
        """Raise HTTPException if a task that is not visible reads the source: a purge report names the files that such
        a task needs."""
        readers = [subtask.task for subtask in self.known.subtasks if subtask.source == name]
        self._require(readers or [""] * (name in self.known.relays), f"source {name}")

    def _require(self, tasks: Collection[str], subject: str) -> None:
        if not tasks or not all(map(self.task, tasks)):
            _record_refusal(self.user, self.request)
            raise HTTPException(status.HTTP_403_FORBIDDEN, f"There is no {subject}, or you may not read its DAG.")


def can_act(user: GetUserDep, request: Request) -> None:
    """Refuse a user who may not act, and record the attempt in Airflow's audit log."""
    if not may_act(user):
        _record_refusal(user, request)
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may read this page. To act you need the role Op.")


def require_page_header(user: GetUserDep, request: Request) -> None:
    """Refuse a request that a page of another site may have made, and record it in Airflow's audit log."""
    headers = request.headers
    if headers.get("authorization", "").lower().startswith("bearer "):
        return
    if PAGE_HEADER not in headers or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        _record_refusal(user, request)
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"The request does not come from the page: no {PAGE_HEADER}.")


def _record_refusal(user: BaseUser, request: Request) -> None:
    """Write the entry in its own transaction: the refusal rolls back the session of the request."""
    action = request.url.path.rsplit("/", 1)[-1][:40]
    with create_session() as session:
        session.add(Log(f"dm_{action}_refused", owner=user.get_name(), owner_display_name=user.get_name()))
