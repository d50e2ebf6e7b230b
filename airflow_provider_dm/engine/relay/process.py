"""A relay in its own process, which a launcher starts, watches and ends. It ends with its launcher.

The child leads its own session, so a signal to the launcher's terminal or group does not reach it. It ends with its
launcher because it watches the launcher (see `child`): the kernel's parent-death signal would arrive when the launching
*thread* ends, and a task runner may start a relay from a worker thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.secrets import filled_pipe
from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.processes import start_of
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.reported import reported_in

_TAIL_BYTES: Final = 16384
_WATCH_SECONDS: Final = 0.5


@dataclass
class RelayProcess:
    """A running or ended relay. Its stdout and stderr are appended to `log_path`."""

    log_path: Path
    log_from: int
    """Size of the log at the start: earlier bytes were written by other processes."""
    _process: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    def start(cls, spec: RelaySpec, env: Mapping[str, str], log_path: Path) -> RelayProcess:
        """Start the relay as a child. `env`: its whole environment, and the secrets that the spec names, which reach it
        by a pipe.

        The spec file is beside the log, readable by its owner only; the child removes it after reading.
        """
        log_path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="relay-", suffix=".json", dir=log_path.parent)
        os.close(descriptor)
        spec.write(Path(name))
        output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        log_from = os.fstat(output).st_size
        try:
            secrets = {name: env[name] for name in spec.secrets() if name in env}
            process = start_relay_interpreter(
                name, {key: value for key, value in env.items() if key not in secrets}, secrets, output
            )
        finally:
            os.close(output)
        return cls(log_path, log_from, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def exit_code(self) -> int | None:
        """Return the exit code; None while it runs; negative: the number of the signal that killed it."""
        return self._process.poll()

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the exit code; None if the process still runs after that time."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, grace_seconds: float = 10.0) -> int:
        """Send SIGTERM, and SIGKILL after `grace_seconds`; return the exit code. Neither loses data."""
        self._process.terminate()
        if self.wait(grace_seconds) is None:
            self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def error(self) -> ReportedError | None:
        return reported_in(self.tail())

    def tail(self) -> str:
        return end_of_log(self.log_path, self.log_from)


def start_relay_interpreter(
    spec: str, env: Mapping[str, str], secrets: Mapping[str, str], output: int
) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs the relay of this spec file. `output`: for its stdout and stderr."""
    pipe = filled_pipe(secrets)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "airflow_provider_dm.engine.relay", spec],
            env=_with_package_path(env),
            stdin=pipe,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(pipe)


def end_of_log(path: Path, start: int = 0) -> str:
    """Return the end of a log file, from `start` at the earliest; empty if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _with_package_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with this checkout on the path if the package is not installed."""
    root = Path(__file__).parents[3]
    if root.name in ("site-packages", "dist-packages"):
        return dict(env)
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, (str(root), env.get("PYTHONPATH"))))}


def wait_for_end_of(pid: int) -> None:
    """Block until this process has ended."""
    born = start_of(pid)
    while born is not None and start_of(pid) == born:
        time.sleep(_WATCH_SECONDS)
