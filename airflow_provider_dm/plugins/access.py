"""Who may read the page, by Airflow's own auth manager: the view "Jobs", which the roles Viewer and above have."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view

can_read = requires_access_view(AccessView.JOBS)
