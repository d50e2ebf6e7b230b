"""A purge that is ordered from anywhere: the relay's process carries it out where the files are.

The order and its report are one column of the relay's row in the metadata DB (`dm_relay.purge`). A relay looks for an
order every second (housekeeping.py), also while it is paused. What is planned or removed is the same as by a purge on
the relay's machine: both are `carried_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, assert_never

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.errors import DmError, ReportedError, describe
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import BeforeFile, BeforeTime, FreeSpace, HeldFile, Inactive, PurgeRequest
from airflow_provider_dm.engine.relay.purge_files import NoRelayLog, plan_by_hand, purge_by_hand
from airflow_provider_dm.engine.relay.purge_policy import requests_for

Json = dict[str, Any]


class NamedFile(NamedTuple):
    """A file of a relay log, as other machines know it."""

    sub_dir: str
    filename: str
    size: int

    @classmethod
    def of(cls, file: HeldFile) -> Self:
        return cls(str(file.sub_dir), str(file.file), file.size)

    def __str__(self) -> str:
        return f"{self.sub_dir}/{self.filename}"


@dataclass(frozen=True)
class PurgeReport:
    """The files that a purge has removed, or would remove, oldest first; and the first file that it keeps."""

    files: tuple[NamedFile, ...]
    stays: NamedFile | None = None
    """The first file that was to go and stays."""
    kept: str = ""
    """Why it stays."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def to_json(self) -> Json:
        return {"files": [list(one) for one in self.files], "stays": self.stays and list(self.stays), "kept": self.kept}

    @classmethod
    def of_json(cls, found: Json) -> Self:
        stays = NamedFile(*found["stays"]) if found["stays"] else None
        return cls(tuple(NamedFile(*one) for one in found["files"]), stays, found["kept"])


@dataclass(frozen=True)
class PurgeOrder:
    """What shall go: by a person's request, or by the policy of a source. `preview`: nothing is touched."""

    wanted: PurgeRequest | PurgeConfig
    preview: bool = False

    def to_json(self) -> Json:
        return {**_wanted_json(self.wanted), "preview": self.preview}

    @classmethod
    def of_json(cls, found: Json) -> Self:
        wanted: PurgeRequest | PurgeConfig
        if "policy" in found:
            wanted = PurgeConfig.model_validate(found["policy"])
        elif "before" in found:
            wanted = BeforeTime(found["before"])
        elif "filename" in found:
            wanted = BeforeFile(found["filename"], found["sub_dir"])
        elif "size" in found:
            wanted = FreeSpace(found["size"])
        else:
            wanted = Inactive()
        return cls(wanted, found["preview"])


def _wanted_json(wanted: PurgeRequest | PurgeConfig) -> Json:
    match wanted:
        case BeforeFile(filename, sub_dir):
            return {"filename": filename, "sub_dir": sub_dir}
        case BeforeTime(moment):
            return {"before": moment}
        case FreeSpace(size):
            return {"size": size}
        case Inactive():
            return {}
        case PurgeConfig():
            return {"policy": wanted.model_dump(mode="json")}
        case unknown:
            assert_never(unknown)


def carried_out(store: MetaStore, source: str, root: Path, order: PurgeOrder) -> PurgeReport:
    """Purge the relay log in `root`, or plan it.

    Raises NoRelayLog, RelayNotReported, NeedUnknown, PurgeRuns, PurgeFailed and what `plan_purge` and the store raise.
    """
    if not root.is_dir():
        raise NoRelayLog(source, str(root))
    plan = plan_by_hand(store, source, root, *_requests(order, root))
    stays = NamedFile.of(plan.kept[0].file) if plan.kept else None
    if order.preview:
        return PurgeReport(tuple(map(NamedFile.of, plan.delete)), stays, plan.held_by)
    purged = purge_by_hand(store, plan)
    deleted = tuple(map(NamedFile.of, purged.deleted))
    if purged.returned:
        first = NamedFile.of(purged.returned[0])
        return PurgeReport(deleted, first, f"{first} stays: a task has come to need it meanwhile")
    return PurgeReport(deleted, stays, plan.held_by)


def obey(store: MetaStore, source: str, root: Path) -> None:
    """Carry out the order that waits at this relay, if there is one, and report it. Raises as the store."""
    found = store.ordered_purge(source)
    if found is None:
        return
    number, order = found
    try:
        report: Json = carried_out(store, source, root, PurgeOrder.of_json(order)).to_json()
    except (DmError, OSError) as error:
        report = {"error": describe(error)}
    store.report_purge(source, number, report)


def read_report(report: Json) -> PurgeReport | ReportedError:
    """Return what `obey` has reported."""
    return ReportedError.read(report["error"]) if "error" in report else PurgeReport.of_json(report)


def _requests(order: PurgeOrder, root: Path) -> Sequence[PurgeRequest]:
    return requests_for(order.wanted, root) if isinstance(order.wanted, PurgeConfig) else (order.wanted,)
