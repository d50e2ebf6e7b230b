"""Looking at the processes of an Airflow of our own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from testbed.airflow import Airflow


def arguments(pid: int) -> bytes:
    """The command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def running(airflow: Airflow, what: bytes) -> list[int]:
    """Pids of this Airflow's processes with `what` in their command line."""
    return [pid for pid in airflow.processes() if what in arguments(pid)]


def wait_for(condition: Callable[[], object], *, seconds: float) -> None:
    """Fails when it does not come. How long a loaded machine takes for it says nothing: `seconds` is patience."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)


def files_with(text: str, root: Path) -> list[Path]:
    """Return the files with a text, but for relay logs: the statement that created the account is in them."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    ours = [path for path in files if "relay" not in path.relative_to(root).parts]
    return [path for path in ours if text.encode() in path.read_bytes()]


def restart_triggerer(airflow: Airflow) -> None:
    """End it as an operating system does, and start another; the one Airflow of this session goes on with that."""
    old = airflow.pids["triggerer"]
    os.kill(old, signal.SIGTERM)
    wait_for(lambda: not arguments(old), seconds=60)
    with open(airflow.log("triggerer"), "ab") as log:
        new = subprocess.Popen(
            [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"],
            env=airflow.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=airflow.home,
            start_new_session=True,
        )
    airflow.pids["triggerer"] = new.pid
