"""The product's side of a comparison: a real Spark app, started as dmctl and the operators start it."""

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import AppName, Job, Upstream, local_holder
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import SparkApp
from airflow_provider_dm.launch.supervisor import Supervisor
from testbed import Server
from tests.benchmarks.harness import Run
from tests.benchmarks.processes import watched
from tests.jobs import endpoint


def job_of(
    app: AppName, task: Mapping[str, Any], source: Server, target: Server, work: Path, until: str = UNTIL_CAUGHT_UP
) -> Job:
    """Return a job of one source, `bench`; a task name of its own for each run, as each begins at the beginning."""
    name, url = f"bench_{uuid.uuid4().hex[:8]}", meta_url(work)
    config, login = SourceConfig(source_id="bench"), endpoint("bench", source)
    named = TaskConfig.model_validate({"name": name, **task})
    inputs = Inputs(named, (config,), (login,), endpoint("target", target))
    upstreams, holder = (Upstream(config, login, work / "relay"),), local_holder(name, work)
    with MetaStore.open(url) as store:
        return Supervisor(inputs, upstreams, store, url, holder, SparkSettings()).job(app, until)


def meta_url(work: Path) -> Secret:
    return Secret(f"sqlite:///{work}/meta.db")


def run_app(job: Job, work: Path, run_dir: Path, threads: int, amount: str) -> Run:
    """Run it to its end, in the seconds that the app calls its run. `amount`: a figure of its result."""
    began = time.perf_counter()
    app = SparkApp.start(job, run_dir=run_dir, settings=SparkSettings(master=f"local[{threads},4]"))
    try:
        with watched(app.pid) as tree:
            app.wait()
        whole = time.perf_counter() - began
    finally:
        app.stop()
    with MetaStore.open(meta_url(work)) as store:
        outcome = app.outcome(store.get_run)
    if not outcome.finished:
        raise RuntimeError(f"the app was stopped:\n{app.log_path.read_text()[-4000:]}")
    seconds = float(outcome.result["seconds"])
    extra = {"process_seconds": whole, "spark_start_seconds": whole - seconds}
    return Run(outcome.result[amount], seconds, tree.cpu_seconds, tree.peak_bytes, extra)
