"""Runs the apps of one task, one after another, each with the task's relays, and watches each to its end.

The start of an app, and the events that end it, are the same for all callers. Who may stop it and how it is retried
differ: Ctrl-C and a few attempts for `dmctl run`, a killed task and Airflow's retries for the operators.

    prepared   the metadata DB records which logs the target's state needs; the sources' logs are located
    take       no other run works on the sources; stop and pause requests that no longer apply are withdrawn
    idle       a sync whose checkpoint is the end of the log needs no app
    job        the input of an app
    watch      the progress is shown until the app ends; its outcome is returned
    finish     logs that were pulled for this task only are removed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.idle import idle_result, note_idle
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import AppName, Job, Upstream, checked_until, new_run_id, source_spec
from airflow_provider_dm.launch.progress_report import ProgressReporter, ReportOutput
from airflow_provider_dm.launch.relays import Relays, remove_private_logs
from airflow_provider_dm.launch.secrets import PassedSecrets
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.starts import record_needs
from airflow_provider_dm.launch.submit import AppOutcome, SparkApp
from airflow_provider_dm.launch.task_control import wait_for_others, want_running
from airflow_provider_dm.launch.workdir import TaskDir

CHECK_EVERY_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Supervisor:
    inputs: Inputs
    upstreams: Sequence[Upstream]
    store: MetaStore
    meta_url: Secret = field(repr=False)
    holder: Holder
    settings: SparkSettings

    @classmethod
    def prepared(
        cls,
        inputs: Inputs,
        *,
        directory: TaskDir,
        until: str,
        store: MetaStore,
        meta_url: Secret,
        holder: Holder,
        settings: SparkSettings,
    ) -> Self:
        """Return the supervisor of a task. Raises the errors of `record_needs` and `Inputs.upstreams`."""
        record_needs(inputs, store)
        return cls(inputs, inputs.upstreams(directory, until), store, meta_url, holder, settings)

    @property
    def source_ids(self) -> list[str]:
        return [upstream.source_id for upstream in self.upstreams]

    def take(self, *, withdrawn: Collection[Stage]) -> None:
        """Wait until no other run works on the sources, then withdraw these requests of users. Raises LeaseHeld."""
        wait_for_others(self.store, self.inputs.task.name, self.source_ids, self.holder)
        self.withdraw(withdrawn)

    def withdraw(self, stages: Collection[Stage]) -> None:
        """Set the desired stage to Running for sources for which one of these stages is requested."""
        want_running(self.store, self.inputs.task.name, self.source_ids, instead_of=stages)

    def idle(self, until: str) -> tuple[str, dict[str, Any]] | None:
        """Return id and result of a sync without work; None if the app has to run."""
        result = idle_result(self.inputs, self.store, until)
        return None if result is None else (note_idle(self.store, self.inputs.task.name, self.holder, result), result)

    def job(self, app: AppName, until: str) -> Job:
        """Return the job of an app that this process starts now.

        Raises InvalidLocation if `until` is neither "caught-up" nor "forever" nor FILE:POSITION.
        """
        secrets, task = PassedSecrets(), self.inputs.task
        spec = JobSpec(
            run_id=new_run_id(task.name, app),
            app=app,
            task=task.without_secrets(),
            sources=tuple(source_spec(upstream, secrets) for upstream in self.upstreams),
            target=secrets.endpoint("TARGET", self.inputs.target),
            meta_url=secrets.reference("META", "meta", self.meta_url),
            holder=self.holder,
            until=checked_until(until),
            ship_ranges=not self.settings.is_local,
            launcher_pid=os.getpid(),
            launched_after={source: self.store.last_generation(task.name, source) for source in self.source_ids},
        )
        return Job(spec, secrets)

    def finish(self) -> None:
        """Remove the logs that were pulled for this task only: a later run begins at its checkpoint."""
        remove_private_logs(self.upstreams, self.store.list_subtasks(task=self.inputs.task.name))


def watch(
    running: SparkApp,
    relays: Relays,
    store: MetaStore,
    report_output: ReportOutput,
    check: Callable[[], object] = lambda: None,
) -> AppOutcome:
    """Wait for the end of an app and show its progress; `check` is called in between.

    Raises the error of a relay that the app needs, while the app may still run, and the errors of `SparkApp.outcome`.
    """
    spec = running.job.spec
    report_output.line(f"run {spec.run_id}; Spark's output is in {running.log_path}")
    reporter = ProgressReporter(spec.app, spec.task.name, spec.run_id, store, report_output)
    while running.wait(CHECK_EVERY_SECONDS) is None:
        if (failure := relays.failure(spec.app)) is not None:
            raise failure
        reporter.report_if_due()
        check()
    outcome = running.outcome(store.get_run)
    if outcome.result:
        reporter.end(outcome.result)
    return outcome
