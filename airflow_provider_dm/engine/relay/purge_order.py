"""A purge that is ordered on any machine: the relay's process executes it on the machine that has the files.

The order and its report are one column of the relay's row in the metadata DB (`dm_relay.purge`). A relay checks for an
order every second (housekeeping.py), also while it is paused. What is planned or removed is the same as by a purge on
the relay's machine: both are `carried_out`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.errors import DmError, InvalidInput, ReportedError, describe
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import LogNeed, PurgeReport, PurgeRequest, needs_of, plan_purge, requests_of
from airflow_provider_dm.engine.relay.purge_files import check_reported, purge, survey

Json = dict[str, Any]


@dataclass(frozen=True)
class PurgeOrder:
    """The files to remove: by a user's request, or by the policy of a source. `preview`: nothing is removed."""

    wanted: PurgeRequest | PurgeConfig
    preview: bool = False

    def to_json(self) -> Json:
        return dict(_ORDER.dump_python(self, mode="json"))


_ORDER: Final = TypeAdapter(PurgeOrder)
_REPORT: Final = TypeAdapter(PurgeReport)


def carried_out(store: MetaStore, source: str, root: Path, order: PurgeOrder) -> PurgeReport:
    """Purge the relay log in `root`, or plan it.

    Raises NoRelayLog, PurgeRefused, NeedUnknown, PurgeRuns, RelayDiskFailed and what `plan_purge` and the store raise.
    """
    log = survey(source, root)
    check_reported(log, store.relay_status(source))

    def read_needs() -> Sequence[LogNeed]:
        return needs_of(store.list_subtasks(source=source))

    requests = requests_for(order.wanted, root) if isinstance(order.wanted, PurgeConfig) else (order.wanted,)
    return (
        plan_purge(log, read_needs(), *requests).report if order.preview else purge(source, root, read_needs, *requests)
    )


def requests_for(config: PurgeConfig, root: Path) -> tuple[PurgeRequest, ...]:
    """Return the present purge requests of source.yaml for the relay log in `root`. Raises OSError."""
    disk = os.statvfs(root)
    return requests_of(config, free_bytes=disk.f_bavail * disk.f_frsize, now=time.time())


def obey(store: MetaStore, source: str, root: Path) -> None:
    """Carry out the order that waits at this relay, if there is one, and report it. Raises the store's errors."""
    ordered = store.ordered_purge(source)
    if ordered is None:
        return
    number, order = ordered
    try:
        report: Json = _REPORT.dump_python(carried_out(store, source, root, _order_of(order)), mode="json")
    except (DmError, OSError) as error:
        report = {"error": describe(error)}
    store.report_purge(source, number, report)


def _order_of(document: Json) -> PurgeOrder:
    """Read an order. Raises InvalidInput for one of an unknown kind."""
    try:
        return _ORDER.validate_python(document)
    except ValidationError as error:
        raise InvalidInput(
            f"the relay does not know the purge that is ordered: {document}. Nothing is purged.",
            "Run the same release on the relay's machine and on the one that orders the purge.",
        ) from error


def read_report(report: Json) -> PurgeReport | ReportedError:
    """Return what `obey` has reported."""
    return ReportedError.read(report["error"]) if "error" in report else _REPORT.validate_python(report)
