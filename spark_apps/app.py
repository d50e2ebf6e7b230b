"""The common part of all Spark apps, from argv to exit code.

    argv      [path of a JobSpec]
    exit      a code of engine/reported.py; an error is in the run row as well

A heartbeat every two seconds writes the progress to the metadata DB, renews the leases and reads requests to pause or
stop the app or a source. An unreachable metadata DB does not stop the work: the fence is in the target. SIGTERM and
users' requests are fulfilled at the end of an epoch or page. If the launcher has ended, no process would read the
result or kill this one, so a watchdog ends the whole process group.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.config.secrets import PIPE, receive
from airflow_provider_dm.engine.downstream.claim import claim_generation, generation_before_claim
from airflow_provider_dm.engine.downstream.errors import explained
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.errors import DmError, Reaction, describe
from airflow_provider_dm.engine.meta.errors import LeaseHeld
from airflow_provider_dm.engine.meta.records import SPARK_UI, Lease, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.processes import Holder, this_process
from airflow_provider_dm.engine.relay.process import wait_for_end_of
from airflow_provider_dm.engine.reported import (
    EXIT_ERROR,
    EXIT_FENCED,
    EXIT_FINISHED,
    EXIT_STOPPED,
    LogFormatter,
    report,
)
from airflow_provider_dm.engine.sync.gate import Gate
from spark_apps.metrics import exposition, serve
from spark_apps.runner import SparkRunner, start_spark

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15.0
BEAT_SECONDS: Final = 2.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The result of the work. `finished`: False if the work, or one of its sources, was asked to stop before its goal.

    `failure`: rows that differ, or the first error of a source that stopped while others continued.
    """

    result: Json
    finished: bool = True
    failure: Exception | None = None


@dataclass
class App:
    """The context of an app's work: its job, the metadata DB, Spark, requests to stop, and reports."""

    spec: JobSpec
    store: MetaStore
    stop: threading.Event
    """Set when the work should end soon, for any reason."""
    asked: threading.Event
    """Set in addition if the end was requested: by SIGTERM, SIGINT, or a stop request."""
    target: Endpoint
    leases: dict[str, Lease] = field(default_factory=dict)
    """By source. `_lease_lock` is held while they change, and while they are renewed."""
    fatal: DmError | None = None
    """A lost lease, which is reported even if the work returned."""
    gates: dict[str, Gate] = field(init=False)
    """The gates by which requests reach the work, by source."""
    seen: Json = field(default_factory=dict)
    """The progress at the last beat."""
    stages: dict[str, Stage] = field(default_factory=dict)
    """The stages in the metadata DB at that time, by source."""
    _progress: dict[str, Callable[[], Json]] = field(default_factory=dict)
    _spark_ui: str | None = None
    _lease_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gates = {source.config.source_id: Gate(self.stop) for source in self.spec.sources}

    @property
    def holder(self) -> Holder:
        """The holder of the run and its leases: the launcher's identity, and this process."""
        return replace(self.spec.holder, process=this_process())

    def runner(self) -> SparkRunner:
        """Return the runner of this app's Spark, once it has started. Raises SparkNotStarted."""
        runner = start_spark(self.spec.app).result()
        self._spark_ui = runner.context.uiWebUrl
        return runner

    def ask_to_stop(self) -> None:
        self.asked.set()
        self.end()

    def end(self) -> None:
        """End all work soon."""
        self.stop.set()
        for gate in self.gates.values():
            gate.end()

    def is_halted(self) -> bool:
        """Return True if work on all sources together must pause or stop: a request for one source applies to all."""
        return any(gate.closed.is_set() for gate in self.gates.values())

    def wait_while_paused(self) -> bool:
        """Wait while a pause of any source is requested. Return True to continue, False to end."""
        return all(gate.wait() for gate in self.gates.values())

    def apply_requests(self, requested: Mapping[str, Stage]) -> None:
        """Apply the requested stages, by source; a source without a request runs."""
        for source, gate in self.gates.items():
            gate.request(requested.get(source, Stage.RUNNING))
        if all(gate.requested is Stage.STOPPED for gate in self.gates.values()):
            self.ask_to_stop()

    def claim(self, source_id: str, *, again: bool = False) -> Fence:
        """Claim the lease, then the generation: from here on only this run can write the subtask.

        `again`: its lease was released for a user's command, whose claim must not count as that of a later run.

        Raises LeaseHeld, RunOvertaken, Fenced, TargetWentBack, …
        """
        launched_after = None if again else self.spec.launched_after.get(source_id)
        ref = SubtaskRef(self.spec.task.meta_schema, self.spec.task.name, source_id)
        lease = self._acquire(source_id, generation_before_claim(self.store, self.target, ref), launched_after)
        with self._lease_lock:
            self.leases[source_id] = lease
        fence = Fence(ref, lease.generation)
        claim_generation(self.target, fence)
        return fence

    def release(self, source_id: str) -> None:
        """Release the lease of a source. If the metadata DB refuses, log that; the lease then expires."""
        with self._lease_lock:
            lease = self.leases.pop(source_id, None)
            if lease is None:
                return
            try:
                self.store.release_lease(lease)
            except DmError as error:
                log.warning("the lease of %s was not released and will expire: %s", source_id, error)

    def renew(self) -> None:
        """Renew all leases. Raises LeaseLost."""
        with self._lease_lock:
            for lease in self.leases.values():
                self.store.renew_lease(lease)

    def report(self, name: str, progress: Callable[[], Json]) -> None:
        """Include the result of `progress()` in the progress under `name`. It is called at every beat, from another
        thread."""
        self._progress[name] = progress

    def progress(self) -> Json:
        """Return the progress by source, and beside it the address of Spark's UI if there is a UI."""
        progress = {name: ask() for name, ask in list(self._progress.items())}
        return {SPARK_UI: self._spark_ui, **progress} if progress and self._spark_ui else progress

    def _acquire(self, source_id: str, known: int, launched_after: int | None) -> Lease:
        """Acquire the lease; wait until the lease of a dead holder expires. A living holder renews its lease meanwhile.

        Raises LeaseHeld, RunOvertaken.
        """
        deadline = time.monotonic() + LEASE_SECONDS + BEAT_SECONDS
        while True:
            try:
                return self.store.acquire_lease(
                    self.spec.task.name,
                    source_id,
                    self.holder,
                    ttl_seconds=LEASE_SECONDS,
                    at_least=known,
                    launched_after=launched_after,
                )
            except LeaseHeld as held:
                if time.monotonic() > deadline or self.stop.wait(min(1.0, held.remaining_seconds + 0.1)):
                    raise

    def beat(self, ended: threading.Event) -> None:
        """Report the progress, read requests and renew the leases, until `ended` is set or a lease is lost."""
        renewed_at = time.monotonic()
        while not ended.wait(BEAT_SECONDS):
            try:
                self.seen = self.progress()
                self.store.heartbeat_run(self.spec.run_id, self.seen)
                subtasks = self.store.list_subtasks(task=self.spec.task.name)
                self.stages = {subtask.source: subtask.stage for subtask in subtasks if subtask.source in self.gates}
                self.apply_requests({one.source: one.desired for one in subtasks if one.desired is not None})
                if time.monotonic() - renewed_at >= LEASE_SECONDS / 3:
                    self.renew()
                    renewed_at = time.monotonic()
            except DmError as error:
                if error.reaction is Reaction.FENCED:
                    self.fatal = error
                    self.end()
                    return
                log.warning("the progress could not be written to the metadata DB: %s", error)


def main(work: Callable[[App], Outcome], argv: Sequence[str] | None = None) -> int:
    """Run `work` for the JobSpec named in argv; returns the exit code.

    A script may have disabled the garbage collector, which would take a third of the time of its imports. Imported
    objects are never garbage, so `gc.freeze` excludes them from collection.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 1:
        sys.stderr.write("usage: APP JOBSPEC.json\n")
        return EXIT_ERROR
    try:
        spec = JobSpec.read(Path(arguments[0]))
        receive(Path(arguments[0]).with_name(PIPE))
        if spec.launcher_pid is not None:
            threading.Thread(target=_kill_group_after, args=(spec.launcher_pid,), name="watchdog", daemon=True).start()
        with MetaStore.open(spec.meta_url.resolve("the metadata DB")) as store:
            app = App(spec, store, threading.Event(), threading.Event(), spec.target.resolve())
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: app.ask_to_stop())
            return _run(app, work)
    except Exception as error:  # noqa: BLE001 (reported, not hidden)
        return _failed(error)


def _run(app: App, work: Callable[[App], Outcome]) -> int:
    spec = app.spec
    if spec.task.metrics_addr:
        serve(spec.task.metrics_addr, lambda: exposition(spec.task.name, spec.holder.host, app.stages, app.seen))
    app.store.start_run(spec.run_id, task=spec.task.name, app=spec.app, holder=app.holder)
    ended = threading.Event()
    beat = threading.Thread(target=app.beat, args=(ended,), name="beat", daemon=True)
    beat.start()
    try:
        outcome = work(app)
    except Exception as error:  # noqa: BLE001 (goes into the run row and the exit code)
        failure: Exception | None = app.fatal or explained(error) or error
        outcome = Outcome({}, finished=False)
    else:
        failure = app.fatal or outcome.failure
    finally:
        ended.set()
        beat.join()
    return _finish(app, outcome, failure)


def _finish(app: App, outcome: Outcome, failure: Exception | None) -> int:
    is_transient = isinstance(failure, DmError) and failure.reaction is Reaction.RETRY
    if app.asked.is_set() and not outcome.finished and is_transient:
        failure = None  # a failure while Spark shuts down with the app is not an error of the task
    if failure is not None:
        code = _failed(failure)
        _record(app, Stage.PAUSED, outcome.result, describe(failure))
    else:
        code = EXIT_FINISHED if outcome.finished else EXIT_STOPPED
        _record(app, Stage.FINISHED if outcome.finished else Stage.STOPPED, outcome.result, None)
    for source_id in list(app.leases):
        app.release(source_id)
    return code


def _record(app: App, stage: Stage, result: Json, error: Json | None) -> None:
    try:
        app.store.heartbeat_run(app.spec.run_id, app.progress())
        app.store.finish_run(app.spec.run_id, stage=stage, result=result, error=error)
    except DmError as lost:
        log.error("the outcome could not be written to the metadata DB: %s", lost)


def _failed(error: Exception) -> int:
    if not isinstance(error, DmError):
        log.error("unexpected error", exc_info=error)
    report(error)
    return EXIT_FENCED if isinstance(error, DmError) and error.reaction is Reaction.FENCED else EXIT_ERROR


def _kill_group_after(launcher_pid: int) -> None:
    wait_for_end_of(launcher_pid)
    log.error("the launcher (pid %d) has ended: ending this process group", launcher_pid)
    os.killpg(os.getpgrp(), signal.SIGKILL)
