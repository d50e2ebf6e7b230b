"""A purge that a person asks for, from any process on the relay's machine: plan first, then purge.

Who needs what is in the metadata DB, so it has to be the one that the relay and the tasks report to. A DB that has
never heard of this relay directory would know of no task either, and everything would seem free to go: it is refused.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import RelayStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import PurgePlan, PurgeRequest, RelayLog, plan_purge
from airflow_provider_dm.engine.relay.purge_files import Purged, purge
from airflow_provider_dm.engine.relay.purge_needs import Need, needs_of
from airflow_provider_dm.engine.relay.purge_survey import survey


class RelayNotReported(DmError):
    source: str
    directory: str
    reported: str

    code = "DM-4058"
    what = (
        "nothing is purged: the relay log of {source} in {directory} has not been reported to this metadata DB, "
        "which knows {reported}."
    )
    hint = "Name the metadata DB that the relay and its tasks use (--meta-url, DM_META_URL, dm_meta)."


def plan_by_hand(store: MetaStore, source: str, root: Path, request: PurgeRequest) -> PurgePlan:
    """Plan a purge; change nothing.

    Raises NoRelayLog, RelayNotReported, NeedUnknown and what `plan_purge` and the store raise.
    """
    log = survey(source, root)
    check_reported(log, store.relay_status(source))
    return plan_purge(log, _needs(store, source), request)


def purge_by_hand(store: MetaStore, plan: PurgePlan) -> Purged:
    """Delete what is left of the plan by now. Raises RelayNotReported and what `purge` and the store raise."""
    check_reported(survey(plan.source, plan.root), store.relay_status(plan.source))
    return purge(plan, lambda: _needs(store, plan.source))


def check_reported(log: RelayLog, status: RelayStatus | None) -> None:
    """Raise RelayNotReported unless the relay that last reported wrote into a sub-directory that is here."""
    if status is None:
        raise RelayNotReported(log.source, str(log.root), "no relay of it")
    if status.sub_dir and status.sub_dir not in {str(file.sub_dir) for file in log.files}:
        raise RelayNotReported(log.source, str(log.root), f"its sub-directory {status.sub_dir}")


def _needs(store: MetaStore, source: str) -> tuple[Need, ...]:
    return needs_of(store.list_subtasks(source=source))
