"""The full migration of a run's sources, from the first look to the hand-over: the steps in their order.

    begin    survey, design, create, P0, chunks                     (begin.py)
    rounds   lanes of chunk jobs to the runner, until none is left  (here)
    again    the same for tables that were altered meanwhile, until none was (again.py)
    end      Pend, hand over to sync

The work of a round is bounded in time. Between rounds the driver looks whether it should stop and deals what is left.
A lane is a Spark task that copies one chunk after the other; a source has at most as many lanes as DM's
`mydumpers.threads` allows connections to it. Nothing is kept in memory that the target does not know: the run
may die anywhere and begin again."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.again import Watches
from airflow_provider_dm.engine.copy.begin import Begun, begin, finished, log_needed
from airflow_provider_dm.engine.copy.copier import copy_chunk
from airflow_provider_dm.engine.copy.job import ChunkJob, ChunkResult
from airflow_provider_dm.engine.copy.keyless import paging_order
from airflow_provider_dm.engine.copy.loading import Loading, Source
from airflow_provider_dm.engine.copy.preconditions import check_nothing_new
from airflow_provider_dm.engine.copy.sharing import Sharing
from airflow_provider_dm.engine.copy.watch import Watch
from airflow_provider_dm.engine.copy.writing import same_key, verb_for
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, Order, compare
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.target.contested_row import Waiting, waiting
from airflow_provider_dm.engine.target.copied_tables import BY_LOG
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, load_chunks
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.session import run_transaction
from airflow_provider_dm.engine.target.statements import Verb
from airflow_provider_dm.engine.target.subtask import UNIT_LOAD, finish_load, read_subtask

log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 10.0
CHANGED_ATTEMPTS: Final = 5

Json = dict[str, Any]


@dataclass(frozen=True)
class Lane:
    """Chunks of one source that one task copies one after the other."""

    jobs: tuple[ChunkJob, ...]
    seconds: float
    """How long; of each chunk that is begun at least one page is copied."""


@dataclass(frozen=True)
class CopyLane:
    """The function that runs on executors. It knows how to log in, so it travels as code, not as an item that Spark may
    spill.
    """

    sources: dict[str, Endpoint]
    target: Endpoint

    def __call__(self, lane: Lane) -> list[ChunkResult]:
        """Copy the lane's chunks one after the other. Raises what `copy_chunk` raises."""
        until = time.time() + lane.seconds
        results: list[ChunkResult] = []
        for job in lane.jobs:
            results.append(copy_chunk(replace(job, until=until), self.sources[job.fence.ref.source], self.target))
            if time.time() >= until:
                break
        return results


RunLanes = Callable[[CopyLane, Sequence[Lane]], Sequence[list[ChunkResult]]]
"""How lanes are run: on Spark, or by threads in a test."""


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop; it goes on where it was when started again."""

    result: Json


@dataclass(frozen=True)
class Finished:
    """Every source is handed over to sync."""

    result: Json


Outcome = Finished | Stopped


@dataclass(frozen=True)
class Hooks:
    """The functions by which `migrate` reaches its caller, and how many lanes run at a time."""

    run_lanes: RunLanes
    slots: int
    """How many lanes run at a time."""
    stop: Callable[[], bool] = lambda: False
    begun: Begun = lambda _source, _start: None
    """A source is about to be copied: the relay log is needed from this location on."""
    ended: Callable[[str, Location], None] = lambda _source, _until: None
    """A source is handed over; the log is needed from the location on, and what lies before it is applied."""
    sync: Callable[[str], None] = lambda _source: None
    """A source whose load is complete is to be synced up to where its log ends: a copy waits for DDL that it makes."""
    apply_log: Callable[[str], bool] = lambda _source: False
    """The log of a source that is being loaded is to be applied up to where that has noted (by_log.py). False: it was
    asked to stop before."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


def migrate(spec: JobSpec, fences: Mapping[str, Fence], hooks: Hooks) -> Outcome:
    """Copy all sources of the job. `fences`: what was claimed in the target, by source-id.

    Result: {"rows", "seconds", "notes", "sources": {id: {"rows", "tables", "chunks", "start", "catch_up_until",
    "resumed", "copied_again", "writers_blocked_seconds", "written_to_meanwhile", "contested_rows"}}}. "copied_again":
    {table: how often}; "writers_blocked_seconds": the longest time that a lock of this run blocked writers at a time.
    Raises the typed errors of the copy's modules.
    """
    began = time.monotonic()
    target = spec.target.resolve(hooks.environ)
    sources = [
        Source(
            one,
            spec.subtask(source_id),
            one.endpoint.resolve(hooks.environ),
            fences[source_id],
        )
        for one in spec.sources
        for source_id in [one.config.source_id]
    ]
    open_sources = [source for source in sources if not finished(target, source)]
    for source in sources:
        if source not in open_sources:
            check_nothing_new(target, source)
    if not all(_is_behind_its_log(target, source, hooks) for source in open_sources):
        stopped = {source.id: _already(target, source) for source in sources}
        return Stopped({"rows": 0, "seconds": round(time.monotonic() - began, 3), "notes": [], "sources": stopped})
    loadings = begin(spec.task, open_sources, target, slots=hooks.slots, begun=hooks.begun) if open_sources else []
    watches = Watches(target, [Watch(target, loading, hooks.slots) for loading in loadings], hooks.apply_log)
    copying = _Copying(target, sources, watches, hooks)
    handed = copying.to_the_end()
    results = {source.id: _already(target, source) for source in sources if source not in open_sources}
    for watch in watches.each:
        results[watch.source.id] = _so_far(target, watch) | (handed or {}).get(watch.source.id, {})
    if handed is not None and spec.task.task_mode is TaskMode.FULL:
        for watch in watches.each:
            copying.sharing.remove_records(watch.loading)
    result = {
        "rows": sum(one["rows"] for one in results.values()),
        "seconds": round(time.monotonic() - began, 3),
        "notes": sorted({note for loading in loadings for note in loading.notes}),
        "sources": results,
    }
    return Finished(result) if handed is not None else Stopped(result)


def _is_behind_its_log(target: Endpoint, source: Source, hooks: Hooks) -> bool:
    """Apply what a run that died has left to be applied of a source's log; False: asked to stop (by_log.py)."""
    found = run_transaction(target, lambda tx: read_subtask(tx, source.fence.ref))
    return found is None or found.unit != UNIT_LOAD or found.catch_up_until is None or hooks.apply_log(source.id)


# Rounds


@dataclass
class _Copying:
    """The sources of a run that are being copied."""

    target: Endpoint
    sources: Sequence[Source]
    watches: Watches
    hooks: Hooks
    sharing: Sharing = field(init=False)

    def __post_init__(self) -> None:
        self._share()

    def _share(self) -> None:
        loadings = [watch.loading for watch in self.watches.each]
        self.sharing = Sharing.of(self.target, loadings, self.sources, self.hooks.stop)

    def _look(self, *, closing: bool = False) -> bool:
        """Look what was altered in any of the sources; tell whether something is copied again, or waits for that."""
        altered = self.watches.look(closing=closing)
        if altered:
            self._share()
        return altered

    def _excused(self, error: DmError) -> bool:
        """Look, and tell whether what went wrong is past, as it may have come of tables that are copied again now."""
        if error.reaction is Reaction.FENCED:
            return False
        self._look()
        return self.watches.took

    def to_the_end(self) -> dict[str, Json] | None:
        """Copy everything and hand it over. Return what to say of each source, None where the run is asked to stop."""
        while self._in_rounds():
            handed = self._hand_over()
            if handed is not None:
                return handed
        return None

    def _in_rounds(self) -> bool:
        """Copy until every chunk is done of tables that are what they were (True), or the run is asked to stop."""
        target, hooks, watches = self.target, self.hooks, self.watches.each
        work = CopyLane({watch.source.id: watch.source.endpoint for watch in watches}, target)
        self._look()
        failures = 0
        while True:
            lanes = [
                lane for watch in watches for lane in _lanes(watch.loading, _chunks(target, watch.source), hooks.slots)
            ]
            if not lanes and not self._look():
                return True
            if hooks.stop():
                return False
            if not lanes:
                self._wait()
                continue
            try:
                for results in hooks.run_lanes(work, lanes):
                    self._note_blocked(results)
                failures = 0
            except DmError as error:
                failures += 1
                if not (self._excused(error) or _may_pass(error, failures)):
                    self.sharing.explain(error)
                    raise
                log.info("copied on after %s: %s", error.code, error.happened())
            try:
                self.sharing.look()
            except DmError as error:
                if not self._excused(error):
                    raise
                log.info("copied on after %s: %s", error.code, error.happened())
            if self.watches.look_now_and_then():
                self._share()

    def _note_blocked(self, results: Sequence[ChunkResult]) -> None:
        for watch in self.watches.each:
            of_source = (one.blocked_seconds for one in results if one.source == watch.source.id)
            watch.blocked_seconds = max(watch.blocked_seconds, *of_source, 0.0)

    def _wait(self) -> None:
        """Wait where nothing is left to copy but tables that wait for others, some of which may be of this run."""
        copied = {watch.source.id for watch in self.watches.each}
        others = [one for one in self.sources if one.id not in copied and one.subtask.mode is not TaskMode.FULL]
        for source in others if self.watches.waits else ():
            self.hooks.sync(source.id)
        if not others or self._look():
            self.watches.wait()

    def _hand_over(self) -> dict[str, Json] | None:
        """Take each Pend, and make all subtasks those that sync, at once. None: a merged table was altered since.

        What else is altered from the last look on is altered behind the last page: the sync follows that as any other
        DDL. Of merged tables it follows no DDL in front of Pend, also none that makes another source table of them, so
        these are looked at once more.
        """
        watches, sharing = self.watches.each, self.sharing
        try:
            contested = {watch.source.id: sharing.finish(watch.loading) for watch in watches}
        except DmError as error:
            if not self._excused(error):
                raise
            log.info("copied on after %s: %s", error.code, error.happened())
            return None
        ends = {watch.source.id: watch.end() for watch in watches}
        if self.watches.merged and self._look(closing=True):
            return None

        def body(connection: Connection) -> None:
            for watch in watches:
                finish_load(connection, watch.source.fence, ends[watch.source.id])

        run_transaction(self.target, body)
        for watch in watches:
            self.hooks.ended(watch.source.id, log_needed(self.target, watch.source))
        return {watch.source.id: _handed(watch, ends[watch.source.id], contested[watch.source.id]) for watch in watches}


def _may_pass(error: DmError, failures: int) -> bool:
    """Tell whether a page is read again although nothing was altered: a table was emptied, or replaced a moment ago."""
    return isinstance(error, SchemaChangedDuringCopy) and failures < CHANGED_ATTEMPTS


def _lanes(loading: Loading, chunks: Sequence[ChunkProgress], slots: int) -> list[Lane]:
    """Divide what is left of a source into lanes; tables that are copied in one go come first, as they take longest."""
    source = loading.source
    mappings = {mapping.source.name: mapping for mapping in loading.design.mappings[source.id]}
    left = sorted(
        (chunk for chunk in chunks if not chunk.done and loading.births.get(chunk.table) != BY_LOG),
        key=lambda chunk: (paging_order(mappings[chunk.table]) is not None, chunk.number),
    )
    jobs = [_job(loading, chunk, mappings[chunk.table]) for chunk in left]
    count = min(len(jobs), slots, source.subtask.mydumper.threads, source.subtask.loader.pool_size)
    return [Lane(tuple(jobs[number::count]), ROUND_SECONDS) for number in range(count)]


def _job(loading: Loading, chunk: ChunkProgress, mapping: TableMapping) -> ChunkJob:
    source, loader = loading.source, loading.source.subtask.loader
    verb, siblings = verb_for(mapping, loader), loading.design.siblings(source.id, mapping)
    return ChunkJob(
        source.fence,
        chunk,
        mapping,
        verb,
        loading.start.suffix,
        until=0.0,
        siblings=siblings,
        first_of_key=verb is Verb.REPLACE and not source.subtask.overwrites and same_key(mapping),
        number=loading.numbers.get(chunk.table, 0),
        server_uuid="" if source.subtask.mode is TaskMode.FULL else loading.start.server_uuid,
        birth="" if siblings or not source.goes_by_log else loading.births.get(chunk.table, ""),
    )


def load_progress(target: Endpoint, ref: SubtaskRef) -> Json:
    """Return how far a subtask is, as the target says now: one attempt, nothing when it does not answer.

    {"unit": "load", "rows", "chunks", "chunks_done", "contested_rows"}.
    """

    def look(connection: Connection) -> tuple[list[ChunkProgress], list[Waiting]]:
        return load_chunks(connection, ref), waiting(connection, ref)

    try:
        chunks, rows_waiting = run_transaction(target, look, retry_seconds=0)
    except DmError as error:
        log.debug("no progress to show: %s", error)
        return {}
    return {
        "unit": "load",
        "rows": sum(chunk.rows_copied for chunk in chunks),
        "chunks": len(chunks),
        "chunks_done": sum(chunk.done for chunk in chunks),
        "contested_rows": sum(one.rows for one in rows_waiting if one.source == ref.source),
    }


def _chunks(target: Endpoint, source: Source) -> list[ChunkProgress]:
    return run_transaction(target, lambda tx: load_chunks(tx, source.fence.ref))


# The end


def _handed(watch: Watch, until: Location, contested: int) -> Json:
    loading = watch.loading
    written_to = compare(loading.start, until) is not Order.SAME
    if written_to and not watch.reads_log:
        log.warning(
            "%s was written to while it was copied, and task-mode full replays nothing: rows of the copy are of "
            "different moments between %s and %s",
            *(watch.source.id, loading.start, until),
        )
    return {"catch_up_until": str(until), "written_to_meanwhile": written_to, "contested_rows": contested}


def _so_far(target: Endpoint, watch: Watch) -> Json:
    loading = watch.loading
    return _already(target, loading.source) | {
        "start": str(loading.start),
        "resumed": loading.resumed,
        "copied_again": dict(Counter(map(str, watch.again))),
        "writers_blocked_seconds": round(max(loading.blocked_seconds, watch.blocked_seconds), 3),
    }


def _already(target: Endpoint, source: Source) -> Json:
    chunks = _chunks(target, source)
    return {
        "rows": sum(chunk.rows_copied for chunk in chunks),
        "tables": len({chunk.table for chunk in chunks}),
        "chunks": len(chunks),
    }
