"""Permissions of the page, which Airflow's auth manager decides.

    read    the view "Jobs", which the roles Viewer and above have; and for a task, the DAG of its last load or sync
    act     editing connections, which the roles Op and above have: an action writes to the databases behind them

A POST is accepted only from the page: Airflow's session cookie is same-site, and the request needs a header that only a
script of the same origin can set. A request with a bearer token, which no browser adds on its own, needs no header.
"""

from __future__ import annotations

import time
from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException, Request, status

from airflow_provider_dm.launch.status import Known
from airflow_provider_dm.links.task_instance import dag_of

PAGE_HEADER: Final = "x-dm-page"
DAGS_SECONDS: Final = 60.0
"""How long an answer of the auth manager about DAGs is used: the page asks every two seconds."""
_answers: dict[str, tuple[float, set[str], set[str]]] = {}
"""By user: the time of the answer, the DAGs of the question, and the DAGs that the user may read."""

can_read = requires_access_view(AccessView.JOBS)


def may_act(user: BaseUser) -> bool:
    return get_auth_manager().is_authorized_connection(method="PUT", user=user)


def hidden_tasks(user: BaseUser, known: Known) -> set[str]:
    """Return the tasks whose last load or sync was started by a DAG that the user may not read."""
    runs = {one.task: known.last_run(one.task) for one in known.subtasks}
    dags = {task: dag for task, run in runs.items() if run and (dag := dag_of(run.holder.identity))}
    now, asked = time.monotonic(), set(dags.values())
    answered_at, answered, readable = _answers.get(user.get_id(), (now, set(), set()))
    if answered != asked or now - answered_at > DAGS_SECONDS:
        manager, teams, readable = get_auth_manager(), DagModel.get_dag_id_to_team_name_mapping([*asked]), set()
        for team in {teams.get(dag) for dag in asked}:
            of_team = {dag for dag in asked if teams.get(dag) == team}
            readable |= manager.filter_authorized_dag_ids(dag_ids=of_team, user=user, team_name=team)
        _answers[user.get_id()] = (now, asked, readable)
    return {task for task, dag in dags.items() if dag not in readable}


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
