"""A bounded sync without work: every source's checkpoint is the end of its binlog. It needs no Spark app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP
from airflow_provider_dm.engine.downstream.contested_row import waiting
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.shard_groups import read_groups
from airflow_provider_dm.engine.downstream.subtask import known_subtasks
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.sync.sync_result import SyncResult, result_json
from airflow_provider_dm.launch.ddl_locks import stored_locks
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import new_run_id


def idle_result(inputs: Inputs, store: MetaStore, until: str) -> dict[str, Any] | None:
    """Return the result of a sync without work; None if the app has to run.

    The app also runs if a server returns an error, a pause or stop is requested, or a DDL lock is open.
    """
    if until != UNTIL_CAUGHT_UP:
        return None
    try:
        applied = _applied(inputs, store)
        if applied is None:
            return None
        for source, endpoint in inputs.pairs:
            if not _is_end(applied[source.source_id], store.relay_status(source.source_id), endpoint):
                return None
    except DmError:
        return None
    return result_json({source: SyncResult(location, finished=True) for source, location in applied.items()}, {}, 0.0)


def note_idle(store: MetaStore, task: str, holder: Holder, result: Mapping[str, Any]) -> str:
    """Record a sync without work as a run, since sensors and users read the lag of the last run. Return its id.

    Those of its subtasks that no sync has begun become Stopped, as after any sync that has ended.
    """
    run_id = new_run_id(task, "incremental_sync")
    shown = {"lag_seconds": 0.0, "unresolved_groups": [], "contested_rows": 0, "caught_up": True}
    progress = {source: {**shown, "location": one["location"]} for source, one in result["sources"].items()}
    store.start_run(run_id, task=task, app="incremental_sync", holder=holder)
    store.heartbeat_run(run_id, progress)
    store.finish_run(run_id, stage=Stage.FINISHED, result=dict(result))
    subtasks = [one for one in store.list_subtasks(task=task) if one.source in progress]  # other runs sync the others
    for new in (one for one in subtasks if one.stage is Stage.NEW):
        store.put_subtask(task, new.source, unit=new.unit, stage=Stage.STOPPED, needed=new.needed, applied=new.applied)
    return run_id


def _applied(inputs: Inputs, store: MetaStore) -> Mapping[str, Location] | None:
    """Return the location up to which each source is applied; None if the target shows unfinished work."""
    task, sources = inputs.task, [one.source_id for one in inputs.sources]
    subtasks = store.list_subtasks(task=task.name)
    if not {subtask.source for subtask in subtasks}.issuperset(sources):
        return None  # the metadata DB lacks the task's needs
    if any(one.error or one.desired not in (None, Stage.RUNNING) for one in subtasks) or stored_locks(store, task.name):
        return None
    with connected(inputs.target) as connection:
        known = known_subtasks(connection, task.meta_schema, task.name, sources)
        applied = {}
        for source in sources:
            ref, found = SubtaskRef(task.meta_schema, task.name, source), known.get(source)
            if found is None or found.location is None or not found.exact:
                return None
            frontier = read_whole_frontier(connection, ref)
            if not frontier or set(extent(frontier)) != {found.location.sort_key}:
                return None
            holds_back = any(group.members or group.resync for group in read_groups(connection, ref))
            if holds_back or waiting(connection, ref):
                return None
            applied[source] = found.location
    return applied


def _is_end(applied: Location, relay: RelayStatus | None, endpoint: Endpoint) -> bool:
    """Return True if the binlog ends at this location. False if the same position may be another server's."""
    with connected(endpoint) as connection:
        end, server_uuid = current_location(connection), server_info(connection).server_uuid
    if (applied.file, applied.position) != (end.file, end.position):
        return False
    sub_dir, _, suffix = relay.sub_dir.rpartition(".") if relay is not None else ("", "", "")
    known = applied.server_uuid or (sub_dir if suffix == f"{applied.suffix:06d}" else "")
    return bool(server_uuid) and known == server_uuid
