"""One Spark app of `dmctl run`: shows its progress, supervises the relays, stops it on Ctrl-C, and waits for its end.

An app that died without a report, or with a transient error, is restarted a few times, as all progress is in the
target. Any other error is shown to the user.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.cli.errors import Interrupted
from airflow_provider_dm.cli.interrupts import Interrupts
from airflow_provider_dm.cli.output import Output
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.launch.job import AppName
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.submit import SparkApp
from airflow_provider_dm.launch.supervisor import Supervisor, watch
from airflow_provider_dm.launch.workdir import TaskDir

APP_ATTEMPTS: Final = 3
APP_PAUSE_SECONDS: Final = 3.0
RECOVERED_SECONDS: Final = 600.0
"""An app that ran this long before it died gets all its attempts again."""
METADATA_SECONDS: Final = 300.0
"""The metadata DB may be unavailable this long between two apps, as in a restart or failover, without using an attempt.
"""
ORDERLY_SECONDS: Final = 60.0
"""The time for an interrupted app to finish its epoch."""
FAILED_SECONDS: Final = 10.0
"""The same for an app whose relay has failed: it may wait for events that never arrive."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """The values that the apps of one `dmctl run` share, and its interrupts."""

    supervisor: Supervisor
    directory: TaskDir
    relays: Relays
    output: Output
    interrupts: Interrupts

    def interrupted(self, result: dict[str, Any] | None = None) -> Interrupted:
        return Interrupted(f"task {self.supervisor.inputs.task.name}", result or {})


def run_app(context: RunContext, app: AppName, until: str) -> dict[str, Any]:
    """Run one app to its end and return its result.

    Raises Interrupted, the error of a relay, or the errors of `SparkApp.outcome`.
    """
    attempt = 1
    unreachable_since: float | None = None
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
            unreachable_since = (unreachable_since or now) if _is_without_metadata(error) else None
            if unreachable_since is None or now - unreachable_since > METADATA_SECONDS:
                attempt = 1 if now - began > RECOVERED_SECONDS else attempt + 1
            if attempt > APP_ATTEMPTS:
                raise
            log.warning("restarting %s: %s", app, error)
            context.interrupts.wait(APP_PAUSE_SECONDS)


def _is_without_metadata(error: DmError) -> bool:
    """Return True if the metadata DB was not reachable, here or according to the app's report."""
    return ReportedError.of(error).code == MetaUnreachable.code


def _attempt(context: RunContext, app: AppName, until: str) -> dict[str, Any]:
    if context.interrupts.requested():
        raise context.interrupted()
    supervisor = context.supervisor
    job = supervisor.job(app, until)
    running = SparkApp.start(job, run_dir=context.directory.run(job.spec.run_id), settings=supervisor.settings)
    try:
        interrupts = _InterruptWatch(context, running)
        outcome = watch(running, context.relays, supervisor.store, context.output.report_output(), interrupts.check)
        if not outcome.finished:
            raise context.interrupted(outcome.result)
        return outcome.result
    finally:
        running.stop(0 if context.interrupts.requested() else FAILED_SECONDS)  # it runs here only if a relay has failed


@dataclass
class _InterruptWatch:
    """The interrupts of a user, which stop the running app."""

    context: RunContext
    running: SparkApp
    asked_at: float | None = None

    def check(self) -> None:
        """Ask the app to stop at the first interrupt; end it at the second, or if it does not stop in time."""
        interrupts, now = self.context.interrupts, time.monotonic()
        if interrupts.requested() and self.asked_at is None:
            self.context.output.print_line(
                "stopping: the current epoch or page is finished first; Ctrl-C again ends now"
            )
            self.running.ask_to_stop()
            self.asked_at = now
        if self.asked_at is not None and (interrupts.insisted() or now - self.asked_at > ORDERLY_SECONDS):
            self.running.stop(0)
