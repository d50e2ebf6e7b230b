"""A sync that pauses and resumes inside the same app: on request (DM's pause-task, resume-task), and after a transient
error (DM's auto-resume).

    run ── finished ──────▶ the end
        ── gate closed ───▶ Paused is requested: Paused without an error until Running is requested, then run again
                            otherwise: the end, after an epoch
        ── error, retry ──▶ Paused with the error, a pause, run again; the error is cleared when it is Running
        ── error, stop ───▶ Paused with the error, until a user decides (`wait_for_resumption`)
        ── error, fenced ─▶ the end; a newer run reports the state

The sync pauses between two epochs, so the target has complete transactions of the log.

The pause after an error grows with each failure by the source's `checker` settings: from 1 s, doubled, up to 5 min,
with 50 % jitter; 5 min without failure undo one doubling. A sync with a goal gives up after GIVE_UP_SECONDS without
progress, because its caller (an operator, a user) waits and has its own retries. A sync without a goal never gives up.

The generation is claimed once. After each pause the sync checks again that its generation may still write (the loop's
first statement), and that the target still has what this run has committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER
from airflow_provider_dm.engine.config.source import CheckerConfig
from airflow_provider_dm.engine.downstream.claim import check_still_has
from airflow_provider_dm.engine.downstream.errors import explained
from airflow_provider_dm.engine.downstream.session import close_target, target_connection
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError
from airflow_provider_dm.engine.merge.errors import OtherSourcesNeeded
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.backoff import backoff_seconds
from airflow_provider_dm.engine.sync.gate import GATE_POLL_SECONDS, Gate
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

GIVE_UP_SECONDS: Final = 300.0
"""Airflow's default `retry_delay`, as its retries take over then, and the longest pause."""
NOT_ALONE: Final[tuple[type[DmError], ...]] = (OtherSourcesNeeded,)
"""Errors that are transient for another run, with other sources, but permanent for this run."""


# The decision


@dataclass(frozen=True)
class Backoff:
    """The pause after the next failure. `steps`: the number of doublings.

    `bounded`: the sync gives up after GIVE_UP_SECONDS without progress.
    `failing_since`: the monotonic time of the first failure since the last progress.
    """

    checker: CheckerConfig
    bounded: bool
    steps: int = 0
    failing_since: float | None = None

    def failed(self, seconds: float, *, worked: bool, now: float) -> Backoff:
        """Return the state after a failure at `now`, of a run of the loop that took `seconds`.

        Only a run that `worked` (it has applied changes or reached the end of the log) undoes doublings: retries inside
        transactions and epochs can prolong a run without progress.
        """
        rollback = self.checker.backoff_rollback
        back = int(seconds // rollback) if rollback else self.steps
        since = now if worked or self.failing_since is None else self.failing_since
        return replace(self, steps=max(0, self.steps - back * worked), failing_since=since)

    def pause_seconds(self, *, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None: give up."""
        if not self.checker.check_enable:
            return None
        pause = backoff_seconds(self.checker, self.steps)
        since = now if self.failing_since is None else self.failing_since
        return None if self.bounded and now + pause - since > GIVE_UP_SECONDS else pause

    def longer(self) -> Backoff:
        """Return the state for the failure after this one."""
        return replace(self, steps=self.steps + 1)


def is_transient(error: DmError, never: tuple[type[DmError], ...] = ()) -> bool:
    """Return True if the same run may succeed after a pause. `never`: errors that need a new process."""
    return error.reacts() is Reaction.RETRY and not isinstance(error, (*NOT_ALONE, *never))


# The action


def run_sync_resuming(
    source: SyncSource,
    store: MetaStore,
    gate: Gate,
    progress: SyncProgress,
    run: Callable[[], SyncResult],
    *,
    never: tuple[type[DmError], ...] = (),
) -> SyncResult:
    """Call `run` until it has finished or `gate` requests the end; `run` ends soon after `gate.closed` is set.

    `never`: see `is_transient`. Raises every DmError that stops a task, and the last transient error if the end is
    requested during its pause.
    """
    backoff, seconds = Backoff(source.spec.config.checker, bounded=source.job.until != UNTIL_FOREVER), 0.0
    while True:
        progress.paused()
        epochs, began = progress.epochs, time.monotonic()
        outcome = _outcome_of(source, progress.location, run)
        now = time.monotonic()
        seconds += now - began
        if isinstance(outcome, DmError):
            if not gate.closed.is_set():
                worked = progress.epochs > epochs or progress.caught_up
                backoff = backoff.failed(now - began, worked=worked, now=now)
                pause = backoff.pause_seconds(now=now) if is_transient(outcome, never) else None
                if pause is not None:
                    _report(store, source, outcome, pause, progress.ddl_at)
                    progress.pauses(f"{ReportedError.of(outcome).code}, again in {pause:.1f} s")
                    gate.closed.wait(pause)
                    progress.resumes()
                    backoff = backoff.longer()
                    if not gate.closed.is_set():
                        continue
            if not gate.is_paused or outcome.reacts() is not Reaction.RETRY:
                _report(store, source, outcome, None, progress.ddl_at)
                raise outcome
            log.warning("the sync of %s pauses, after: %s", source.fence.ref.source, outcome)
        elif outcome.finished or (gate.closed.is_set() and not gate.is_paused):
            return replace(outcome, seconds=round(seconds, 3))
        elif not gate.is_paused:
            continue  # it was resumed while it was ending
        progress.paused()
        _report_paused(source, store)
        close_target(source.target)  # a server closes connections that are idle for hours
        if gate.wait():
            log.info("the sync of %s is resumed", source.fence.ref.source)
        elif isinstance(outcome, SyncResult):
            return replace(outcome, seconds=round(seconds, 3))


def _outcome_of(source: SyncSource, applied: Location | None, run: Callable[[], SyncResult]) -> SyncResult | DmError:
    """Return the result of `run`, or its error. `applied`: the location up to which this run has committed."""
    try:
        if applied is not None:
            _check_target(source, applied)
        return run()
    except (DmError, pymysql.err.Error) as raised:
        return _as_dm_error(raised, source)


def _check_target(source: SyncSource, applied: Location) -> None:
    """Check that the target still has what this run has committed, up to `applied`. Raises TargetWentBack."""
    connection, ref = target_connection(source.target), source.fence.ref
    subtask = read_subtask(connection, ref)
    if subtask is None:
        raise source.fence.refused(0)
    check_still_has(connection, ref, subtask, applied)


def _as_dm_error(raised: DmError | pymysql.err.Error, source: SyncSource) -> DmError:
    """Translate the driver's error, which reads outside of transactions raise, to a DmError. Raises an error of the
    driver that explains nothing."""
    if isinstance(raised, DmError):
        return raised
    close_target(source.target)
    error = explained(raised)
    if error is None:
        raise raised
    return error


def _report(store: MetaStore, source: SyncSource, error: DmError, pause: float | None, ddl_at: Location | None) -> None:
    """Report the error and the location of its DDL to the metadata DB, unless a newer run reports the state."""
    if error.reacts() is Reaction.FENCED:
        return
    reported = ReportedError.of(error).to_json() | ({RESUMES_IN_SECONDS: round(pause, 1)} if pause is not None else {})
    if pause is not None:
        log.warning("the sync of %s resumes in %.1f s, after: %s", source.fence.ref.source, pause, error)
    try:
        store.put_subtask_error(*source.fence.ref.key, reported, at=ddl_at)
    except DmError as lost:
        log.warning("the error was not reported to the metadata DB: %s", lost)


def wait_for_resumption(source: SyncSource, store: MetaStore, gate: Gate) -> bool:
    """Wait, after an error has paused the sync, until a user resumes it. Return False if the sync must end instead."""
    ref = source.fence.ref
    close_target(source.target)
    while not (gate.requested is Stage.STOPPED or gate.ending.wait(GATE_POLL_SECONDS)):
        try:
            subtasks = store.list_subtasks(task=ref.task, source=ref.source)
        except DmError as error:
            log.warning("the requests for the sync of %s cannot be read: %s", ref.source, error)
            continue
        if any(subtask.desired is Stage.RUNNING for subtask in subtasks):
            log.info("the sync of %s resumes", ref.source)
            return True
    return False


def report_stopped(source: SyncSource, store: MetaStore) -> None:
    """Report Stopped for a sync that a user has stopped while it was paused by an error."""
    try:
        for one in store.list_subtasks(task=source.fence.ref.task, source=source.fence.ref.source):
            store.put_subtask(
                one.task, one.source, unit=one.unit, stage=Stage.STOPPED, needed=one.needed, applied=one.applied
            )
    except DmError as lost:
        log.warning("the stage Stopped was not reported to the metadata DB: %s", lost)


def _report_paused(source: SyncSource, store: MetaStore) -> None:
    log.info("the sync of %s is paused on request", source.fence.ref.source)
    try:
        store.put_subtask_paused(*source.fence.ref.key)
    except DmError as lost:
        log.warning("the stage Paused was not reported to the metadata DB: %s", lost)
