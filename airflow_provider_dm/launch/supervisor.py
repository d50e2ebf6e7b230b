"""The apps of one task, one after another, each beside the task's relays and watched to its end.

What an app is started with and what else can end it is the same for everybody. Who may end it and who starts it again
is not: Ctrl-C and a few attempts for `dmctl run`, a killed task and Airflow's retries for the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.config.job import HolderSpec
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import App, Job, Upstream, build_job, last_generations
from airflow_provider_dm.launch.narration import Audience, Narrator
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import Outcome, SparkApp

LOOK_EVERY_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Supervisor:
    inputs: Inputs
    upstreams: Sequence[Upstream]
    store: MetaStore
    meta_url: Secret = field(repr=False)
    holder: HolderSpec
    settings: SparkSettings

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
        """Wait for the end of an app and show its progress to the audience; `look` is called meanwhile.

        Raises what a relay died of that the app needs, or what `SparkApp.outcome` raises; the app may run on then.
        """
        audience.say(f"run {running.job.spec.run_id}; Spark's output is in {running.log_path}")
        narrator = Narrator(running.job.spec, self.store, audience)
        while running.wait(LOOK_EVERY_SECONDS) is None:
            if (failure := relays.failure(running.job.spec.app)) is not None:
                raise failure
            narrator.look()
            look()
        outcome = running.outcome(self.store.get_run)
        if outcome.result:
            narrator.end(outcome.result)
        return outcome
