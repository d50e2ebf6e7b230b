"""A sync that goes on by itself after what may pass, inside the same app: DM's auto-resume.

    run_sync ── error ──▶ retry: Paused with the error, a pause, run_sync again; the error is gone when it is Running
                          stop: Paused with the error, for a person to decide
                          fenced: a newer run is at work and reports the state

Pauses grow with each failure, as the source's `checker` says: from 1 s, doubled, up to 5 min, with half of it left to
chance; 5 min of health take one step back. A sync with a goal has a caller that waits for it and has retries of its
own (an operator, a person): it gives up after GIVE_UP_SECONDS without progress. A sync without one never gives up.

The claim is made once. What could have happened in a pause is asked again each time: whether we are still the ones who
may write (the loop's first statement), and whether the target has what this run has seen committed in it.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER
from airflow_provider_dm.engine.config.source import CheckerConfig
from airflow_provider_dm.engine.downstream.claim import check_still_has
from airflow_provider_dm.engine.downstream.errors import TargetUnreachable, translate
from airflow_provider_dm.engine.downstream.session import close_target, target_connection
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError
from airflow_provider_dm.engine.merge.contests import OtherSourcesWanted
from airflow_provider_dm.engine.meta.model import RESUMES_IN_SECONDS
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.backoff import lengthened
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.result import SyncResult
from airflow_provider_dm.engine.sync.run import run_sync
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.source import SyncSource

log = logging.getLogger(__name__)

GIVE_UP_SECONDS: Final = 300.0
"""Airflow's own default for `retry_delay`, which takes over then, and the longest pause."""
NOT_ALONE: Final[tuple[type[DmError], ...]] = (OtherSourcesWanted,)
"""What may pass for another run, with other sources, and never for this one."""


# The decision


@dataclass(frozen=True)
class Life:
    """Outcome of one run of the loop. `worked`: it has applied something, or found that there is nothing to."""

    seconds: float
    worked: bool


@dataclass(frozen=True)
class Backoff:
    """Pause after the next failure. `steps`: how often the pause has been lengthened.

    `failing_since` (seconds of a clock that only grows): when it came to nothing for the first time in a row.
    """

    checker: CheckerConfig
    bounded: bool
    steps: int = 0
    failing_since: float | None = None

    def failed(self, life: Life, *, now: float) -> Backoff:
        """Return the state after a failure at `now`. Only a life that worked was one of health: one that did not may
        have been as long, as each transaction and each epoch has retries of its own.
        """
        rollback = self.checker.backoff_rollback
        back = int(life.seconds // rollback) if rollback else self.steps
        since = now if life.worked or self.failing_since is None else self.failing_since
        return replace(self, steps=max(0, self.steps - back * life.worked), failing_since=since)

    def pause_seconds(self, *, now: float) -> float | None:
        """Return how long to wait before the next attempt; None: it is not worth another one."""
        if not self.checker.check_enable:
            return None
        pause = lengthened(self.checker, self.steps)
        since = now if self.failing_since is None else self.failing_since
        return None if self.bounded and now + pause - since > GIVE_UP_SECONDS else pause

    def longer(self) -> Backoff:
        """Return the state for the failure after this one."""
        return replace(self, steps=self.steps + 1)


def passes(error: DmError, never: tuple[type[DmError], ...] = ()) -> bool:
    """Tell whether the same run may succeed after a while. `never`: errors that only a new process can get over."""
    return error.reacts() is Reaction.RETRY and not isinstance(error, (*NOT_ALONE, *never))


# Doing it


def run_sync_resuming(
    source: SyncSource,
    runner: Runner,
    store: MetaStore,
    stop: threading.Event,
    *,
    progress: SyncProgress | None = None,
    never: tuple[type[DmError], ...] = (),
) -> SyncResult:
    """Do as `run_sync`, and again after an error that may pass. `never`: see `passes`.

    Raises every DmError that stops a task, and the last one that might have passed when `stop` is set meanwhile.
    """
    began = time.monotonic()
    shown = progress or SyncProgress()
    backoff = Backoff(source.spec.config.checker, bounded=source.job.until != UNTIL_FOREVER)
    while True:
        shown.paused()
        epochs, alive_since = shown.epochs, time.monotonic()
        try:
            if shown.location is not None:
                _check_target(source, shown.location)
            result = run_sync(source, runner, store, stop, progress=shown)
        except (DmError, pymysql.err.Error) as raised:
            error, now = _as_dm_error(raised, source), time.monotonic()
        else:
            return replace(result, seconds=round(time.monotonic() - began, 3))
        life = Life(now - alive_since, worked=shown.epochs > epochs or shown.caught_up)
        backoff = backoff.failed(life, now=now)
        pause = backoff.pause_seconds(now=now) if passes(error, never) and not stop.is_set() else None
        _say(store, source, error, pause, shown.ddl_at)
        if pause is None:
            raise error
        shown.pauses(f"{error.code}, again in {pause:.1f} s")
        stopped = stop.wait(pause)
        shown.resumes()
        if stopped:
            _say(store, source, error, None, shown.ddl_at)
            raise error
        backoff = backoff.longer()


def _check_target(source: SyncSource, applied: Location) -> None:
    """Check that the target still has what this run has seen in it. Raises TargetWentBack."""
    connection, ref = target_connection(source.target), source.fence.ref
    subtask = read_subtask(connection, ref)
    if subtask is None:
        raise source.fence.refused(0)
    check_still_has(connection, ref, subtask, applied)


def _as_dm_error(raised: DmError | pymysql.err.Error, source: SyncSource) -> DmError:
    """Return an error of ours: what reads outside of transactions may meet a connection that has just been lost."""
    if isinstance(raised, DmError):
        return raised
    close_target(source.target)
    error = translate(raised, server="a server")
    if isinstance(error, TargetUnreachable):
        return error
    raise raised


def _say(store: MetaStore, source: SyncSource, error: DmError, pause: float | None, ddl_at: Location | None) -> None:
    """Tell the metadata DB what has paused the subtask, and at which DDL, unless a newer run reports the state."""
    if error.reacts() is Reaction.FENCED:
        return
    reported = ReportedError.of(error).to_json() | ({RESUMES_IN_SECONDS: round(pause, 1)} if pause is not None else {})
    if pause is not None:
        log.warning("the sync of %s goes on in %.1f s, after: %s", source.fence.ref.source, pause, error)
    try:
        store.put_subtask_error(*source.fence.ref.key, reported, at=ddl_at)
    except DmError as lost:
        log.warning("the metadata DB does not know what has paused the sync: %s", lost)
