"""A run that outlives its starter: an app and its relays, under a launcher of their own.

    python -m airflow_provider_dm.launch.detached SPEC.json

The launcher is a process in its own session on this machine. It starts the relays and the app, watches them, and ends
with them. The run's row in the metadata DB has the outcome, even if the app never started. Nothing else is needed to
watch the run from another process (`launch.run_state`). If the launcher is killed, its app and relays end.

A stop request that was fulfilled is withdrawn: an earlier pause request of a user is valid again.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.job import JobSpec, SpecFile
from airflow_provider_dm.engine.config.secrets import filled_pipe, receive
from airflow_provider_dm.engine.errors import DmError, describe
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import identity_of, this_process
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from airflow_provider_dm.engine.reported import LogFormatter
from airflow_provider_dm.launch.job import Job, Upstream
from airflow_provider_dm.launch.progress_report import ReportOutput
from airflow_provider_dm.launch.relays import Relays, remove_private_logs
from airflow_provider_dm.launch.secrets import PassedSecrets, inherited
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.status import lives
from airflow_provider_dm.launch.submit import SparkApp
from airflow_provider_dm.launch.supervisor import watch
from airflow_provider_dm.launch.task_control import want_running

LAUNCHER_LOG: Final = "launcher.log"
LAUNCHER_STOP_SECONDS: Final = 10.0
"""The time for an app to finish its epoch after a relay that it needs has failed."""
REQUESTS_SECONDS: Final = 1.0
PREDECESSOR_SECONDS: Final = 30.0

log = logging.getLogger("airflow_provider_dm.launch.detached")


class DetachedSpec(SpecFile):
    """The launcher's input, without secrets: the app's job, its relays and the Spark settings."""

    job: JobSpec
    spools: dict[str, SpoolSpec]
    """By source: the size limits of relay logs that only this task reads."""
    run_dir: str
    settings: SparkSettings

    def upstreams(self) -> tuple[Upstream, ...]:
        """Return the sources with credentials. Raises SecretMissing."""
        return tuple(
            Upstream(
                source.config,
                source.endpoint.resolve(),
                Path(source.relay_dir),
                None if source.fallback_dir is None else Path(source.fallback_dir),
                self.spools.get(source.config.source_id),
            )
            for source in self.job.sources
        )


@dataclass(frozen=True)
class Launcher:
    """A running launcher. `process`: its identity, see `processes.identity_of`."""

    process: str
    log_path: Path
    _child: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    def start(cls, job: Job, upstreams: Sequence[Upstream], *, run_dir: Path, settings: SparkSettings) -> Launcher:
        """Start a launcher, which inherits the environment without secrets. Its log is below `run_dir`."""
        spec = DetachedSpec(
            job=job.spec,
            spools={upstream.source_id: upstream.spool for upstream in upstreams if upstream.spool is not None},
            run_dir=str(run_dir),
            settings=settings,
        )
        path, log_path = run_dir / "launcher.json", run_dir / LAUNCHER_LOG
        spec.write(path)
        output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        pipe = filled_pipe(job.secrets.by_name)
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", __name__, str(path)],
                stdin=pipe,
                stdout=output,
                stderr=output,
                cwd=run_dir,
                env=inherited(),
                start_new_session=True,
            )
        finally:
            os.close(output)
            os.close(pipe)
        return cls(identity_of(child.pid), log_path, child)

    def kill(self) -> None:
        """Kill the launcher; its app and relays detect that and end."""
        self._child.kill()


def wait_for_predecessor(store: MetaStore, task: str, sources: Sequence[str], identity: str) -> None:
    """Wait until a previous attempt's run that was asked to stop has ended, and withdraw that stop request.

    If no run with this identity is live, a user has made the stop request, and it remains.
    """
    deadline, seen = time.monotonic() + PREDECESSOR_SECONDS, False
    while time.monotonic() < deadline:
        requested = {subtask.desired for subtask in store.list_subtasks(task=task) if subtask.source in sources}
        live = any(lives(run) for run in store.list_runs(task=task, identity=identity))
        seen = seen or live
        if Stage.STOPPED not in requested or not live:
            break
        time.sleep(0.5)
    if seen:
        want_running(store, task, sources, instead_of=(Stage.STOPPED,))


def main(argv: Sequence[str]) -> int:
    """Run the app of the spec file in `argv`. Return 0 if the run's row has the outcome."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    spec = DetachedSpec.read(Path(argv[0]))
    secrets = PassedSecrets(receive(0))
    job = Job(spec.job.model_copy(update={"launcher_pid": os.getpid()}), secrets)
    with MetaStore.open(job.spec.meta_url.resolve("the metadata DB")) as store:
        try:
            _run(spec, job, store)
        except Exception as error:
            log.error("run %s: %s", job.spec.run_id, error, exc_info=not isinstance(error, DmError))
            _record_error(store, job.spec, error)
    return 0


def _run(spec: DetachedSpec, job: Job, store: MetaStore) -> None:
    upstreams, run_dir = spec.upstreams(), Path(spec.run_dir)
    requested = _RequestedStages(store, job.spec.task.name)
    meta_url = job.spec.meta_url.resolve("the metadata DB")
    with Relays(upstreams, meta_url=meta_url, log_dir=run_dir) as relays:
        app = SparkApp.start(job, run_dir=run_dir, settings=spec.settings)
        try:
            outcome = watch(app, relays, store, ReportOutput(log.info, log.info), requested.check)
        finally:
            app.stop(LAUNCHER_STOP_SECONDS)
    if not outcome.finished:
        requested.restore()
    remove_private_logs(upstreams, store.list_subtasks(task=job.spec.task.name))


def _record_error(store: MetaStore, spec: JobSpec, error: Exception) -> None:
    """Record an error in the run's row, unless the app has recorded its own outcome."""
    run = store.get_run(spec.run_id)
    if run is None:
        holder = replace(spec.holder, process=this_process())
        store.start_run(spec.run_id, task=spec.task.name, app=spec.app, holder=holder)
    if run is None or run.finished_at is None:
        store.finish_run(spec.run_id, stage=Stage.PAUSED, error=describe(error))


@dataclass
class _RequestedStages:
    """The stages that users requested for the task's sources before a stop request."""

    store: MetaStore
    task: str
    before: dict[str, Stage] = field(default_factory=dict)
    _read_at: float = 0.0

    def check(self) -> None:
        if time.monotonic() - self._read_at < REQUESTS_SECONDS:
            return
        self._read_at = time.monotonic()
        try:
            subtasks = self.store.list_subtasks(task=self.task)
        except DmError as error:
            log.warning("the metadata DB is not reachable: %s", error)
            return
        self.before |= {one.source: one.desired for one in subtasks if one.desired not in (None, Stage.STOPPED)}

    def restore(self) -> None:
        for one in self.store.list_subtasks(task=self.task):
            if one.desired is Stage.STOPPED:
                self.store.set_subtask_desired(self.task, one.source, self.before.get(one.source, Stage.RUNNING))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
