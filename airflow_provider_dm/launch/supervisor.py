"""The apps of one task, one after another, each beside the task's relays and watched to its end.

What an app is started with and what else can end it is the same for everybody. Who may end it and who starts it again
is not: Ctrl-C and a few attempts for `dmctl run`, a killed task and Airflow's retries for the operators.

    prepared   what the metadata DB does not know of the task is read from the target; the sources' logs are located
    take       no other run works on the sources; a stop or pause that does not count any more is withdrawn
    idle       a sync whose checkpoint is the end of the log needs no app
    job        what an app is started with
    watch      its progress is shown until it ends; its outcome is returned
    finish     what was pulled for the task alone is removed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from airflow_provider_dm.engine.config.job import HolderSpec
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.idle import idle_result, note_idle
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import App, Job, Upstream, build_job, last_generations
from airflow_provider_dm.launch.narration import Audience, Narrator
from airflow_provider_dm.launch.relays import Relays, forget_private
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.starts import tell_needs
from airflow_provider_dm.launch.submit import Outcome, SparkApp
from airflow_provider_dm.launch.task_control import wait_for_others, want_running
from airflow_provider_dm.launch.workdir import TaskDir

LOOK_EVERY_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Supervisor:
    inputs: Inputs
    upstreams: Sequence[Upstream]
    store: MetaStore
    meta_url: Secret = field(repr=False)
    holder: HolderSpec
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
        holder: HolderSpec,
        settings: SparkSettings,
    ) -> Self:
        """Return the supervisor of a task. Raises as `tell_needs` and `Inputs.upstreams`."""
        tell_needs(inputs, store)
        return cls(inputs, inputs.upstreams(directory, until), store, meta_url, holder, settings)

    @property
    def source_ids(self) -> list[str]:
        return [one.source_id for one in self.upstreams]

    def take(self, *, withdrawn: Collection[Stage]) -> None:
        """Wait until no other run works on the sources, then withdraw these wishes of people. Raises LeaseHeld."""
        wait_for_others(self.store, self.inputs.task.name, self.source_ids, self.holder)
        self.withdraw(withdrawn)

    def withdraw(self, wishes: Collection[Stage]) -> None:
        """Let sources run for which one of these stages is wanted."""
        want_running(self.store, self.inputs.task.name, self.source_ids, instead_of=wishes)

    def idle(self, until: str) -> tuple[str, dict[str, Any]] | None:
        """Return id and result of a sync that has nothing to apply; None: the app has to run."""
        result = idle_result(self.inputs, self.store, until)
        return None if result is None else (note_idle(self.store, self.inputs.task.name, self.holder, result), result)

    def job(self, app: App, until: str) -> Job:
        """Return what an app is to do that is started now. Raises as `build_job`."""
        return build_job(
            app=app,
            task=self.inputs.task,
            upstreams=self.upstreams,
            target=self.inputs.target,
            meta_url=self.meta_url,
            launched_behind=last_generations(self.store, self.inputs.task.name, self.upstreams),
            holder=self.holder,
            until=until,
            ship_ranges=not self.settings.is_local,
        )

    def watch(
        self, running: SparkApp, relays: Relays, audience: Audience, look: Callable[[], object] = lambda: None
    ) -> Outcome:
        """Watch an app to its end, as the function `watch` does."""
        return watch(running, relays, self.store, audience, look)

    def finish(self) -> None:
        """Remove what was pulled for the task alone: a later run begins at its checkpoint."""
        forget_private(self.upstreams, self.store.list_subtasks(task=self.inputs.task.name))


def watch(
    running: SparkApp,
    relays: Relays,
    store: MetaStore,
    audience: Audience,
    look: Callable[[], object] = lambda: None,
) -> Outcome:
    """Wait for the end of an app and show its progress to the audience; `look` is called meanwhile.

    Raises what a relay died of that the app needs, or what `SparkApp.outcome` raises; the app may run on then.
    """
    spec = running.job.spec
    audience.say(f"run {spec.run_id}; Spark's output is in {running.log_path}")
    narrator = Narrator(spec.app, spec.task.name, spec.run_id, store, audience)
    while running.wait(LOOK_EVERY_SECONDS) is None:
        if (failure := relays.failure(spec.app)) is not None:
            raise failure
        narrator.look()
        look()
    outcome = running.outcome(store.get_run)
    if outcome.result:
        narrator.end(outcome.result)
    return outcome
