"""The lease of a subtask, and its generation.

A run may take the lease only if no other run has claimed the subtask since this one was launched. A process that was
suspended during a later run (for example the driver of an attempt that the scheduler has given up) finds a newer
generation than at its launch, and ends.

A lease expires by the DB's clock unless it is renewed; it also ends when its holder's process has ended, which only a
process on the same machine can detect. It is not the fence: a holder may be suspended beyond the expiry. The fence is
the generation, which every acquisition increments and every transaction on the target checks. `decide_claim` is pure;
`acquire_lease` decides and writes while the row is locked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, update

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import SECOND, db_now
from airflow_provider_dm.engine.meta.errors import LeaseHeld, LeaseLost, RunOvertaken
from airflow_provider_dm.engine.meta.locked_rows import StorePart, matching, put_over, read_for_update
from airflow_provider_dm.engine.meta.records import Lease
from airflow_provider_dm.engine.processes import Holder, has_ended


def decide_claim(
    row: Row[Any] | None, holder: Holder, *, at_least: int, launched_after: int | None, holder_died: bool = False
) -> int:
    """Return the new generation for taking a row's lease (with the DB's `now`): expired, released, ours or orphaned.
    Raises LeaseHeld, RunOvertaken.
    """
    if row is None:
        return at_least + 1
    other = Holder(row.identity, row.attempt, row.host)
    if other.identity != holder.identity and row.expires_at > row.now and not holder_died:
        age, remaining = (row.now - row.acquired_at) / SECOND, (row.expires_at - row.now) / SECOND
        raise LeaseHeld(row.task, row.source, str(other), other.host, age, remaining)
    if launched_after is not None and row.generation > launched_after:
        raise RunOvertaken(row.task, row.source, str(other), row.generation, launched_after)
    return max(int(row.generation), at_least) + 1


class Leases(StorePart):
    def acquire_lease(
        self,
        task: str,
        source: str,
        holder: Holder,
        *,
        ttl_seconds: float,
        at_least: int,
        launched_after: int | None = None,
    ) -> Lease:
        """Acquire the lease with a generation above `at_least` and all earlier ones. A holder with the same identity is
        replaced at once. `launched_after`: `last_generation` when this run was launched; None: not checked.
        Raises LeaseHeld, RunOvertaken.
        """
        key = {"task": task, "source": source}
        values = {
            **asdict(holder),
            "acquired_at": db_now(),
            "expires_at": db_now() + int(ttl_seconds * SECOND),
        }

        def body(tx: Connection) -> Lease:
            held = read_for_update(tx, tables.lease, key)
            generation = decide_claim(
                held, holder, at_least=at_least, launched_after=launched_after, holder_died=_has_died(held)
            )
            put_over(tx, tables.lease, key, held, {**values, "generation": generation})
            return Lease(task, source, generation, holder, ttl_seconds)

        return self._database.write(body)

    def _lease(self, task: str, source: str) -> Row[Any] | None:
        return self._row(tables.lease, {"task": task, "source": source})

    def lease_held(self, task: str, source: str, holder: Holder) -> LeaseHeld | None:
        """Return the error that `acquire_lease` would raise because another run holds the lease, or None. Writes
        nothing.
        """
        try:
            row = self._lease(task, source)
            decide_claim(row, holder, at_least=0, launched_after=None, holder_died=_has_died(row))
        except LeaseHeld as held:
            return held
        return None

    def last_generation(self, task: str, source: str) -> int:
        """Return the last generation that was issued; 0 if none was."""
        row = self._lease(task, source)
        return 0 if row is None else int(row.generation)

    def renew_lease(self, lease: Lease) -> None:
        """Extend the lease to `ttl_seconds` from now. An expired lease is still ours if no other run took it. Raises
        LeaseLost.
        """
        expires = db_now() + int(lease.ttl_seconds * SECOND)
        if self._database.write(lambda tx: _update_own(tx, lease, expires_at=expires)) != 1:
            newer = self.last_generation(lease.task, lease.source) or None
            raise LeaseLost(lease.task, lease.source, lease.generation, newer)

    def release_lease(self, lease: Lease) -> None:
        """Release the lease, so that the next holder need not wait. No effect if it is no longer ours."""
        self._database.write(lambda tx: _update_own(tx, lease, expires_at=0))


def _has_died(row: Row[Any] | None) -> bool:
    """Return True if the holder ran on this machine and its process has ended: then the lease need not expire."""
    return row is not None and has_ended(row.process)


def _update_own(tx: Connection, lease: Lease, **values: Any) -> int:
    """Update our lease, and return the number of rows: 0 if it is no longer ours."""
    own = tables.lease.c.generation == lease.generation
    where = (matching(tables.lease, {"task": lease.task, "source": lease.source}), own)
    return tx.execute(update(tables.lease).where(*where).values(**values)).rowcount
