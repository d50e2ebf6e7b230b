"""Pausing and resuming a sync on request inside the same app: DM's pause-task and resume-task.

    work ── gate open again ─────────────▶ work again
         ── gate closed, Paused requested ▶ Paused (no error), only the lease is held ── Running requested ─▶ work again
         ── gate closed, otherwise ───────▶ the end, after an epoch
         ── error, other sources work ────▶ Paused with the error ── a new request Running ──▶ work again

A sync pauses between two epochs, so whole transactions of the log are applied. After the pause it makes the same checks
as after an error (resuming.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_dm.engine.downstream.session import close_target
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.gate import LOOK_SECONDS, Gate
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.result import SyncResult
from airflow_provider_dm.engine.sync.source import SyncSource

log = logging.getLogger(__name__)


def run_sync_pausing(
    source: SyncSource, store: MetaStore, gate: Gate, progress: SyncProgress, run: Callable[[], SyncResult]
) -> SyncResult:
    """Call `run` until it has finished or the gate is closed for good; wait while a pause is requested.

    `run` must end soon after `gate.closed` is set. Raises what `run` raises, except a transient error during a pause
    request: that is logged.
    """
    seconds = 0.0
    while True:
        result: SyncResult | None = None
        try:
            result = run()
        except DmError as error:
            if not gate.is_paused or error.reacts() is not Reaction.RETRY:
                raise
            log.warning("the sync of %s pauses, after: %s", source.fence.ref.source, error)
        else:
            seconds += result.seconds
            if result.finished:
                return replace(result, seconds=round(seconds, 3))
            if not gate.is_paused:
                if gate.closed.is_set():
                    return replace(result, seconds=round(seconds, 3))
                continue  # it was resumed while it was stopping
        progress.paused()
        _report_paused(source, store)
        close_target(source.target)  # the server would close an idle connection after wait_timeout
        if gate.wait():
            log.info("the sync of %s resumes", source.fence.ref.source)
        elif result is not None:
            return replace(result, seconds=round(seconds, 3))


def wait_for_resumption(source: SyncSource, store: MetaStore, gate: Gate) -> bool:
    """Wait, after an error has paused the sync, until a user resumes it. Return False if the sync must end instead."""
    ref = source.fence.ref
    close_target(source.target)
    while not (gate.wish is Stage.STOPPED or gate.ending.wait(LOOK_SECONDS)):
        try:
            found = store.list_subtasks(task=ref.task, source=ref.source)
        except DmError as error:
            log.warning("the requests for the sync of %s cannot be read: %s", ref.source, error)
            continue
        if any(one.desired is Stage.RUNNING for one in found):
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
