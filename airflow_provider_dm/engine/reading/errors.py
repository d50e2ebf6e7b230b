"""The error of a load or a sync that has not begun, because a server is not ready for it."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope


class NotBegunYet(DmError):
    """A server, its relay or its log is not yet in the state that a load or a sync begins from."""

    found: str
    way_out: str

    code = "DM-7020"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{found}"
    hint = "{way_out}"
