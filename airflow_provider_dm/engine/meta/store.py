"""The metadata DB's face: `with MetaStore.open(url) as store`.

It only delegates: one module for each noun (lease, runs, subtasks, operators, relays) holds the statements. Every call
is one short transaction; nothing stays open between two calls, so a store may live as long as a process and be shared
by its threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta import ddl_locks, lease, operators, relays, runs, subtasks
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.model import (
    Holder,
    Json,
    Lease,
    Operator,
    Place,
    RelayStatus,
    Run,
    Stage,
    SubtaskStatus,
    Unit,
)
from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION, schema_version
from airflow_provider_dm.engine.meta.url import parse_url, shown
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.engine.mysql.location import Location


class MetaSchemaOutdated(DmError):
    """The metadata DB's tables are not those of this release."""

    url: str
    found: str
    wanted: str

    code = "DM-8010"
    what = "the metadata DB {url} has schema version {found}, this release needs {wanted}."
    hint = "Run `dmctl meta migrate` (or upgrade airflow-provider-dm, if the DB is the newer one)."


class MetaStore:
    """Leases, runs, subtasks, binlog operators and relays. Every write is a compare-and-set."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: Secret | str) -> Self:
        """Open the metadata DB. Raises MetaUrlInvalid, MetaUnreachable, MetaDriverMissing, MetaSchemaOutdated."""
        store = cls(Database(parse_url(url)))
        try:
            store.check_schema()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_schema(self) -> None:
        """Check that the schema is that of this release. Raises MetaSchemaOutdated."""
        found = self._database.read(schema_version)
        if found != SCHEMA_VERSION:
            raise MetaSchemaOutdated(shown(self._database.url), found or "none", SCHEMA_VERSION)

    # Leases

    def acquire_lease(
        self,
        task: str,
        source: str,
        holder: Holder,
        *,
        ttl_seconds: float,
        at_least: int,
        launched_behind: int | None = None,
    ) -> Lease:
        """Take a lease with a generation above `at_least` and above all before. The same identity takes over at once.

        `launched_behind`: `last_generation` when the run was launched. Raises LeaseHeld while somebody else's lease has
        not expired, RunOvertaken when the free one was claimed by another run since the launch."""
        return lease.acquire(
            self._database,
            task,
            source,
            holder,
            ttl_seconds=ttl_seconds,
            at_least=at_least,
            launched_behind=launched_behind,
        )

    def lease_held(self, task: str, source: str, holder: Holder) -> lease.LeaseHeld | None:
        """Return why this holder cannot acquire the lease at present; None: it can."""
        return lease.held_by_another(self._database, task, source, holder)

    def last_generation(self, task: str, source: str) -> int:
        """Return the last one that was given out; 0: none ever was."""
        return lease.generation(self._database, task, source) or 0

    def renew_lease(self, held: Lease) -> None:
        """Renew the lease. Raises LeaseLost."""
        lease.renew(self._database, held)

    def release_lease(self, held: Lease) -> None:
        """Release the lease. Nothing happens if it is no longer ours."""
        lease.release(self._database, held)

    # Runs

    def start_run(self, run_id: str, *, task: str, app: str, holder: Holder) -> None:
        """Start a run. Raises RunTaken if the id belongs to another identity."""
        runs.start(self._database, run_id, task=task, app=app, holder=holder)

    def heartbeat_run(self, run_id: str, progress: Json) -> None:
        """Write a run's heartbeat and progress. Raises RunUnknown, LostRace (the run is not Running any more)."""
        runs.heartbeat(self._database, run_id, progress)

    def finish_run(self, run_id: str, *, stage: Stage, result: Json | None = None, error: Json | None = None) -> None:
        """Write a run's outcome. Raises RunUnknown, LostRace (it has another outcome already)."""
        runs.finish(self._database, run_id, stage=stage, result=result, error=error)

    def get_run(self, run_id: str) -> Run | None:
        return runs.get(self._database, run_id)

    def list_runs(self, *, task: str | None = None) -> list[Run]:
        """Return the runs of a task (None: of all), the newest first."""
        return runs.list_of(self._database, task)

    def request_stop(self, run_id: str) -> None:
        """Ask a run to stop. Raises RunUnknown."""
        runs.request_stop(self._database, run_id)

    def stop_requested(self, run_id: str) -> bool:
        """Tell whether the run was asked to stop. Raises RunUnknown."""
        return runs.stop_requested(self._database, run_id)

    # Subtasks

    def put_subtask(
        self,
        task: str,
        source: str,
        *,
        unit: Unit,
        stage: Stage,
        needed: Location | None = None,
        applied: Location | None = None,
    ) -> None:
        """Replace what was known; the relay keeps everything from `needed` on."""
        subtasks.put_status(self._database, task, source, unit=unit, stage=stage, needed=needed, applied=applied)

    def put_subtask_error(self, task: str, source: str, error: Json, *, at: Location | None = None) -> None:
        """Say that the subtask is Paused, and by what. `at`: the transaction whose DDL it was, if it was one."""
        subtasks.put_paused(self._database, task, source, error=error, at=at)

    def put_subtask_paused(self, task: str, source: str) -> None:
        """Say that the subtask is Paused because somebody wants it so."""
        subtasks.put_paused(self._database, task, source, error=None, at=None)

    def set_subtask_desired(self, task: str, source: str, stage: Stage) -> None:
        """Write the stage that people want a subtask to have. Nothing happens to one that is not known."""
        subtasks.set_desired(self._database, task, source, stage)

    def forget_subtask(self, task: str, source: str) -> None:
        subtasks.forget(self._database, task, source)

    def list_subtasks(self, *, task: str | None = None, source: str | None = None) -> list[SubtaskStatus]:
        return subtasks.list_of(self._database, task=task, source=source)

    def oldest_needed(self, source: str) -> Location | None:
        """Return the oldest need of a source's subtasks that are not Finished. Raises UnrelatedNeeds."""
        return subtasks.oldest_needed(self.list_subtasks(source=source))

    # Binlog operators

    def put_operators(self, wanted: Iterable[Operator]) -> None:
        """Write all of them, or none; each takes the place of what was wanted there before."""
        operators.put_operators(self._database, wanted)

    def operators(self, task: str, source: str, *, passed: bool = False) -> list[Operator]:
        """Return what is wanted at places of the log, the oldest first. `passed`: also what is only a record."""
        return operators.list_of(self._database, task, source, passed=passed)

    def mark_operator_used(self, operator: Operator, at: Location) -> None:
        """Bind it to the transaction that begins at `at`, before anything is done there. Raises LostRace."""
        operators.mark_used(self._database, operator, at)

    def mark_operators_passed(self, task: str, source: str, applied: Location) -> list[Operator]:
        """Mark what lies before `applied`, which is in the target. Return what was marked now."""
        return operators.mark_passed(self._database, task, source, applied)

    def revert_operator(self, task: str, source: str, place: Place) -> Operator:
        """Remove what is wanted at a place, and return it. Raises OperatorMissing."""
        return operators.revert(self._database, task, source, place)

    # DDL locks

    def change_ddl_lock(self, task: str, lock: str, number: int, how: ddl_locks.Change) -> Json | None:
        """Change the lock of this id and number by a function that may be called again; return what is there now."""
        return ddl_locks.change(self._database, task, lock, number, how)

    def ddl_locks(self, task: str | None = None) -> list[tuple[Json, float]]:
        """Return the locks of a task (None: of all) as JSON, each with its age in seconds."""
        return ddl_locks.list_of(self._database, task)

    # Relays

    def put_relay_status(self, status: RelayStatus) -> None:
        relays.put_status(self._database, status)

    def relay_status(self, source: str) -> RelayStatus | None:
        return relays.status(self._database, source)

    def set_relay_desired(self, source: str, stage: Stage) -> None:
        relays.set_desired(self._database, source, stage)

    def relay_desired(self, source: str) -> Stage | None:
        return relays.desired(self._database, source)
