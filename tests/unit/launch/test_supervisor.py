"""Real spark-submits of small scripts, watched to their ends beside a task's relays."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.errors import RelayStopped
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import Upstream, local_holder
from airflow_provider_dm.launch.progress_report import ReportOutput
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import AppOutcome, SparkApp
from airflow_provider_dm.launch.supervisor import Supervisor, watch

TICK_FOR_EVER = "import time\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
def supervisor(tmp_path: Path, meta_url: str, store: MetaStore) -> Supervisor:
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one"}]})
    source, login = SourceConfig(source_id="one"), Endpoint("one", "127.0.0.1", 1, "dm")
    upstreams = (Upstream(source, login, tmp_path / "relay"),)
    inputs = Inputs(task, (source,), (login,), Endpoint("target", "127.0.0.1", 1, "dm"))
    return Supervisor(inputs, upstreams, store, Secret(meta_url), local_holder("shop", tmp_path), SparkSettings())


@pytest.fixture
def launch(supervisor: Supervisor, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], SparkApp]:
    def start(code: str) -> SparkApp:
        script = tmp_path / "app.py"
        script.write_text(code)
        app = SparkApp.start(supervisor.job("incremental_sync", "forever"), run_dir=tmp_path, script=script)
        request.addfinalizer(app.stop)
        return app

    return start


def test_a_job_yields_to_a_claim_after_its_launch(supervisor: Supervisor) -> None:
    supervisor.store.acquire_lease("shop", "one", Holder("a", "1", "h"), ttl_seconds=60, at_least=6)

    spec = supervisor.job("incremental_sync", "caught-up").spec

    assert spec.launched_after == {"one": 7}
    assert not spec.ship_ranges


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_app_is_polled_until_it_has_ended(
    supervisor: Supervisor, launch: Callable[[str], SparkApp], tmp_path: Path
) -> None:
    polls: list[None] = []
    shown: list[str] = []
    with Relays([], meta_url=supervisor.meta_url, log_dir=tmp_path) as relays:
        app, report_output = launch(""), ReportOutput(shown.append, shown.append, every_seconds=0.2)
        spec = app.job.spec
        supervisor.store.start_run(spec.run_id, task="shop", app=spec.app, holder=spec.holder)
        supervisor.store.finish_run(spec.run_id, stage=Stage.FINISHED, result={"rows": 4})
        outcome = watch(app, relays, supervisor.store, report_output, lambda: polls.append(None))

    assert outcome == AppOutcome({"rows": 4})
    assert polls
    assert shown[0].endswith(f"Spark's output is in {tmp_path / 'app.log'}")
    assert "preparing" in shown[1]
    assert shown[-1] == "incremental sync: stopped, 0 changes"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_end_of_a_relay_that_is_needed_ends_the_watch_and_not_yet_the_app(
    supervisor: Supervisor, launch: Callable[[str], SparkApp], tmp_path: Path
) -> None:
    """The relay runs despite an earlier request to stop; it ends at a new request."""
    supervisor.store.set_relay_desired("one", Stage.STOPPED)
    app = launch(TICK_FOR_EVER)
    with Relays(supervisor.upstreams, meta_url=supervisor.meta_url, log_dir=tmp_path) as relays:
        assert supervisor.store.relay_desired("one") is Stage.RUNNING
        supervisor.store.set_relay_desired("one", Stage.STOPPED)
        with pytest.raises(RelayStopped):
            watch(app, relays, supervisor.store, ReportOutput(print, print))

    assert app.poll() is None
