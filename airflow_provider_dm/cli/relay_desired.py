"""Whether a relay is there to hear a wish, and whether it has done what it was asked."""

from __future__ import annotations

import socket
import time
from typing import Final

from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay import health
from airflow_provider_dm.engine.relay.process import process_exists

OBEY_SECONDS: Final = 15.0
"""A relay looks for wishes every second, and reports every second."""
_LOOK_SECONDS: Final = 0.25


def is_alive(status: RelayStatus | None) -> bool:
    """Tell whether a relay process is there to hear a wish. On this machine the process itself is looked for."""
    if status is None or not health.is_alive(status, health.FRESH_SECONDS):
        return False
    return status.host != socket.gethostname() or status.pid is None or process_exists(status.pid)


def wait_until_obeyed(store: MetaStore, source: str, stage: Stage) -> RelayStatus | None:
    """Return the relay's status once it is in that stage, is gone, or the time is over."""
    deadline = time.monotonic() + OBEY_SECONDS
    while True:
        status = store.relay_status(source)
        if status is None or status.stage is stage or not is_alive(status) or time.monotonic() > deadline:
            return status
        time.sleep(_LOOK_SECONDS)


def answer_of(status: RelayStatus | None, stage: Stage, *, source: str) -> str:
    """Return what there is to say about a wish: nothing when it has come true."""
    if status is None or not is_alive(status):
        return f"no relay of {source} is running{_error_of(status)}"
    if status.stage is not stage:
        return f"the relay of {source} is still {status.stage.value} after {OBEY_SECONDS:.0f} s{_error_of(status)}"
    return ""


def worker(status: RelayStatus | None) -> str:
    """Return DM's worker: the host of the relay."""
    return status.host if status else ""


def _error_of(status: RelayStatus | None) -> str:
    return f" (its last error: {health.said(status.error)})" if status and status.error else ""
