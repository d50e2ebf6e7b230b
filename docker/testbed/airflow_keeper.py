"""The process that outlives a harness just long enough to end its Airflow.

Like `keeper.py`, it reads folders from its standard input and blocks; end of file means that the harness is gone. Then
every process whose environment names one of these folders as `AIRFLOW_HOME` is ended.

Processes are found by their environment, because those that Airflow starts do not stay in one process group or session:
task supervisors, Spark drivers and relay processes each open their own. All of them inherit `AIRFLOW_HOME`, and no
other process names the folder of a test, so a process that has reused a pid is never ended. Run as a file: standard
library only."""

import os
import signal
import sys
import time
from pathlib import Path

TERM_SECONDS = 10
"""How long components get for an orderly end before SIGKILL."""


def processes_of(home: Path) -> list[int]:
    """Return the pids of processes, other than this one, that run with `AIRFLOW_HOME=home`."""
    wanted = f"AIRFLOW_HOME={home}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        if wanted in environment:
            found.append(int(entry.name))
    return found


def end_processes_of(home: Path, *, term_seconds: float = TERM_SECONDS) -> None:
    """Send SIGTERM to all processes of `home`, then SIGKILL to those that are left, until none is left."""
    _signal_all(processes_of(home), signal.SIGTERM)
    deadline = time.monotonic() + term_seconds
    while processes_of(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    deadline = time.monotonic() + TERM_SECONDS
    while (pids := processes_of(home)) and time.monotonic() < deadline:
        _signal_all(pids, signal.SIGKILL)
        time.sleep(0.1)


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def main() -> None:
    os.environ.pop("AIRFLOW_HOME", None)
    homes = [Path(line.rstrip("\n")) for line in sys.stdin]
    for home in homes:
        end_processes_of(home, term_seconds=1)


if __name__ == "__main__":
    main()
