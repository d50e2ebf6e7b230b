"""The claim of a subtask: lease, then generation. From there on only the claimer may write it.

The lease is polite (`meta.lease`), the generation is the fence (`generation`). An app claims for its whole life; who
changes something by hand claims for a moment, so that no sync is at work meanwhile, and one that comes later sees it.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Holder
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.target.generation import claim_generation, current_generation
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.target.restored import check_not_restored
from airflow_provider_dm.engine.target.session import target_connection
from airflow_provider_dm.engine.target.subtask import known_subtasks

log = logging.getLogger(__name__)

MOMENT_SECONDS: Final = 60.0
"""How long a claim by hand keeps others waiting, should its process die."""


def generation_before_claim(store: MetaStore, target: Endpoint, ref: SubtaskRef) -> int:
    """Look at what is to be claimed, bring its tables to this release's version, and return the generation there.

    Raises TargetWentBack, and what `ensure_meta_tables` raises.
    """
    connection = target_connection(target)
    told = store.list_subtasks(task=ref.task, source=ref.source)  # before the target, which is always ahead of it
    known = known_subtasks(connection, ref.meta_schema, ref.task, [ref.source]).get(ref.source)
    for said in told:
        check_not_restored(connection, ref, known, said)
    ensure_meta_tables(target, ref.meta_schema)  # raises generations when it changes something
    return current_generation(connection, ref)


@contextmanager
def claimed_for_a_moment(store: MetaStore, target: Endpoint, ref: SubtaskRef, *, who: str) -> Iterator[Fence]:
    """Hold the subtask for a block. A run that waits for its lease gets it afterwards; one that was claimed elsewhere
    (with another metadata DB) is fenced.

    Raises LeaseHeld while a run is at work, TargetWentBack, Fenced, and what connecting raises.
    """
    known = generation_before_claim(store, target, ref)
    # An identity of its own: attempts of one identity take over from each other.
    holder = Holder(f"{who} {uuid.uuid4()}", "1", socket.gethostname())
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
