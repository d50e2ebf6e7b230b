"""Forgetting what is known of a task, as DM's `start-task --remove-meta` does: the next start begins from nothing.

Rows of the target's tables stay as they are; what is forgotten is how far they are applied, whose they are, and DM's
checkpoint. Nobody may be at work: every source is claimed first (claim.py), so a run that has the lease refuses it, and
one that was frozen meanwhile is fenced. The generation stays, as it only grows.

The metadata DB forgets first what is applied: else the target would look as if it had lost its commits (DM-6015).
What is needed of the log, and what people want at places of it, goes last: should the target fail, it is as it was, and
has its log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.tables import metadata
from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.target.claim import claimed_for_a_moment
from airflow_provider_dm.engine.target.dm_checkpoint import columns_there, forget_checkpoint
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef, resync_lane
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import UNIT_NEW, known_subtasks, list_subtasks

_KEPT: Final = "dm_subtask"
"""Has the generation."""


class SharedProgress(DmError):
    """Sources of a task that share what one of them is to forget."""

    task: str
    sources: tuple[str, ...]
    others: tuple[str, ...]

    code = "DM-6084"
    scope = Scope.DOWNSTREAM
    what = (
        "task {task}: {sources} cannot be forgotten alone, as merged tables take the rows of {others} as well, which "
        "would go on beside them."
    )
    hint = "Leave -s out, so that all sources of the task begin anew."


def remove_progress(
    store: MetaStore,
    target: Endpoint,
    meta_schema: str,
    task: str,
    sources: Sequence[str],
    *,
    who: str,
    withdraw: Callable[[MetaStore, str, str], None],
) -> list[str]:
    """Forget these sources of a task, all or none. Return those of which something was known.

    `withdraw`: takes back what a source of a task has reported to DDL locks; else nobody ever resolves them.
    Raises LeaseHeld while a run is at work, SharedProgress, Fenced, and what a claim raises.
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
            _forget_applied(store, fence.ref)
        run_transaction(target, lambda tx: _remove_all(tx, fences))
        for fence in fences:
            withdraw(store, *fence.ref.key)
            store.forget_subtask(*fence.ref.key)
    return [ref.source for ref in known]


def _forget_applied(store: MetaStore, ref: SubtaskRef) -> None:
    """Forget in the metadata DB what is applied, and nothing else: until the target has forgotten, it needs its log."""
    for one in store.list_subtasks(task=ref.task, source=ref.source):
        store.put_subtask(*ref.key, unit=one.unit, stage=one.stage, needed=one.needed, applied=None)


def _check_alone(connection: Connection, refs: Sequence[SubtaskRef]) -> None:
    """Check that no merged table has further sources, which have begun. Raises SharedProgress."""
    one, mine = refs[0], {ref.source for ref in refs}
    rows = query_whole(
        connection,
        "source, target_schema, target_name",
        f"FROM {one.table('dm_table_schema')} WHERE task = %s",
        (one.task,),
    )
    fed = {(text(schema), text(name)) for source, schema, name in rows if text(source) in mine}
    others = sorted({text(source) for source, *name in rows if tuple(map(text, name)) in fed} - mine)
    if others:
        raise SharedProgress(one.task, tuple(sorted(mine)), tuple(others))


def _remove_all(connection: Connection, fences: Sequence[Fence]) -> None:
    for fence in fences:
        fence.check(connection)
    for fence in fences:
        _remove(connection, fence)


def _remove(connection: Connection, fence: Fence) -> None:
    ref = fence.ref
    for table in _tables_by_subtask(connection, ref.meta_schema):
        query(
            connection,
            f"DELETE FROM {ref.table(table)} WHERE task = %s AND source IN (%s, %s)",
            (*ref.key, resync_lane(ref.source)),
        )
    query(
        connection,
        f"UPDATE {ref.table(_KEPT)} SET unit = %s, buckets = 0, hash_version = 0, plan = '', start_location = NULL, "
        "overwrite_until = NULL, location = NULL, updated_at = UTC_TIMESTAMP(6) WHERE task = %s AND source = %s",
        (UNIT_NEW, *ref.key),
    )
    if not any(one.start for one in list_subtasks(connection, ref.meta_schema, ref.task)):
        # What is left of the task are lanes that its sources share: DDL of merged tables.
        query(connection, f"DELETE FROM {ref.table('dm_ddl')} WHERE task = %s", (ref.task,))
    forget_checkpoint(connection, ref)


def _tables_by_subtask(connection: Connection, meta_schema: str) -> list[str]:
    """Return our tables whose rows are a subtask's, whichever release has made them. The metadata DB may be in the same
    schema: its tables are its own."""
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
