"""Automatic resumption of a sync after a transient error, inside the same app: DM's auto-resume.

    run_sync ── error ──▶ retry: Paused with the error, a pause, run_sync again; the error is cleared when it is Running
                          stop: Paused with the error, until a user decides
                          fenced: end; a newer run reports the state

The pause grows with each failure by the source's `checker` settings: from 1 s, doubled, up to 5 min, with 50 % jitter;
5 min without failure undo one doubling. A sync with a goal gives up after GIVE_UP_SECONDS without progress, because its
caller (an operator, a user) waits and has its own retries. A sync without a goal never gives up.

The generation is claimed once. After each pause the sync checks again that its generation may still write (the loop's
first statement), and that the target still has what this run has committed.
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
"""Errors that are transient for another run, with other sources, but permanent for this run."""


# The decision


@dataclass(frozen=True)
class Life:
    """The outcome of one run of the loop. `worked`: it has applied changes or reached the end of the log."""

    seconds: float
    worked: bool


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

    def failed(self, life: Life, *, now: float) -> Backoff:
        """Return the state after a failure at `now`. Only a life that `worked` undoes doublings: retries inside
        transactions and epochs can make a life without progress long.
        """
        rollback = self.checker.backoff_rollback
        back = int(life.seconds // rollback) if rollback else self.steps
        since = now if life.worked or self.failing_since is None else self.failing_since
        return replace(self, steps=max(0, self.steps - back * life.worked), failing_since=since)

    def pause_seconds(self, *, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None: give up."""
        if not self.checker.check_enable:
            return None
        pause = lengthened(self.checker, self.steps)
        since = now if self.failing_since is None else self.failing_since
        return None if self.bounded and now + pause - since > GIVE_UP_SECONDS else pause

    def longer(self) -> Backoff:
        """Return the state for the failure after this one."""
        return replace(self, steps=self.steps + 1)


def passes(error: DmError, never: tuple[type[DmError], ...] = ()) -> bool:
    """Return True if the same run may succeed after a pause. `never`: errors that need a new process."""
    return error.reacts() is Reaction.RETRY and not isinstance(error, (*NOT_ALONE, *never))


# The action


def run_sync_resuming(
    source: SyncSource,
    runner: Runner,
    store: MetaStore,
    stop: threading.Event,
    *,
    progress: SyncProgress | None = None,
    never: tuple[type[DmError], ...] = (),
) -> SyncResult:
    """Call `run_sync`, and again after each transient error. `never`: see `passes`.

    Raises every DmError that stops a task, and the last transient error if `stop` is set during its pause.
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
        _report(store, source, error, pause, shown.ddl_at)
        if pause is None:
            raise error
        shown.pauses(f"{error.code}, again in {pause:.1f} s")
        stopped = stop.wait(pause)
        shown.resumes()
        if stopped:
            _report(store, source, error, None, shown.ddl_at)
            raise error
        backoff = backoff.longer()


def _check_target(source: SyncSource, applied: Location) -> None:
    """Check that the target still has what this run has committed, up to `applied`. Raises TargetWentBack."""
    connection, ref = target_connection(source.target), source.fence.ref
    subtask = read_subtask(connection, ref)
    if subtask is None:
        raise source.fence.refused(0)
    check_still_has(connection, ref, subtask, applied)


def _as_dm_error(raised: DmError | pymysql.err.Error, source: SyncSource) -> DmError:
    """Translate a lost connection to a DmError: reads outside of transactions raise the driver's error. Raises all
    other errors of the driver."""
    if isinstance(raised, DmError):
        return raised
    close_target(source.target)
    error = translate(raised, server="a server")
    if isinstance(error, TargetUnreachable):
        return error
    raise raised


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
