"""Run the sync of one source: build its loop, run it, and return the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from airflow_provider_dm.engine.meta.records import Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.checkpoint import DmPoints
from airflow_provider_dm.engine.sync.ddl.by_hand import SubtaskOperators
from airflow_provider_dm.engine.sync.epoch import EpochApplier, EpochSize
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.loop import Loop
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.noting import SyncNotes
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.planning import Planning
from airflow_provider_dm.engine.sync.ports import MergedTables
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.shard_ddl.resync import Resyncing
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.start.opening import open_sync
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import ApplyResult, Target
from airflow_provider_dm.engine.sync.write.concurrency import spreads
from airflow_provider_dm.engine.sync.write.transactional import RANGE_BYTES, SMALL_CHANGE_BYTES


def run_sync(
    source: SyncSource,
    runner: Runner,
    store: MetaStore,
    stop: threading.Event,
    *,
    progress: SyncProgress | None = None,
    size: EpochSize | None = None,
    loading: bool = False,
    goal: Location | None = None,
) -> SyncResult:
    """Sync one source until the job's `until` or until `stop` is set; the current epoch is finished first.

    `loading`: the source is between two rounds of its load (copy/source_load.py). `goal`: replaces `until`.
    `size`: the initial size of epochs. Raises every DmError that stops a task.
    """
    began = time.monotonic()
    shown = progress or SyncProgress()
    with closing(Tail.of(source.job, source.config.source_id, store, shown)) as tail:
        opened = open_sync(source, store=store, stop=stop, loading=loading, goal=goal)
        state = opened.state
        shards = Shards.load(source, store, state.plan)
        target, sharing = Target.at(source.target), Sharing.of(source, loaded=opened.loaded)
        applier = EpochApplier(source, runner, target, sized(size, source, state.plan))

        def resync(group: Group, at: LoopState, on_applied: Callable[[ApplyResult], None]) -> bool:
            return Resyncing(applier, store, stop, at, on_applied, group).run()

        points, unit = (None, Unit.LOAD) if loading else (DmPoints(source, target.transactions), Unit.SYNC)
        loop = Loop(
            state=state,
            planning=Planning(tail, SubtaskOperators(store, *source.fence.ref.key), opened.open_places, runner),
            applier=applier,
            following=Following(source, shards=shards),
            merged=MergedTables(sharing, shards, resync),
            notes=SyncNotes(target.transactions, store, shards, points, unit),
            progress=shown,
            stop=stop,
        )
        finished = loop.run()
    seconds = round(time.monotonic() - began, 3)
    return SyncResult(
        loop.state.applied,
        finished,
        shown.epochs,
        shown.transactions,
        shown.changes,
        sharing.rows,
        shown.ddl_applied,
        seconds,
        tuple(shown.unresolved_groups or ()),
    )


def sized(size: EpochSize | None, source: SyncSource, plan: SyncPlan) -> EpochSize:
    """Return the initial size of epochs. `size`: the caller's choice, if any."""
    syncer = source.config.syncer
    if size is None:
        size = _usual_size(source, plan)
        if not (spreads(plan) or plan.whole):
            size = size.keeping()
    if plan.whole:
        return replace(size, cut=SMALL_CHANGE_BYTES * syncer.most_rows if syncer.most_rows else RANGE_BYTES)
    return size.with_batch(syncer.most_rows, plan.buckets)


def _usual_size(source: SyncSource, plan: SyncPlan) -> EpochSize:
    if source.job.ship_ranges:
        return EpochSize() if spreads(plan) else EpochSize.of_one_task()
    return EpochSize.by_the_driver() if len(source.job.sources) == 1 else EpochSize.of_one_task()
