"""The claim of a subtask: first the lease, then the generation. After it only the claimer can write the subtask.

The lease is advisory (`meta.lease`), the generation is the fence: a number that only grows, in every row that a
transaction of the engine writes. Every start claims a generation higher than all before. The claim updates every
frontier and chunk row, so it waits for the transactions of the previous writer (which lock these rows) and makes all
its later ones fail: an executor or a driver that was frozen, disconnected or forgotten is refused. Leases show users
and schedulers which run should work; the row of dm_subtask decides which run can. An app claims for its whole life; a
change by hand claims for a moment, so that no sync runs at the same time, and a later one reads the change.

Before the claim, the target is compared with what the metadata DB has recorded as committed in it, and before a run
resumes after a failure, with what the run itself has committed. The metadata DB learns a location only after everything
before it is in the target. A target that is before that location was restored to an older state, or lost its last
commits; whether rows and frontier were restored together cannot be determined here. A target without the subtask is a
different case: a task that starts from the beginning.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_provider_dm.engine.downstream.copy_progress import CHUNKS
from airflow_provider_dm.engine.downstream.errors import Fenced, TargetWentBack
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import FRONTIER
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import refs_of_resyncs
from airflow_provider_dm.engine.downstream.subtask import SUBTASKS, UNIT_NEW, UNIT_SYNC, Subtask, known_subtasks
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder, this_process

log = logging.getLogger(__name__)

MOMENT_SECONDS: Final = 60.0
"""The life of a lease for a claim by hand, in case its process dies."""


def generation_before_claim(store: MetaStore, target: Endpoint, ref: SubtaskRef) -> int:
    """Create the metadata tables if they do not exist, and return the generation of the subtask.

    Raises TargetWentBack, and the errors of `ensure_meta_tables`.
    """
    ensure_meta_tables(target, ref.meta_schema)
    connection = target_connection(target)
    recorded = store.list_subtasks(task=ref.task, source=ref.source)  # read first: the target is always ahead of it
    known = known_subtasks(connection, ref.meta_schema, ref.task, [ref.source]).get(ref.source)
    for status in recorded:
        if status.unit is Unit.SYNC and status.applied is not None and known is not None and known.start is not None:
            check_still_has(connection, ref, known, status.applied)
    return current_generation(connection, ref)


@contextmanager
def claimed_for_a_moment(store: MetaStore, target: Endpoint, ref: SubtaskRef, *, who: str) -> Iterator[Fence]:
    """Hold the subtask for a block. A run that waits for the lease gets it afterwards; a run with another metadata DB
    is fenced.

    Raises LeaseHeld while a run is working, TargetWentBack, Fenced, and errors of connecting.
    """
    known = generation_before_claim(store, target, ref)
    # An identity of its own, as attempts with the same identity take over each other's lease.
    holder = Holder(f"{who} {uuid.uuid4()}", "1", socket.gethostname(), this_process())
    lease = store.acquire_lease(ref.task, ref.source, holder, ttl_seconds=MOMENT_SECONDS, at_least=known)
    try:
        fence = Fence(ref, lease.generation)
        claim_generation(target, fence)
        yield fence
    finally:
        try:
            store.release_lease(lease)
        except DmError as error:
            log.warning("the lease was not released and will expire: %s", error)


# The generation


def current_generation(connection: Connection, ref: SubtaskRef) -> int:
    """Return the generation that the target accepts; 0 for an unknown subtask."""
    rows = SUBTASKS.select(connection, ref, "generation")
    return int(rows[0][0]) if rows else 0


def claim_generation(endpoint: Endpoint, fence: Fence) -> None:
    """Make this generation the only one that can write, after every transaction of the previous one has ended.

    Creates the dm_subtask row (unit `new`) if it does not exist. Raises Fenced if the target has this generation or a
    later one.
    """
    claim = str(uuid.uuid4())  # distinguishes a retry after a lost COMMIT from another claim of the same number

    def body(connection: Connection) -> None:
        _claim_subtask(connection, fence, claim)
        for ref in (fence.ref, *refs_of_resyncs(connection, fence.ref)):
            FRONTIER.update(connection, ref, "generation = %s", (fence.generation,))
        CHUNKS.update(connection, fence.ref, "generation = %s, round = 0", (fence.generation,))

    run_transaction(endpoint, body)


def _claim_subtask(connection: Connection, fence: Fence, claim: str) -> None:
    ref, generation = fence.ref, fence.generation
    rows = SUBTASKS.select(connection, ref, "generation, claim", tail="FOR UPDATE")
    if not rows:
        columns, row = "generation, claim, unit, buckets, hash_version", (generation, claim, UNIT_NEW, 0, 0)
        SUBTASKS.put(connection, ref, columns, [row], now="updated_at", verb="INSERT")
        return
    ((found, holder),) = rows
    if int(found) >= generation and (int(found), text(holder)) != (generation, claim):
        raise Fenced(*ref.key, generation, int(found))
    changes = "generation = %s, claim = %s, updated_at = UTC_TIMESTAMP(6)"
    SUBTASKS.update(connection, ref, changes, (generation, claim))


# A restored target


def check_still_has(connection: Connection, ref: SubtaskRef, subtask: Subtask, applied: Location) -> None:
    """Check that the target still has everything before `applied`, which was committed once. Raises TargetWentBack."""
    known = f"all up to {applied}"
    if subtask.unit != UNIT_SYNC:
        raise TargetWentBack(*ref.key, "an unfinished full load", known)
    states = read_whole_frontier(connection, ref)
    if not states:
        raise TargetWentBack(*ref.key, "no frontier", known)
    lo, _ = extent(states)
    if lo < applied.sort_key:
        raise TargetWentBack(*ref.key, f"everything before {lo} (sub-directory, file, position)", known)
