"""The relay log of a source for operators of DAGs: status, control, and whether a relay has caught up.

A relay's reports are in the metadata DB, its log in its directory. `progress_to` is the rule of the sensor and its
trigger; it is pure.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from airflow.sdk import BaseHook

from airflow_provider_dm.hooks import settings
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.launch.awaited import Awaited, Broken, Met, NotYet

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.records import RelayStatus
    from airflow_provider_dm.engine.mysql.endpoint import Endpoint
    from airflow_provider_dm.engine.mysql.location import Location
    from airflow_provider_dm.engine.relay.directory import RelayFile
    from airflow_provider_dm.engine.relay.purge import PurgeReport
    from airflow_provider_dm.engine.relay.purge_order import PurgeOrder


class RelayLogHook(BaseHook):
    """A hook that lists a relay's files, reads its status, asks it to stop, and purges files that no task needs.

    :param dm_meta_conn_id: connection of type ``dm_meta``; ``[dm] metadata_conn_id`` by default
    :param relay_dir: the source's ``relay-dir``; a relative path is in the source's folder of the work directory
    """

    def __init__(self, dm_meta_conn_id: str | None = None, *, relay_dir: str | None = None) -> None:
        super().__init__()
        self.dm_meta_conn_id = dm_meta_conn_id
        self.relay_dir = relay_dir

    def directory(self, source_id: str) -> Path:
        """Return the directory of this source's relay log on this machine."""
        from airflow_provider_dm.launch.workdir import shared_relay

        relay_dir = settings.relay_dir_of(source_id) or self.relay_dir or ""
        return shared_relay(settings.configured_work_root(), source_id, relay_dir)

    def list_files(self, source_id: str) -> list[RelayFile]:
        """List all binlog files of the relay log on this machine, oldest first. Raises RelayDirectoryUnusable."""
        from airflow_provider_dm.engine.relay.directory import RelayDirectory

        directory = RelayDirectory(self.directory(source_id))
        return [file for sub_dir in directory.sub_dirs() for file in directory.files(sub_dir)]

    def status(self, source_id: str) -> RelayStatus | None:
        """Return the relay's last report; None if it never reported."""
        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            return store.relay_status(source_id)

    def request_stop(self, source_id: str) -> None:
        """Ask the relay to stop once it has written all received events; it remains stopped until it is started
        again."""
        from airflow_provider_dm.engine.meta.records import Stage

        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            store.set_relay_desired(source_id, Stage.STOPPED)

    def purge(self, source_id: str, order: PurgeOrder) -> PurgeReport:
        """Remove the files of the order that no task needs; with `PurgeOrder.preview` only return them. A relay that
        runs on another machine removes the files itself.

        Raises the errors of `launch.relay_purge.purge_relay_log`.
        """
        from airflow_provider_dm.launch.relay_purge import purge_relay_log

        with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            return purge_relay_log(store, source_id, order, here=self.directory(source_id))


# Progress to a goal


def goal_of(text: str) -> Location:
    """Return a goal from `FILE:POSITION`, or from a result of `goal_text`. Raises InvalidLocation.

    Its `server_uuid` "" means the server that the relay follows at the time.
    """
    from airflow_provider_dm.engine.mysql.errors import InvalidLocation
    from airflow_provider_dm.engine.mysql.location import Location

    if not text.lstrip().startswith("{"):
        return Location.parse(text)
    try:
        return Location.from_json(json.loads(text))
    except (ValueError, TypeError):
        raise InvalidLocation(text) from None


def goal_text(goal: Location) -> str:
    """Return a goal as JSON without secrets, for a trigger's arguments."""
    return json.dumps(goal.to_json())


def server_goal(endpoint: Endpoint) -> Location:
    """Return the current end of this server's binlog.

    Raises ServerUnreachable, AccessDenied, BinlogDisabled, BinlogStatusDenied.
    """
    from airflow_provider_dm.engine.mysql.binlog_status import current_location
    from airflow_provider_dm.engine.mysql.connection import connected, server_info

    with connected(endpoint) as session:
        return replace(current_location(session), server_uuid=server_info(session).server_uuid)


def progress_to(status: RelayStatus | None, goal: Location) -> Awaited:
    """Return whether a relay has everything before a goal on disk, and its location then.

    A live relay has not ended: it may be paused, or wait for its upstream or for disk space.
    """
    from airflow_provider_dm.engine.meta.records import Stage
    from airflow_provider_dm.engine.mysql.location import holds
    from airflow_provider_dm.engine.relay.health import SILENT_SECONDS, age_of, error_text, is_alive

    if status is None:
        return NotYet("no relay of this source has reported yet")
    server_uuid = status.sub_dir.rpartition(".")[0]
    held = status.relay is not None and holds(replace(status.relay, server_uuid=server_uuid), goal)
    if held is None:
        return Broken(f"the relay is at {status.relay}, which is unrelated to {goal}: is that of another server?")
    if held and status.relay is not None:
        return Met(str(status.relay))
    where = f"the relay is at {status.relay or 'its start'}, the goal is {goal}"
    silent = "" if age_of(status) <= SILENT_SECONDS else f"; no report for {age_of(status):.0f} s"
    match status.stage:
        case Stage.RUNNING | Stage.NEW:
            trouble = f"; it tries again after {error_text(status.error)}" if status.error and not silent else ""
            return NotYet(f"{where}{trouble}{silent}")
        case Stage.PAUSED if status.error is not None and is_alive(status, SILENT_SECONDS):
            return NotYet(f"{where}; it waits, and resumes automatically after {error_text(status.error)}")
        case Stage.PAUSED | Stage.STOPPED | Stage.FINISHED if status.error is None:
            return NotYet(f"{where}; it is {status.stage.value.lower()}{silent}")
        case Stage.PAUSED | Stage.STOPPED | Stage.FINISHED:
            return Broken(f"{where}; it stopped: {error_text(status.error)}")
        case unknown:
            assert_never(unknown)
