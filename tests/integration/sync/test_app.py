"""The app as a process, with Spark: exit codes, what it leaves in the metadata DB, and what it survives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.meta.model import Run, Stage
from airflow_provider_dm.engine.target.generation import claim_generation
from tests.integration.sync.conftest import SOURCE_ID, SyncKit, random_transactions

REPOSITORY = Path(__file__).parents[3]
APP = REPOSITORY / "spark_apps" / "incremental_sync.py"
START_SECONDS = 90

pytestmark = pytest.mark.spark


class AppProcess:
    """One run of the app in a session of its own, so that nothing of it is left."""

    def __init__(self, kit: SyncKit, spec: JobSpec) -> None:
        self.kit, self.spec = kit, spec
        path = kit.folder / f"{spec.run_id}.json"
        spec.write(path)
        self.log = kit.folder / f"{spec.run_id}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(APP), str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=kit.folder,
                start_new_session=True,
            )

    def ends(self, seconds: float = START_SECONDS) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running:\n{self.text()[-4000:]}") from None

    def kill(self) -> None:
        """Driver, JVM and workers at once."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            kill(pid)
        self.process.wait()

    def kill_a_worker(self) -> None:
        """A Python worker. Not the daemon that they are forked from: its orphans would go on working."""
        until(lambda: bool(self.workers()), self)
        for worker in self.workers()[:1]:
            kill(worker)

    def workers(self) -> list[int]:
        daemons = [pid for pid in descendants(self.process.pid) if "pyspark.daemon" in command(pid)]
        return [worker for daemon in daemons for worker in descendants(daemon)]

    def run(self) -> Run:
        run = self.kit.store.get_run(self.spec.run_id)
        assert run is not None, self.text()[-4000:]
        return run

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def applied(self) -> int:
        run = self.kit.store.get_run(self.spec.run_id)
        return int(run.progress.get("s1", {}).get("changes_applied", 0)) if run else 0


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        children.setdefault(int(text.rsplit(")", 1)[1].split()[1]), []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        todo += (mine := children.get(todo.pop(), []))
        found += mine
    return found


def until(condition: Callable[[], bool], app: AppProcess, seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, app.text()[-4000:]
        assert app.process.poll() is None, app.text()[-4000:]
        time.sleep(0.1)


@pytest.fixture
def launch(one_kit: SyncKit) -> Iterator[Callable[[JobSpec], AppProcess]]:
    started: list[AppProcess] = []

    def start(spec: JobSpec) -> AppProcess:
        started.append(AppProcess(one_kit, spec))
        return started[-1]

    yield start
    for app in started:
        if app.process.poll() is None:
            app.kill()


Launch = Callable[[JobSpec], AppProcess]


def test_killed_workers_and_a_killed_driver_lose_and_double_nothing(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.create()
    one_kit.begin()
    chance, ended = random.Random(7), threading.Event()

    def write() -> None:
        seed = 0
        while not ended.is_set():
            random_transactions(one_kit, seed=(seed := seed + 1), transactions=30, keys=20)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        app = launch(one_kit.spec("forever"))
        until(lambda: app.applied() > 0, app)
        for _ in range(4):
            time.sleep(chance.uniform(0.2, 0.8))
            app.kill_a_worker()
        time.sleep(chance.uniform(0.1, 0.5))
        app.kill()
    finally:
        ended.set()
        writer.join()

    last = launch(one_kit.spec("caught-up"))

    assert last.ends() == 0, last.text()[-4000:]
    assert one_kit.differences() == []
    run = last.run()
    assert run.stage is Stage.FINISHED
    assert run.result is not None
    assert run.result["sources"]["s1"]["finished"] is True


def test_sigterm_ends_it_between_two_epochs(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.create("plain")
    one_kit.begin()
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    app = launch(one_kit.spec("forever"))
    until(lambda: app.applied() == 1, app)

    app.process.terminate()

    assert app.ends(30) == 143
    assert app.run().stage is Stage.STOPPED
    assert one_kit.differences() == []


def test_a_newer_generation_ends_it(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.create("plain")
    one_kit.begin()
    spec = one_kit.spec("forever")
    app = launch(spec)
    until(lambda: (run := one_kit.store.get_run(spec.run_id)) is not None and "s1" in run.progress, app)

    claim_generation(spec.target.resolve(), one_kit.meta_schema, "test", SOURCE_ID, 1000)
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")

    assert app.ends() == 3
    assert one_kit.target.sql(f"SELECT * FROM `{one_kit.schema}`.plain") == []


def test_an_error_is_told_in_three_places(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.create("plain")
    one_kit.begin()
    one_kit.source.sql(f"ALTER TABLE `{one_kit.schema}`.plain ADD COLUMN w int")
    app = launch(one_kit.spec())

    assert app.ends() == 2
    (line,) = [line for line in app.text().splitlines() if line.startswith("DM-ERROR ")]
    error = json.loads(line.removeprefix("DM-ERROR "))
    assert error["ErrCode"] == "DM-6032"
    run = app.run()
    assert (run.stage, run.error) == (Stage.PAUSED, error)
    (subtask,) = one_kit.store.list_subtasks(task="test")
    assert subtask.stage is Stage.PAUSED


def test_it_ends_with_its_launcher(one_kit: SyncKit, launch: Launch) -> None:
    one_kit.create("plain")
    one_kit.begin()
    launcher = subprocess.Popen(["sleep", "300"])
    app = launch(one_kit.spec("forever", launcher_pid=launcher.pid))
    try:
        until(lambda: one_kit.store.get_run(app.spec.run_id) is not None, app)
    finally:
        launcher.kill()
        launcher.wait()

    assert app.ends(20) == -signal.SIGKILL
