"""Errors of what the rules of a task ask for."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, Scope


class RulesChanged(DmError):
    """The rules of a task changed in a way by which it cannot continue."""

    found: str
    way_out: str

    code = "DM-6042"
    what = "{found}"
    hint = "{way_out}"


class StoppedByFilter(DmError):
    """A filter with the action Error matches a change in the log."""

    found: str
    way_out: str

    code = "DM-6055"
    scope = Scope.UPSTREAM
    what = "{found}"
    hint = "{way_out}"
