"""Permissions of the page, which Airflow's auth manager decides.

    read    the view "Jobs", which the roles Viewer and above have
    act     editing connections, which the roles Op and above have: an action writes to the databases behind them

A POST is accepted only from the page: Airflow's session cookie is same-site, and the request needs a header that only a
script of the same origin can set. A request with a bearer token, which no browser adds on its own, needs no header.
"""

from __future__ import annotations

from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException, Request, status

PAGE_HEADER: Final = "x-dm-page"

can_read = requires_access_view(AccessView.JOBS)


def may_act(user: BaseUser) -> bool:
    return get_auth_manager().is_authorized_connection(method="PUT", user=user)


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
