"""One Spark app of `dmctl run`, watched to its end: progress shown, relays looked after, Ctrl-C obeyed.

An app that died without a word, or of something that may pass, is started again a few times, as all progress is in the
target. Of any other error a person has to know.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.cli.interrupts import Interrupted, Interrupts
from airflow_provider_dm.cli.output import Output
from airflow_provider_dm.engine.errors import DmError, Reaction, reported_by
from airflow_provider_dm.engine.meta.database import MetaUnreachable
from airflow_provider_dm.launch.job import App
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.submit import SparkApp
from airflow_provider_dm.launch.supervisor import Supervisor
from airflow_provider_dm.launch.workdir import TaskDir

ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 3.0
RECOVERED_SECONDS: Final = 600.0
"""An app that ran so long before it died gets all its attempts again."""
METADATA_SECONDS: Final = 300.0
"""So long a metadata DB may be away between two apps: a restart of it, or a failover, takes no attempt."""
ORDERLY_SECONDS: Final = 60.0
"""How long an interrupted app may take to finish its epoch."""
FAILED_SECONDS: Final = 10.0
"""The same for an app whose relay has failed: it may be waiting for what will not come."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """Values that the apps of one `dmctl run` share, and the person who started it."""

    supervisor: Supervisor
    directory: TaskDir
    relays: Relays
    output: Output
    interrupts: Interrupts

    def interrupted(self, result: dict[str, Any] | None = None) -> Interrupted:
        return Interrupted(f"task {self.supervisor.inputs.task.name}", result or {})


def run_app(context: RunContext, app: App, until: str) -> dict[str, Any]:
    """Run one app to its end and give its result.

    Raises Interrupted, what a relay died of, or what `SparkApp.outcome` raises.
    """
    attempt = 1
    away_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return _attempt(context, app, until)
        except DmError as error:
            if error.reacts() is not Reaction.RETRY:
                raise
            if context.interrupts.requested():
                raise context.interrupted() from error
            now = time.monotonic()
            away_since = (away_since or now) if _is_without_metadata(error) else None
            if away_since is None or now - away_since > METADATA_SECONDS:
                attempt = 1 if now - began > RECOVERED_SECONDS else attempt + 1
            if attempt > ATTEMPTS:
                raise
            log.warning("%s is started again: %s", app, error)
            context.interrupts.wait(PAUSE_SECONDS)


def _is_without_metadata(error: DmError) -> bool:
    """Tell whether the metadata DB did not answer; of an app's error, whether that was what it said."""
    reported = reported_by(error)
    return (error.code if reported is None else reported.code) == MetaUnreachable.code


def _attempt(context: RunContext, app: App, until: str) -> dict[str, Any]:
    if context.interrupts.requested():
        raise context.interrupted()
    supervisor = context.supervisor
    job = supervisor.job(app, until)
    running = SparkApp.start(job, run_dir=context.directory.run(job.spec.run_id), settings=supervisor.settings)
    try:
        outcome = supervisor.watch(running, context.relays, context.output.audience(), _Person(context, running).serve)
        if not outcome.finished:
            raise context.interrupted(outcome.result)
        return outcome.result
    finally:
        running.stop(0 if context.interrupts.requested() else FAILED_SECONDS)  # it runs here only if a relay has failed


@dataclass
class _Person:
    """The person in front of a running app, who may end it."""

    context: RunContext
    running: SparkApp
    asked_at: float | None = None

    def serve(self) -> None:
        """Pass a wish for the end on."""
        interrupts, now = self.context.interrupts, time.monotonic()
        if interrupts.requested() and self.asked_at is None:
            self.context.output.say("stopping: the current piece of work is finished first; Ctrl-C again ends it now")
            self.running.ask_to_stop()
            self.asked_at = now
        if self.asked_at is not None and (interrupts.insisted() or now - self.asked_at > ORDERLY_SECONDS):
            self.running.stop(0)
