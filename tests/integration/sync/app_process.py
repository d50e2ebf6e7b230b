"""An app as a process, as a launcher starts it; a test may kill it or a part of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.meta.records import Run
from airflow_provider_dm.engine.meta.store import MetaStore
from tests.nursery import Child, Nursery

ROOT = Path(__file__).parents[3]
APPS = ROOT / "spark_apps"
PLAIN_SYNC = ROOT / "tests" / "chaos" / "plain_sync.py"
WORKER_SYNC = ROOT / "tests" / "chaos" / "worker_sync.py"
"""The sync without Spark."""
START_SECONDS = 240


class AppProcess:
    """One run of the spec's app in a session of its own, so that nothing of it is left.

    `script`: in place of it, in the module's `run` as it is forked from a nursery if there is one.
    """

    def __init__(
        self, folder: Path, store: MetaStore, spec: JobSpec, script: Path | None = None, nursery: Nursery | None = None
    ) -> None:
        self.store, self.spec = store, spec
        path = folder / f"{spec.run_id}.json"
        spec.write(path)
        self.log = folder / f"{spec.run_id}.log"
        self.process: subprocess.Popen[bytes] | Child
        with self.log.open("wb") as log:
            if script is not None and nursery is not None:
                module = ".".join(script.relative_to(ROOT).with_suffix("").parts)
                self.process = nursery.start(f"{module}:run", [str(path)], os.environ, log.fileno(), str(folder))
                return
            self.process = subprocess.Popen(
                [sys.executable, str(script or APPS / f"{spec.app}.py"), str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self.process.poll() is None

    def ends(self, seconds: float = START_SECONDS) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running:\n{self.text()[-4000:]}") from None

    def kill(self) -> None:
        """Driver, JVM and workers at once."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to all of them."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_a_worker(self) -> None:
        """A Python worker. Not the daemon that they are forked from: its orphans would go on working."""
        found: list[int] = []

        def are_there() -> bool:
            found[:] = self.workers()
            return bool(found)

        until(are_there, self)
        kill(found[0])

    def workers(self) -> list[int]:
        daemons = [pid for pid in descendants(self.process.pid) if "-m spark_apps.workers" in command(pid)]
        return [worker for daemon in daemons for worker in descendants(daemon)]

    def run(self) -> Run:
        run = self.store.get_run(self.spec.run_id)
        assert run is not None, self.text()[-4000:]
        return run

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def applied(self) -> int:
        """Changes, of all sources."""
        run = self.store.get_run(self.spec.run_id)
        return sum(int(one.get("changes_applied", 0)) for one in run.progress.values()) if run else 0

    def achieved(self) -> tuple[int, int]:
        """Changes, and DDL, which a load follows without counting it."""
        return self.applied(), self.text().count("DDL in the target")


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
