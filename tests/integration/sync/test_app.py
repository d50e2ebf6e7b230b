"""The app as a process: exit codes, what it leaves in the metadata DB, and what it survives. With Spark where that is
killed, or has a say in how it ends."""

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Stage
from tests.beside import beside
from tests.integration.sync.app_process import PLAIN_SYNC, WORKER_SYNC, AppProcess, until
from tests.integration.sync.conftest import SyncKit, random_transactions
from tests.nursery import Nursery

pytestmark = pytest.mark.spark


@pytest.fixture
def launch(one_kit: SyncKit, driver_nursery: Nursery) -> Iterator[Callable[..., AppProcess]]:
    started: list[AppProcess] = []

    def start(spec: JobSpec, script: Path | None = None) -> AppProcess:
        nursery = driver_nursery if script is PLAIN_SYNC else None
        started.append(AppProcess(one_kit.folder, one_kit.store, spec, script, nursery))
        return started[-1]

    yield start
    for app in started:
        if app.process.poll() is None:
            app.kill()


Launch = Callable[..., AppProcess]


def test_killed_workers_and_a_killed_driver_lose_and_double_nothing(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.begin_with()
    chance = random.Random(7)

    def write(ended: threading.Event) -> None:
        seed = 0
        while not ended.is_set():
            random_transactions(one_kit, seed=(seed := seed + 1), transactions=30, keys=20)
            ended.wait(0.1)

    with beside(write):
        app = launch(one_kit.spec("forever"), WORKER_SYNC)
        until(lambda: app.applied() > 0, app)
        for _ in range(2):
            time.sleep(chance.uniform(0.2, 0.8))
            app.kill_a_worker()
        time.sleep(chance.uniform(0.1, 0.5))
        app.kill()

    last = launch(one_kit.spec("caught-up"))

    assert last.ends() == 0, last.text()[-4000:]
    assert one_kit.differences() == []
    run = last.run()
    assert run.stage is Stage.FINISHED
    assert run.result is not None
    assert run.result["sources"]["s1"]["finished"] is True


def test_sigterm_ends_it_between_two_epochs(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    app = launch(one_kit.spec("forever"))
    until(lambda: app.applied() == 1, app)

    app.process.terminate()

    assert app.ends() == 143
    assert app.run().stage is Stage.STOPPED
    assert one_kit.differences() == []


def test_a_newer_generation_ends_the_app(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.begin_with("plain")
    spec = one_kit.spec("forever")
    app = launch(spec, PLAIN_SYNC)
    until(lambda: (run := one_kit.store.get_run(spec.run_id)) is not None and "s1" in run.progress, app)

    claim_generation(spec.target.resolve(), Fence(one_kit.ref, 1000))
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")

    assert app.ends() == 3
    assert one_kit.target.sql(f"SELECT * FROM `{one_kit.schema}`.plain") == []


def test_an_error_is_reported_in_three_places(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.begin_with("plain")
    one_kit.source.sql(f"ALTER TABLE `{one_kit.schema}`.plain ENGINE=MyISAM")
    app = launch(one_kit.spec(), PLAIN_SYNC)

    assert app.ends() == 2
    (line,) = [line for line in app.text().splitlines() if line.startswith("DM-ERROR ")]
    error = json.loads(line.removeprefix("DM-ERROR "))
    assert error["ErrCode"] == "DM-6032"
    run = app.run()
    assert (run.stage, run.error) == (Stage.PAUSED, error)
    (subtask,) = one_kit.store.list_subtasks(task="test")
    assert subtask.stage is Stage.PAUSED
    assert subtask.error is not None
    assert RESUMES_IN_SECONDS not in subtask.error, "it pauses at once"


def test_an_app_ends_with_its_launcher(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.begin_with("plain")
    launcher = subprocess.Popen(["sleep", "900"])
    app = launch(one_kit.spec("forever", launcher_pid=launcher.pid))
    try:
        until(lambda: one_kit.store.get_run(app.spec.run_id) is not None, app)
    finally:
        launcher.kill()
        launcher.wait()

    assert app.ends() == -signal.SIGKILL
