"""Removal of a task's state, as by DM's `start-task --remove-meta`: the next start begins from nothing.

Rows of the target's tables are not changed. The progress, the owners of rows, and DM's checkpoint are removed. Indexes
that a load has postponed are built first. No run may be working: every source is claimed before (claim.py), so a run
with the lease causes a refusal, and a frozen run is fenced. The generation is kept, as it only grows.

The applied locations are removed first: otherwise the target would appear to have lost commits (DM-6015). The task's
needs of the log, and users' decisions for its locations, are removed last: if the target fails, the task is unchanged
and still has its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from airflow_provider_dm.engine.downstream.claim import claimed_for_a_moment
from airflow_provider_dm.engine.downstream.dm_checkpoint import columns_there, forget_checkpoint
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.postponed_indexes import build_postponed
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import forget_groups
from airflow_provider_dm.engine.downstream.subtask import UNIT_NEW, known_subtasks, list_subtasks
from airflow_provider_dm.engine.downstream.table_schema import load_feeders
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Json
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.tables import metadata
from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.shard.lock import Lock, withdrawn

_KEPT: Final = "dm_subtask"
"""The table with the generation."""


def remove_progress(
    store: MetaStore, target: Endpoint, meta_schema: str, task: str, sources: Sequence[str], *, who: str
) -> list[str]:
    """Remove the state of these sources of a task, all or none. Return those that had any.

    Their reports to DDL locks, which would otherwise never be resolved, are withdrawn. Raises LeaseHeld while a run is
    working, InvalidInput, Fenced, and the errors of a claim.
    """
    refs = [SubtaskRef(meta_schema, task, source) for source in sources]
    connection = target_connection(target)
    begun = known_subtasks(connection, meta_schema, task, sources)
    known = [ref for ref in refs if ref.source in begun or columns_there(connection, ref)]
    with ExitStack() as held:
        fences = [held.enter_context(claimed_for_a_moment(store, target, ref, who=who)) for ref in known]
        if known:
            _check_alone(connection, known)
        for fence in fences:
            build_postponed(target, fence)
            _forget_applied(store, fence.ref)
        run_transaction(target, lambda tx: _remove_all(tx, fences))
        for fence in fences:
            withdraw_reports(store, *fence.ref.key)
            store.forget_subtask(*fence.ref.key)
    return [ref.source for ref in known]


def withdraw_reports(store: MetaStore, task: str, source: str) -> None:
    """Withdraw a source's reports to DDL locks when its subtask is removed: it reports again if it is run again."""

    def without_report(stored: Json | None) -> Json | None:
        left = None if stored is None else withdrawn(Lock.from_json(stored), source)
        return None if left is None else left.to_json()

    for lock in [Lock.from_json(body) for body, _ in store.ddl_locks(task)]:
        if lock.info(source) is not None:
            store.change_ddl_lock(task, lock.id, lock.number, without_report)


def _forget_applied(store: MetaStore, ref: SubtaskRef) -> None:
    """Remove only the applied locations from the metadata DB: the log is needed until the target's state is removed."""
    for subtask in store.list_subtasks(task=ref.task, source=ref.source):
        store.put_subtask(*ref.key, unit=subtask.unit, stage=subtask.stage, needed=subtask.needed, applied=None)


def _check_alone(connection: Connection, refs: Sequence[SubtaskRef]) -> None:
    """Check that no merged table has other sources that have started. Raises InvalidInput."""
    one, mine = refs[0], {ref.source for ref in refs}
    feeders = load_feeders(connection, one)
    fed = {feeder.target for feeder in feeders if feeder.source in mine}
    others = sorted({feeder.source for feeder in feeders if feeder.target in fed} - mine)
    if others:
        raise InvalidInput(
            f"task {one.task}: the state of {', '.join(sorted(mine))} cannot be removed alone, as merged tables take "
            f"rows of {', '.join(others)} as well, which would continue.",
            "Remove -s, so that all sources of the task start from the beginning.",
        )


def _remove_all(connection: Connection, fences: Sequence[Fence]) -> None:
    for fence in fences:
        fence.check(connection)
    for fence in fences:
        _remove(connection, fence)


def _remove(connection: Connection, fence: Fence) -> None:
    ref = fence.ref
    forget_groups(connection, ref)
    for table in _tables_by_subtask(connection, ref.meta_schema):
        query(connection, f"DELETE FROM {ref.table(table)} WHERE task = %s AND source = %s", ref.key)
    query(
        connection,
        f"UPDATE {ref.table(_KEPT)} SET unit = %s, buckets = 0, hash_version = 0, plan = '', start_location = NULL, "
        "overwrite_until = NULL, location = NULL, updated_at = UTC_TIMESTAMP(6) WHERE task = %s AND source = %s",
        (UNIT_NEW, *ref.key),
    )
    if not any(subtask.start for subtask in list_subtasks(connection, ref.meta_schema, ref.task)):
        # What is left of the task are lanes that its sources share: DDL of merged tables.
        query(connection, f"DELETE FROM {ref.table('dm_ddl')} WHERE task = %s", (ref.task,))
    forget_checkpoint(connection, ref)


def _tables_by_subtask(connection: Connection, meta_schema: str) -> list[str]:
    """Return the tables of the meta-schema whose rows belong to subtasks, of any release, except those of a metadata DB
    in the same schema."""
    rows = query_whole(
        connection,
        "table_name",
        "FROM information_schema.columns WHERE table_schema = %s AND column_name = 'source' AND table_name IN "
        "(SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'task')",
        (meta_schema, meta_schema),
    )
    names = {text(name).lower() for (name,) in rows}
    others = {_KEPT, *metadata.tables}
    return sorted(name for name in names if name.startswith("dm_") and name not in others)
