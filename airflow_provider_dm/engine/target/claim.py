"""The claim of a subtask: lease, then generation. From there on only the claimer may write it.

The lease is polite (`meta.lease`), the generation is the fence: a number that only grows, held by every row which a
transaction of the engine writes. Whoever starts work claims a generation above all before it. The claim updates every
frontier and chunk row, so it waits for the transactions of the writer before (they hold those rows) and makes all later
ones fail: an executor or a driver that was frozen, cut off or forgotten can only be refused. Leases tell people and
schedulers who should be working; the row of dm_subtask decides who can. An app claims for its whole life; who changes
something by hand claims for a moment, so that no sync is at work meanwhile, and one that comes later sees it.

Before it is claimed the target is asked whether it still has what was committed in it, by what the metadata DB
remembers, and before a run goes on after a failure by what it has seen itself. The metadata DB hears of a place only
when all before it is in the target. A target that stands before that was restored to an older state, or lost its last
commits; whether rows and frontier were restored together, nobody here can tell. A target that knows nothing of the
subtask is another matter: a task that begins anew.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Holder, SubtaskStatus, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import this_process
from airflow_provider_dm.engine.target.copy_progress import CHUNKS
from airflow_provider_dm.engine.target.frontier import extent, read_all_stands
from airflow_provider_dm.engine.target.identity import Fence, Fenced, SubtaskRef, TargetWentBack
from airflow_provider_dm.engine.target.meta_rows import FRONTIER
from airflow_provider_dm.engine.target.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import SUBTASKS, UNIT_NEW, UNIT_SYNC, Subtask, known_subtasks

log = logging.getLogger(__name__)

MOMENT_SECONDS: Final = 60.0
"""How long a claim by hand keeps others waiting, should its process die."""


def generation_before_claim(store: MetaStore, target: Endpoint, ref: SubtaskRef) -> int:
    """Create the metadata tables if they do not exist, and return the generation of the subtask.

    Raises TargetWentBack, and what `ensure_meta_tables` raises.
    """
    ensure_meta_tables(target, ref.meta_schema)
    connection = target_connection(target)
    told = store.list_subtasks(task=ref.task, source=ref.source)  # before the target, which is always ahead of it
    known = known_subtasks(connection, ref.meta_schema, ref.task, [ref.source]).get(ref.source)
    for said in told:
        check_not_restored(connection, ref, known, said)
    return current_generation(connection, ref)


@contextmanager
def claimed_for_a_moment(store: MetaStore, target: Endpoint, ref: SubtaskRef, *, who: str) -> Iterator[Fence]:
    """Hold the subtask for a block. A run that waits for its lease gets it afterwards; one that was claimed elsewhere
    (with another metadata DB) is fenced.

    Raises LeaseHeld while a run is at work, TargetWentBack, Fenced, and what connecting raises.
    """
    known = generation_before_claim(store, target, ref)
    # An identity of its own: attempts of one identity take over from each other.
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
    """Return the generation that the target accepts; 0 for a subtask that it has never seen."""
    rows = SUBTASKS.select(connection, ref, "generation")
    return int(rows[0][0]) if rows else 0


def claim_generation(endpoint: Endpoint, fence: Fence) -> None:
    """Make this generation the only one that may write, once every transaction of the one before has ended.

    Creates the dm_subtask row (unit `new`) where there is none. Raises Fenced when the target has seen this generation
    or a later one.
    """
    claim = str(uuid.uuid4())  # tells our own retry after a lost COMMIT from another's claim of the same number

    def body(connection: Connection) -> None:
        _claim_subtask(connection, fence, claim)
        for ref in (fence.ref, fence.ref.resync()):
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


# A target that went back


def check_not_restored(connection: Connection, ref: SubtaskRef, subtask: Subtask | None, said: SubtaskStatus) -> None:
    """Compare what the target has of a subtask with what the metadata DB was told (`said`). Raises TargetWentBack."""
    if said.unit is Unit.SYNC and said.applied is not None and subtask is not None and subtask.start is not None:
        check_still_has(connection, ref, subtask, said.applied)


def check_still_has(connection: Connection, ref: SubtaskRef, subtask: Subtask, applied: Location) -> None:
    """Check that all before `applied`, which was committed in the target once, is there. Raises TargetWentBack."""
    known = f"all up to {applied}"
    if subtask.unit != UNIT_SYNC:
        raise TargetWentBack(*ref.key, "a full load under way", known)
    stands = read_all_stands(connection, ref)
    if not stands:
        raise TargetWentBack(*ref.key, "no frontier", known)
    lo, _ = extent(stands)
    if lo < applied.sort_key:
        raise TargetWentBack(*ref.key, f"what lies before {lo} (sub-directory, file, position)", known)
