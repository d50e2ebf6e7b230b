"""Determines the start locations of a task before its apps and relays start.

If DM has a checkpoint of the task, it continues there. An incremental task may have a GTID set or a time as its start:
each source is queried once, if its subtask has not started in the target. Afterwards the task has a file and a
position, for relays and apps alike. If the metadata DB has lost a task, its needs are restored from the target, so that
no relay starts too late and no purge removes files that it needs.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_provider_dm.engine.binlog.xa import needed_location
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.dm_checkpoint import to_take_over
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.prepared_xa import read_prepared
from airflow_provider_dm.engine.downstream.shard_groups import read_groups
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begun_subtasks, known_subtasks
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import AccessDenied, ServerUnreachable
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.places import find_place
from airflow_provider_dm.engine.shard.group import needed_with
from airflow_provider_dm.engine.sync.log.locations import location_at
from airflow_provider_dm.engine.sync.start.dm_points import place_to_begin
from airflow_provider_dm.launch.inputs import Inputs

log = logging.getLogger(__name__)


def _start_time_refused(task: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"task {task} cannot start at a time: {reason}.",
        "Remove --start-time, or start another task (another name) at that time.",
    )


def with_starts(inputs: Inputs, start_time: str = "") -> Inputs:
    """Return the inputs with the start locations of sources. `start_time`: the argument of the command line.

    Raises InvalidInput, CheckpointUnusable, PlaceNotFound, InvalidGtidSet, ConfigError, and errors of connecting.
    """
    task = inputs.task
    inputs, is_of_dm = _with_dm_checkpoints(inputs, start_time)
    if is_of_dm:
        return inputs
    if start_time:
        if task.task_mode is not TaskMode.INCREMENTAL:
            raise _start_time_refused(task.name, f"its task-mode is {task.task_mode.value}, which copies first")
        task = task.model_copy(update={"start_time": start_time})
    if task.task_mode is not TaskMode.INCREMENTAL or not _sources_without_start(task):
        return inputs
    with connected(inputs.target) as connection:
        begun = begun_subtasks(connection, task.meta_schema, task.name, task.source_ids)
    if start_time and begun:
        place = next(iter(begun.values())).location
        raise _start_time_refused(task.name, f"the target has its checkpoint, {place}")
    places = {
        source.source_id: _start_location(task, source.source_id, endpoint)
        for source, endpoint in inputs.pairs
        if source.source_id in _sources_without_start(task) and source.source_id not in begun
    }
    for source, place in places.items():
        log.info("source %s begins at %s", source, place)
    return replace(inputs, task=task.beginning_at(places))


def _with_dm_checkpoints(inputs: Inputs, start_time: str) -> tuple[Inputs, bool]:
    """Return the inputs with DM's checkpoints of sources that have not started here, and whether there are any. DM has
    completed their load, so the task only reads the log.
    """
    task = inputs.task
    try:
        with connected(inputs.target) as connection:
            known = known_subtasks(connection, task.meta_schema, task.name, task.source_ids)
            imports = {
                source: checkpoint
                for source in task.source_ids
                if (checkpoint := to_take_over(connection, _ref(task, source), task.task_mode, known.get(source)))
            }
    except (ServerUnreachable, AccessDenied) as error:  # the precheck reports it, and the app reads it again
        log.info("DM's checkpoint could not be read yet: %s", error)
        return inputs, False
    if not imports:
        return inputs, False
    one = next(iter(imports.values()))
    if start_time:
        raise _start_time_refused(task.name, f"the target has a checkpoint of DM, {one.point}")
    has_begun = {source for source, subtask in known.items() if subtask.start is not None}
    fresh = [source for source in task.source_ids if source not in imports and source not in has_begun]
    if fresh and task.task_mode is TaskMode.ALL:
        raise one.unusable(f"it lacks source {fresh[0]}, which DM has not loaded yet: let DM finish the load")
    places = {
        source.source_id: place_to_begin(imports[source.source_id], endpoint, by_gtid=source.enable_gtid)
        for source, endpoint in inputs.pairs
        if source.source_id in imports
    }
    for source, place in places.items():
        log.info("source %s continues at DM's checkpoint, %s", source, place)
    task = task.model_copy(update={"task_mode": TaskMode.INCREMENTAL}).beginning_at(places)
    return replace(inputs, task=task), True


def _ref(task: TaskConfig, source: str) -> SubtaskRef:
    return SubtaskRef(task.meta_schema, task.name, source)


def record_needs(inputs: Inputs, store: MetaStore) -> None:
    """Record in the metadata DB, for sources that it lacks, which part of their logs the target's state needs.

    Raises errors of connecting and of the store.
    """
    task = inputs.task
    known = {one.source for one in store.list_subtasks(task=task.name)}
    unknown = [one.source_id for one in inputs.sources if one.source_id not in known]
    if not unknown:
        return
    with connected(inputs.target) as connection:
        for source, subtask in begun_subtasks(connection, task.meta_schema, task.name, unknown).items():
            ref = _ref(task, source)
            frontier = read_whole_frontier(connection, ref)
            if subtask.location is None or not frontier:
                continue
            applied = location_at(extent(frontier)[0], subtask.location)
            needed = needed_with(needed_location(applied, read_prepared(connection, ref)), read_groups(connection, ref))
            unit = Unit.SYNC if subtask.unit == UNIT_SYNC else Unit.LOAD
            store.put_subtask(task.name, source, unit=unit, stage=Stage.STOPPED, needed=needed, applied=applied)
            log.info("the metadata DB lacked task %s on %s: it needs the log from %s", task.name, source, needed)


def _sources_without_start(task: TaskConfig) -> set[str]:
    """Return the sources whose start is not determined yet."""
    metas = {instance.source_id: instance.meta for instance in task.mysql_instances}
    return {source for source, meta in metas.items() if task.start_time or (meta is not None and meta.only_gtid)}


def _start_location(task: TaskConfig, source: str, endpoint: Endpoint) -> Location:
    if task.start_time:
        return find_place(endpoint, at_time=task.start_time)
    meta = task.instance(source).meta
    return find_place(endpoint, after=meta.binlog_gtid if meta is not None else "")
