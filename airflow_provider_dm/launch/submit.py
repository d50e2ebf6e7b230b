"""One Spark app as a child process: its start, output, stop and end.

The exit code of an app (engine/reported.py) decides where its outcome is: the run's row in the metadata DB has the
result or the error of an app that ended by itself; an app that was killed leaves only its log.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from airflow_provider_dm.engine import reported
from airflow_provider_dm.engine.config.secrets import named_pipe
from airflow_provider_dm.engine.errors import LONGEST_FIELD, DmError, ReportedError
from airflow_provider_dm.engine.meta.records import Run
from airflow_provider_dm.launch.class_archive import class_options
from airflow_provider_dm.launch.errors import RunLost, SparkAppFailed, TaskTakenOver
from airflow_provider_dm.launch.job import Job
from airflow_provider_dm.launch.preflight import check_pyspark, find_java
from airflow_provider_dm.launch.processes import ask_to_end, end_now
from airflow_provider_dm.launch.secrets import inherited
from airflow_provider_dm.launch.spark_command import (
    SparkSettings,
    app_script,
    local_java_options,
    spark_app_missing,
    spark_submit_command,
)
from airflow_provider_dm.launch.workdir import RUN_LOG, open_run_log

STOP_SECONDS: Final = 3.0
"""The time from SIGTERM to SIGKILL. Airflow's supervisor allows a task five seconds in total."""
TAIL_LINES: Final = 40

_ON_REQUEST: Final = frozenset({reported.EXIT_STOPPED, -15, 130, -2})
_FOR_EVER_SECONDS: Final = 1e9

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppOutcome:
    """The app's result, from its run's row. `finished` False: it was stopped before its goal."""

    result: dict[str, Any] = field(default_factory=dict)
    finished: bool = True


class SparkApp:
    """A running app, created by `start`; it ends by itself or by `stop`."""

    def __init__(
        self, job: Job, process: subprocess.Popen[bytes], script: Path, pump: _LogPump, pipe: IO[bytes]
    ) -> None:
        self.job = job
        self._process = process
        self._script = script
        self._pump = pump
        self._pipe = pipe  # holds the secrets until the app has read them
        self._ending = threading.RLock()  # a signal handler may call `stop` inside `stop`

    @classmethod
    def start(
        cls, job: Job, *, run_dir: Path, settings: SparkSettings | None = None, script: Path | None = None
    ) -> SparkApp:
        """Check the machine, write the job file and start spark-submit in its own session.

        All output of the app and Spark is written to `run_dir/app.log` with secrets masked. The app's own log records
        are also logged here, with their loggers and levels, by another thread. `script` replaces the app's own script.
        Raises NotInstalled.
        """
        version, java_home = check_pyspark(), find_java()
        settings = settings or SparkSettings()
        java_options = local_java_options(settings, os.environ)
        job_file = run_dir / "job.json"
        job.spec.write(job_file)
        command = spark_submit_command(
            job.spec,
            script=script or app_script(job.spec.app),
            job_file=job_file,
            settings=settings,
            java_home=java_home,
            java_options=f"{java_options} {class_options(java_home)}".rstrip() if java_options else "",
            environ=os.environ,
        )
        log.info("starting %s: run %s, pyspark %s", job.spec.app, job.spec.run_id, version)
        pipe = named_pipe(run_dir, job.secrets.by_name)
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=run_dir,
                env={**inherited(), **command.environment},
                start_new_session=True,
            )
        except OSError as error:
            os.close(pipe)
            raise spark_app_missing(job.spec.app, f"{command.argv[0]}: {error.strerror}") from error
        assert process.stdout is not None
        pump = _LogPump(process.stdout, run_dir / RUN_LOG, job.secrets.masked)
        pump.start()
        return cls(job, process, command.script, pump, os.fdopen(pipe, "wb"))

    @property
    def pid(self) -> int:
        """The pid of spark-submit, which is also the session's id."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self._pump.path

    def tail(self) -> str:
        """Return the end of the output of the app and Spark."""
        return self._pump.tail()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the end; None if it still runs after the timeout. Ends the whole session."""
        try:
            # Without a timeout Popen holds its lock while it waits, and `stop` in a signal handler would not work.
            code = self._process.wait(_FOR_EVER_SECONDS if timeout_seconds is None else timeout_seconds)
        except subprocess.TimeoutExpired:
            return None
        end_now(self.pid)  # a driver or worker that outlives the JVM must not write
        self._pump.join(STOP_SECONDS)
        self._pipe.close()
        return code

    def ask_to_stop(self) -> None:
        """Send SIGTERM: the app finishes its epoch, saves, and exits 143. Returns immediately; may be repeated."""
        if self.poll() is None:
            ask_to_end(self.pid, self._script)

    def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """Call `ask_to_stop`; after `grace_seconds` send SIGKILL to the whole session. Idempotent, thread-safe."""
        with self._ending:
            self.ask_to_stop()
            deadline = time.monotonic() + grace_seconds
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            end_now(self.pid)
            self.wait(STOP_SECONDS)

    def outcome(self, run_of: Callable[[str], Run | None]) -> AppOutcome:
        """Return the outcome of the ended app; `run_of` reads its run from the metadata DB. Waits for the end.

        Raises SparkAppFailed, TaskTakenOver or RunLost.
        """
        spec, code = self.job.spec, self.wait()
        match code:
            case reported.EXIT_FINISHED:
                if (run := self._run(run_of)) is None or run.result is None:
                    raise RunLost(spec.app, spec.run_id, "the metadata DB has none")
                return AppOutcome(dict(run.result))
            case reported.EXIT_FENCED:
                raise TaskTakenOver(spec.app, spec.run_id)
            case reported.EXIT_ERROR if (error := self._reported(run_of)) is not None:
                raise SparkAppFailed(spec.app, spec.run_id, error)
            case int() if code in _ON_REQUEST:
                run = self._run(run_of)
                return AppOutcome(dict(run.result or {}) if run is not None else {}, finished=False)
            case _:
                reason = f"exit code {code or 0}, log {self.log_path}"
                raise RunLost(spec.app, spec.run_id, reason, self._pump.tail())

    def _reported(self, run_of: Callable[[str], Run | None]) -> ReportedError | None:
        """Return the app's own error, from the metadata DB or, if that failed, from the app's stderr."""
        run = self._run(run_of)
        return ReportedError.read(run.error) if run is not None and run.error else self._pump.reported

    def _run(self, run_of: Callable[[str], Run | None]) -> Run | None:
        try:
            return run_of(self.job.spec.run_id)
        except DmError as error:
            log.warning("the metadata DB cannot be read for the end of run %s: %s", self.job.spec.run_id, error)
            return None


class _LogPump(threading.Thread):
    """A thread that reads the app's output until it is closed, so that a full pipe never blocks the app."""

    def __init__(self, stream: IO[bytes], path: Path, masked: Callable[[str], str]) -> None:
        super().__init__(name=f"log of {path.parent.name}", daemon=True)
        self.path = path
        self.reported: ReportedError | None = None
        self._stream = stream
        self._masked = masked
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def run(self) -> None:
        with open_run_log(self.path.parent) as file, self._stream:
            for raw in self._stream:
                line = self._masked(raw.decode("utf-8", "replace").rstrip("\r\n"))
                file.write(line + "\n")
                file.flush()
                self._tail.append(line)
                self._notice(line)

    def tail(self) -> str:
        """Return the end of the last lines."""
        return "\n".join(self._tail)[-LONGEST_FIELD:]  # a message would cut it at the end

    def _notice(self, line: str) -> None:
        self.reported = reported.reported_in(line) or self.reported
        record = reported.log_line_in(line)
        if record is not None:
            with suppress(Exception):  # a failing handler must not stop the reader, as the app would block
                logging.getLogger(record.name).log(record.level, "%s", record.message)
