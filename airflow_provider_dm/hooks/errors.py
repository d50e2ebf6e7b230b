"""Errors of the Airflow side of a migration: connections and operator arguments.

They have the format of the engine's errors (code, what, hint), so that all errors in a task's log look alike.
"""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, InvalidInput


class ConnectionUnusable(DmError):
    conn_id: str
    reason: str

    code = "DM-9060"
    what = "the Airflow connection {conn_id!r} cannot be used: {reason}."
    hint = "Correct it under Admin, Connections; its form describes each field."


class ArgumentUnusable(DmError):
    """An operator's rendered argument has an invalid format."""

    argument: str
    reason: str

    code = "DM-9066"
    what = "the operator's argument `{argument}` cannot be used: {reason}."
    hint = (
        "Correct it in the DAG or in the run's parameters; a template renders to text, unless the DAG has "
        "render_template_as_native_obj=True."
    )


def connection_missing(conn_id: str, wanted_by: str, instead: str) -> InvalidInput:
    return InvalidInput(
        f"{wanted_by} has no login: there is no Airflow connection {conn_id!r}, and {instead}.",
        "Add the connection (type dm_database), or name another one in the operator.",
    )


class StoppedOnRequest(DmError):
    what_ran: str

    code = "DM-9064"
    what = "{what_ran} was stopped on request before it was finished; its progress is saved."
    hint = "Clear the task to continue."
