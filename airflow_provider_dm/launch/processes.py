"""Ends all processes that one spark-submit has started.

spark-submit becomes a JVM, the JVM starts the Python driver, and Spark's worker daemon moves itself into a process
group of its own. Killing the JVM leaves the driver running (observed: still active 30 s later), killing the group
leaves the workers. All of them share the session that was created for spark-submit, so the session is ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from airflow_provider_dm.engine.processes import stat_of


def session_members(session: int) -> list[int]:
    """Return the pids of a session except zombies. Empty if the system has no /proc."""
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if stat_of(pid)[3:4] == [str(session)]]


def python_drivers(session: int, script: Path) -> list[int]:
    """Return the processes of a session that execute `script`; the JVM has its path among its arguments too."""
    pids = []
    for pid in session_members(session):
        with suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if os.fsencode(script) in argv[1:3] and not argv[0].endswith(b"java"):
                pids.append(pid)
    return pids


def ask_to_end(session: int, script: Path) -> None:
    """Send SIGTERM to the driver alone, so that its JVM lives until its epoch ends; to the group if there is none."""
    drivers = python_drivers(session, script)
    for pid in drivers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not drivers:
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGTERM)


def end_now(session: int) -> None:
    """Send SIGKILL to every process of the session, in any group."""
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    for pid in session_members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
