"""Purges a relay log on any machine: a relay that runs on another machine receives an order."""

from __future__ import annotations

import socket
import time
import uuid
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.records import RelayStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.errors import PurgeRefused
from airflow_provider_dm.engine.relay.health import is_alive
from airflow_provider_dm.engine.relay.purge import PurgeReport
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out, read_report
from airflow_provider_dm.launch.errors import PurgeNotReported, RelayFailed

PURGE_REPORT_SECONDS: Final = 60.0
"""A relay reads orders every second; a purge of many files takes longer."""


def _relay_log_elsewhere(source: str, host: str, here: str) -> PurgeRefused:
    return PurgeRefused(
        f"the relay log of {source} is on {host}, no relay runs there that could purge it, and this is {here}.",
        "Start the relay, or run `dmctl purge-relay -s SOURCE --inactive` on the machine of the relay log.",
    )


def purge_relay_log(
    store: MetaStore, source: str, order: PurgeOrder, *, here: Path | None = None, seconds: float = PURGE_REPORT_SECONDS
) -> PurgeReport:
    """Purge the relay log of a source, or plan the purge. `here`: its directory, if it is on this machine; None: the
    directory that its relay has reported.

    Raises PurgeRefused, PurgeNotReported, RelayFailed, and the errors of `carried_out`.
    """
    status, host = store.relay_status(source), socket.gethostname()
    if status is not None and status.host not in ("", host):
        if is_alive(status) and not status.task:
            return _ordered(store, status, order, seconds)
        if here is None or not here.is_dir():
            raise _relay_log_elsewhere(source, status.host, host)
    elif here is None:
        if status is None or not status.directory:
            raise _relay_log_elsewhere(source, "no known machine", host)
        here = Path(status.directory)
    return carried_out(store, source, here, order)


def _ordered(store: MetaStore, status: RelayStatus, order: PurgeOrder, seconds: float) -> PurgeReport:
    """Order the purge and wait for the relay's report."""
    source = status.source
    number = uuid.uuid4().hex
    store.order_purge(source, number, order.to_json())
    deadline = time.monotonic() + seconds
    while (report := store.purge_report(source, number)) is None:
        if time.monotonic() > deadline:
            store.withdraw_purge(source, number)
            raise PurgeNotReported(source, status.host, seconds)
        time.sleep(0.2)
    purged = read_report(report)
    if isinstance(purged, ReportedError):
        raise RelayFailed(source, purged, f"on {status.host} has purged nothing")
    return purged
