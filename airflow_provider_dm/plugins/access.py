"""Who may do what on the page, by Airflow's own auth manager.

    read    the view "Jobs", which the roles Viewer and above have
    act     to edit connections, which the roles Op and above have: an action writes to the databases behind them

A POST counts only if it comes from the page: Airflow's session cookie is same-site, and a header that only a script of
the same origin can set is asked for besides. A bearer token, which no browser sends by itself, needs no header.
"""

from __future__ import annotations

from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import HTTPException, Request, status

PAGE_HEADER: Final = "x-dm-page"

can_read = requires_access_view(AccessView.JOBS)


def may_act(user: BaseUser) -> bool:
    return get_auth_manager().is_authorized_connection(method="PUT", user=user)


def can_act(user: GetUserDep) -> None:
    """Refuse a user who may not act."""
    if not may_act(user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may read this page. To act you need the role Op.")


def from_the_page(request: Request) -> None:
    """Refuse a request that a page of another site may have made."""
    headers = request.headers
    if headers.get("authorization", "").lower().startswith("bearer "):
        return
    if PAGE_HEADER not in headers or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"The request does not come from the page: no {PAGE_HEADER}.")
