"""The relay log of a source, as an operator of DAGs may see and steer it; and when a relay has caught up.

What a relay says of itself is in the metadata DB, what it has is in its directory. `judge` is the rule by which
sensor and trigger decide; it is pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

from airflow.sdk import BaseHook

from airflow_provider_dm.hooks import settings
from airflow_provider_dm.hooks.metadata import DmMetadataHook

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
    from airflow_provider_dm.engine.mysql.location import Location
    from airflow_provider_dm.engine.relay.directory import RelayFile

SILENT_SECONDS: Final = 60.0
"""A relay reports every two seconds; after this long it counts as gone."""


class RelayLogHook(BaseHook):
    """List a relay's files, see its status, ask it to stop.

    :param dm_meta_conn_id: connection of type ``dm_meta``; ``[dm] metadata_conn_id`` by default
    :param relay_dir: directory of the relay log; by default the shared one of the source in the work directory
    """

    def __init__(self, dm_meta_conn_id: str | None = None, *, relay_dir: str | None = None) -> None:
        super().__init__()
        self.dm_meta_conn_id = dm_meta_conn_id
        self.relay_dir = relay_dir

    def directory(self, source_id: str) -> Path:
        """Where the relay log of this source lies on this machine."""
        from airflow_provider_dm.launch.workdir import shared_relay

        return Path(self.relay_dir) if self.relay_dir else shared_relay(settings.work_root(), source_id)

    def list_files(self, source_id: str) -> list[RelayFile]:
        """All binlog files of the relay log on this machine, oldest first. Raises RelayDirectoryUnusable."""
        from airflow_provider_dm.engine.relay.directory import RelayDirectory

        directory = RelayDirectory(self.directory(source_id))
        return [file for sub_dir in directory.sub_dirs() for file in directory.files(sub_dir)]

    def status(self, source_id: str) -> RelayStatus | None:
        """What the relay last said; None if it never said anything."""
        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            return store.relay_status(source_id)

    def request_stop(self, source_id: str) -> None:
        """The relay ends after what it has received; it stays stopped until somebody starts it."""
        from airflow_provider_dm.engine.meta.model import Stage

        self.set_desired(source_id, Stage.STOPPED)

    def set_desired(self, source_id: str, stage: Stage) -> None:
        """What the relay of this source shall be: Running, Paused or Stopped."""
        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            store.set_relay_desired(source_id, stage)

    def plan_purge(self, source_id: str) -> Any:
        """Which files nobody needs any more. Raises NotSupportedYet."""
        raise _no_purge_yet(source_id)

    def purge(self, plan: Any) -> Any:
        """Remove them. Raises NotSupportedYet."""
        raise _no_purge_yet(str(plan))


def _no_purge_yet(where: str) -> Exception:
    from airflow_provider_dm.engine.errors import NotSupportedYet

    return NotSupportedYet("purging relay logs", where, "Files stay until you remove the relay directory.")


# When has a relay caught up?


@dataclass(frozen=True)
class CaughtUp:
    """Everything before the goal is on disk."""

    at: Location


@dataclass(frozen=True)
class Behind:
    """Not yet. `why` is a line for the log."""

    why: str


@dataclass(frozen=True)
class Broken:
    """It will not get there by itself: the relay stopped with an error, or the goal is not in its history."""

    why: str


RelayProgress = CaughtUp | Behind | Broken


def judge(status: RelayStatus | None, goal: Location) -> RelayProgress:
    """Where a relay stands to a goal in the upstream's present binlog. A stage unknown here raises."""
    from airflow_provider_dm.engine.meta.model import Stage
    from airflow_provider_dm.engine.mysql.location import Order, compare

    if status is None:
        return Behind("no relay of this source has reported yet")
    if status.relay is not None:
        # The upstream names its file without a sub-directory; it is the relay's newest one that holds it.
        order = compare(status.relay, replace(goal, suffix=status.relay.suffix))
        if order in (Order.SAME, Order.AFTER):
            return CaughtUp(status.relay)
        if order is Order.UNRELATED:
            return Broken(f"the relay is at {status.relay}, which is unrelated to {goal}: another upstream?")
    where = f"the relay is at {status.relay or 'its start'}, the goal is {goal}"
    match status.stage:
        case Stage.RUNNING | Stage.NEW if (status.heartbeat_age_seconds or 0.0) <= SILENT_SECONDS:
            return Behind(f"{where}; it tries again after {_said(status.error)}" if status.error else where)
        case Stage.RUNNING | Stage.NEW:
            return Behind(f"{where}; it has said nothing for {status.heartbeat_age_seconds:.0f} s")
        case Stage.PAUSED | Stage.STOPPED | Stage.FINISHED if status.error is None:
            return Behind(f"{where}; it is {status.stage.value.lower()}")
        case Stage.PAUSED | Stage.STOPPED | Stage.FINISHED:
            return Broken(f"{where}; it stopped: {_said(status.error)}")
        case unknown:
            assert_never(unknown)


def _said(error: dict[str, Any] | None) -> str:
    known = error or {}
    return f"[{known.get('ErrCode', '?')}] {known.get('Message', known)}"
