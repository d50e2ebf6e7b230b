"""The full migration of a run's sources: begin_load.py starts each, source_load.py loads it in its own thread.

Sources pause and stop together. A loaded source is handed over to sync; while another one waits for DDL of its shards,
its log is applied from time to time. All state is in the target: the run may crash anywhere and start again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP, JobSpec
from airflow_provider_dm.engine.config.task import ShardMode, TaskMode
from airflow_provider_dm.engine.copy.begin_load import Loading, OnBegun, begin, is_loaded, log_needed
from airflow_provider_dm.engine.copy.preconditions import check_all_copied
from airflow_provider_dm.engine.copy.source_load import SourceLoad
from airflow_provider_dm.engine.downstream.contested_row import WaitingRows, waiting
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, load_chunks
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.postponed_indexes import Indexes, read_postponed
from airflow_provider_dm.engine.downstream.session import close_target, run_transaction
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.overwritable import is_overwritable
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_COPYING
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner
from airflow_provider_dm.engine.sync.sharing import contests_of, servers_of, targets_in_order
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

ACCOMPANY_SECONDS: Final = 0.5

Json = dict[str, Any]


@dataclass(frozen=True)
class LoadOutcome:
    """The outcome of `load_all`. `complete`: every source is handed over to sync; False: the run was asked to stop, and
    a new start continues it."""

    result: Json
    complete: bool


@dataclass(frozen=True)
class Hooks:
    """Callbacks of `load_all`. `store`: None if no log is read (task-mode full)."""

    runner: Runner
    store: MetaStore | None = None
    stop: Callable[[], bool] = lambda: False
    closed: Callable[[str], threading.Event] = lambda _source: threading.Event()
    """Returns the event that ends a source's sync after its epoch."""
    begun: OnBegun = lambda _source, _start: None
    """Called before a source starts: the relay log is needed from this location on."""
    ended: Callable[[str, Location], None] = lambda _source, _until: None
    """Called when a source is handed over: the log is needed from this location on, and everything before is applied.
    """
    lane: Callable[[str], None] = lambda _source: None
    """Called by the thread of each source, if there are several."""


def load_all(spec: JobSpec, fences: Mapping[str, Fence], hooks: Hooks) -> LoadOutcome:
    """Load all sources of the job. `fences`: of the claims in the target, by source-id.

    Result: {"rows", "seconds", "notes", "sources": {id: {"rows", "tables", "chunks", "start", "resumed", "rounds",
    "longest_round_seconds", "writers_blocked_seconds", "written_to_meanwhile", "contested_rows"}}}.
    "writers_blocked_seconds": the longest time that a lock of this run blocked writers at a time.
    Raises the typed errors of the copy's modules and of a sync.
    """
    began = time.monotonic()
    target = spec.target.resolve()
    sources = [SyncSource.of(spec, fences[source.config.source_id]) for source in spec.sources]
    open_sources = [source for source in sources if not is_loaded(source)]
    for source in sources:
        if source not in open_sources:
            check_all_copied(source)
    slots = hooks.runner.slots
    loadings = begin(spec.task, open_sources, target, slots=slots, begun=hooks.begun) if open_sources else []
    run = _Run(sources, hooks)
    complete = run.load(loadings)
    results = {source.id: run.result(source) for source in sources}
    result = {
        "rows": sum(one["rows"] for one in results.values()),
        "seconds": round(time.monotonic() - began, 3),
        "notes": sorted({note for loading in loadings for note in loading.notes}),
        "sources": results,
    }
    return LoadOutcome(result, complete)


@dataclass
class _Run:
    """The sources of one run."""

    sources: Sequence[SyncSource]
    hooks: Hooks
    loads: dict[str, SourceLoad] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def load(self, loadings: Sequence[Loading]) -> bool:
        """Load all sources. Return False if the run was asked to stop. Raises the first error of a source."""
        if not loadings:
            return True
        self.loads = {loading.source.id: self._load_of(loading, len(loadings)) for loading in loadings}
        with ThreadPoolExecutor(len(self.sources), thread_name_prefix="load") as pool:
            threads = [pool.submit(self._thread, source) for source in self.sources]
        for thread in threads:
            if (error := thread.exception()) is not None:
                raise error
        return all(thread.result() for thread in threads)

    def result(self, source: SyncSource) -> Json:
        """Return the report of a source."""
        ref = source.fence.ref
        chunks, rows = run_transaction(source.target, lambda tx: (load_chunks(tx, ref), waiting(tx, ref)))
        found = {
            "rows": sum(chunk.rows_copied for chunk in chunks),
            "tables": len({chunk.table for chunk in chunks}),
            "chunks": len(chunks),
        }
        load = self.loads.get(source.id)
        if load is None:
            return found
        contested = sum(row.rows for row in rows if row.source == source.id)
        begun: Json = {"start": str(load.loading.start), "resumed": load.loading.resumed, "contested_rows": contested}
        return found | begun | load.to_json()

    def _load_of(self, loading: Loading, loads: int) -> SourceLoad:
        source, slots = loading.source, self.hooks.runner.slots

        def follow(goal: Location | None) -> bool:
            assert self.hooks.store is not None
            runner = self.hooks.runner if goal is None else LocalRunner(1)
            closed = self.hooks.closed(source.id)
            return run_sync(
                _until_caught_up(source), runner, self.hooks.store, closed, loading=True, goal=goal
            ).finished

        return SourceLoad(
            loading,
            self.hooks.runner,
            follow,
            lambda: contests_of(source, MOST_WHILE_COPYING),
            partial(self._spares, source),
            self._stops,
            readers=max(1, slots // loads),
            short=slots < loads,
        )

    def _spares(self, source: SyncSource, mapping: TableMapping) -> bool:
        if not source.reads_log:
            return False
        if source.config.syncer.safe_mode and is_overwritable(mapping):
            return True
        feeders = servers_of(source).feeders()
        return mapping.target.name in targets_in_order(source.job)(feeders)

    def _stops(self) -> bool:
        """Sources pause and stop together: otherwise a run would wait for a source that has stopped."""
        return self._ended.is_set() or self.hooks.stop()

    def _thread(self, source: SyncSource) -> bool:
        if len(self.sources) > 1:
            self.hooks.lane(source.id)
        try:
            load = self.loads.get(source.id)
            if load is not None:
                if not load.run():
                    self._ended.set()
                    return False
                self.hooks.ended(source.id, log_needed(source))
            self._accompany(source)
        except BaseException:
            self._ended.set()
            raise
        finally:
            close_target(source.target)
        return True

    def _accompany(self, source: SyncSource) -> None:
        """Apply the log of a loaded source while others wait for DDL that its shards may have to execute."""
        if source.config.shard_mode is not ShardMode.PESSIMISTIC or source.config.mode is TaskMode.FULL:
            return
        assert self.hooks.store is not None
        while not self._stops() and not all(is_loaded(load.loading.source) for load in self.loads.values()):
            if any(load.waiting_since is not None for load in self.loads.values()):
                run_sync(_until_caught_up(source), self.hooks.runner, self.hooks.store, self.hooks.closed(source.id))
            time.sleep(ACCOMPANY_SECONDS)


def _until_caught_up(source: SyncSource) -> SyncSource:
    return replace(source, job=source.job.model_copy(update={"until": UNTIL_CAUGHT_UP}))


def load_progress(target: Endpoint, ref: SubtaskRef) -> Json:
    """Return the progress of a subtask in the target: one attempt, empty if the target is not reachable.

    {"unit": "load", "phase", "rows", "chunks", "chunks_done", "contested_rows"}.
    """

    def look(connection: Connection) -> tuple[list[ChunkProgress], list[WaitingRows], Indexes]:
        return load_chunks(connection, ref), waiting(connection, ref), read_postponed(connection, ref)

    try:
        chunks, rows_waiting, indexes = run_transaction(target, look, retry_seconds=0)
    except DmError as error:
        log.debug("no progress to show: %s", error)
        return {}
    return {
        "unit": "load",
        "phase": _phase(chunks, indexes),
        "rows": sum(chunk.rows_copied for chunk in chunks),
        "chunks": len(chunks),
        "chunks_done": sum(chunk.done for chunk in chunks),
        "contested_rows": sum(waiting.rows for waiting in rows_waiting if waiting.source == ref.source),
    }


def _phase(chunks: Sequence[ChunkProgress], indexes: Indexes) -> str:
    if not chunks:
        return "preparing"
    if indexes and all(chunk.done for chunk in chunks):
        return "building indexes"
    return "copying" if any(chunk.round for chunk in chunks) else "applying the log"
