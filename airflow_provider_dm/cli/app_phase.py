"""One Spark app of `dmctl run`, watched to its end: progress shown, relays looked after, Ctrl-C obeyed.

An app that died without a word, or of something that may pass, is started again a few times, as all progress is in the
target. Of any other error a person has to know.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_dm.cli.interrupts import Interrupted, Interrupts
from airflow_provider_dm.cli.output import Output
from airflow_provider_dm.engine.config.job import HolderSpec
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import App, Upstream, build_job, last_generations
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import Finished, SparkApp, Stopped
from airflow_provider_dm.launch.workdir import TaskDir

ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 3.0
RECOVERED_SECONDS: Final = 600.0
"""An app that ran so long before it died gets all its attempts again."""
ORDERLY_SECONDS: Final = 60.0
"""How long an interrupted app may take to finish its epoch."""
FAILED_SECONDS: Final = 10.0
"""The same for an app whose relay has failed: it may be waiting for what will not come."""
LOOK_EVERY_SECONDS: Final = 0.2
PROGRESS_EVERY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """Everything that the apps of one `dmctl run` have in common."""

    inputs: Inputs
    upstreams: Sequence[Upstream]
    directory: TaskDir
    meta_url: Secret = field(repr=False)
    store: MetaStore
    holder: HolderSpec
    settings: SparkSettings
    relays: Relays
    output: Output
    interrupts: Interrupts


def run_app(context: RunContext, app: App, until: str) -> dict[str, Any]:
    """Run one app to its end and give its result.

    Raises Interrupted, what a relay died of, or what `SparkApp.outcome` raises.
    """
    attempt = 1
    while True:
        began = time.monotonic()
        try:
            return _attempt(context, app, until)
        except DmError as error:
            if error.reacts() is not Reaction.RETRY:
                raise
            if context.interrupts.requested():
                raise Interrupted(f"task {context.inputs.task.name}") from error
            attempt = 1 if time.monotonic() - began > RECOVERED_SECONDS else attempt + 1
            if attempt > ATTEMPTS:
                raise
            log.warning("%s is started again: %s", app, error)
            context.interrupts.wait(PAUSE_SECONDS)


def _attempt(context: RunContext, app: App, until: str) -> dict[str, Any]:
    if context.interrupts.requested():
        raise Interrupted(f"task {context.inputs.task.name}")
    job = build_job(
        app=app,
        task=context.inputs.task,
        upstreams=context.upstreams,
        target=context.inputs.target,
        meta_url=context.meta_url,
        launched_behind=last_generations(context.store, context.inputs.task.name, context.upstreams),
        holder=context.holder,
        until=until,
        ship_ranges=not context.settings.is_local,
    )
    running = SparkApp.start(job, run_dir=context.directory.run(job.spec.run_id), settings=context.settings)
    try:
        _watch(context, running)
        match running.outcome(context.store):
            case Finished(result):
                return result
            case Stopped(result):
                raise Interrupted(f"task {context.inputs.task.name}", result)
    finally:
        running.stop(0 if context.interrupts.requested() else FAILED_SECONDS)  # it runs here only if a relay has failed


def _watch(context: RunContext, running: SparkApp) -> None:
    """Wait until the app has ended by itself or because it was asked to. Raises what a relay died of."""
    spec = running.job.spec
    asked_at: float | None = None
    ask_again_at = 0.0
    while running.poll() is None:
        if (failure := context.relays.failure(spec.app)) is not None:
            raise failure
        if context.interrupts.requested() and asked_at is None:
            context.output.say("stopping: the current piece of work is finished first; Ctrl-C again ends it now")
            running.ask_to_stop()
            asked_at = time.monotonic()
        if asked_at is not None and (context.interrupts.insisted() or time.monotonic() - asked_at > ORDERLY_SECONDS):
            running.stop(0)
            return
        if time.monotonic() >= ask_again_at:
            ask_again_at = time.monotonic() + PROGRESS_EVERY_SECONDS
            _show_progress(context, spec.run_id, spec.app)
        time.sleep(LOOK_EVERY_SECONDS) if asked_at else context.interrupts.wait(LOOK_EVERY_SECONDS)


def _show_progress(context: RunContext, run_id: str, app: App) -> None:
    try:
        run = context.store.get_run(run_id)
    except DmError as error:  # a metadata DB that does not answer stops nobody: the fence is in the target
        log.debug("no progress to show: %s", error)
        return
    if run is not None and run.progress:
        context.output.progress(app, run.progress)
