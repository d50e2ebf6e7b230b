"""A sync that a person may pause and resume, inside the same app: DM's pause-task and resume-task.

    work ── gate open again ───────▶ work again
         ── gate closed, wish Paused ──▶ Paused (no error), nothing held but the lease ── wish Running ──▶ work again
         ── gate closed, otherwise ────▶ the end, behind an epoch
         ── error, other sources work ─▶ Paused with the error ── a new wish Running ──▶ work again

It pauses where it stops: between two epochs, so what is applied are whole transactions of the log. What may have passed
meanwhile is asked as after an error (resuming.py).
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
    """Run `run` until it has finished or `gate` wants the end; while it is to pause, wait. Raises what `run` raises.

    `run` ends soon after `gate.closed` is set. An error that may pass is none of a sync that is to pause anyway.
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
                continue  # it was resumed while it was leaving
        progress.paused()
        _say_paused(source, store)
        close_target(source.target)  # a server closes what is silent for hours
        if gate.wait():
            log.info("the sync of %s goes on", source.fence.ref.source)
        elif result is not None:
            return replace(result, seconds=round(seconds, 3))


def wait_for_resumption(source: SyncSource, store: MetaStore, gate: Gate) -> bool:
    """Wait, after an error has paused the sync, until a person resumes it. Return False if it is to end instead."""
    ref = source.fence.ref
    close_target(source.target)
    while not (gate.wish is Stage.STOPPED or gate.ending.wait(LOOK_SECONDS)):
        try:
            found = store.list_subtasks(task=ref.task, source=ref.source)
        except DmError as error:
            log.warning("whether the sync of %s is to go on is not known: %s", ref.source, error)
            continue
        if any(one.desired is Stage.RUNNING for one in found):
            log.info("the sync of %s goes on", ref.source)
            return True
    return False


def say_stopped(source: SyncSource, store: MetaStore) -> None:
    """Report a sync as Stopped that a person has stopped while an error had paused it."""
    try:
        for one in store.list_subtasks(task=source.fence.ref.task, source=source.fence.ref.source):
            store.put_subtask(
                one.task, one.source, unit=one.unit, stage=Stage.STOPPED, needed=one.needed, applied=one.applied
            )
    except DmError as lost:
        log.warning("the metadata DB does not know that the sync is stopped: %s", lost)


def _say_paused(source: SyncSource, store: MetaStore) -> None:
    log.info("the sync of %s is paused on request", source.fence.ref.source)
    try:
        store.put_subtask_paused(*source.fence.ref.key)
    except DmError as lost:
        log.warning("the metadata DB does not know that the sync is paused: %s", lost)
