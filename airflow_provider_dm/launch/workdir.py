"""The files of runs: job files, logs, relay directories, the default metadata DB.

    <root>/meta.db                         metadata DB (SQLite), if no other is configured
    <root>/relay/<source-id>/              relay log of a source with `enable-relay: true` and no `relay-dir`
    <root>/tasks/<task>/lock               lock of the process on this host that runs the task
    <root>/tasks/<task>/relay/<source-id>/ private relay log of a source with `enable-relay: false`
    <root>/tasks/<task>/upstream/<source-id>/ what a sync pulls itself while the relay log cannot serve it
    <root>/tasks/<task>/runs/<run-id>/     job.json, app.log, engine.zip

Everything below the root is readable by its owner only: relay logs contain rows, and log files contain messages of
servers. The root is given by the caller, or by DM_WORK_DIR, or it is XDG's state directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.relay.directory_lock import holder_in, sign, try_lock
from airflow_provider_dm.engine.relay.durable import opened
from airflow_provider_dm.launch.errors import TaskRunsAlready

RUN_LOG: Final = "app.log"
RUNS_KEPT: Final = 10
"""The number of finished runs whose files are kept, newest first."""


def _work_dir_not_private(path: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be the work directory: {reason}.", "Give another directory with --work-dir or DM_WORK_DIR."
    )


def work_root(given: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the absolute path of the work directory's root; it is not created."""
    if given:
        return Path(given).expanduser().absolute()
    if configured := environ.get("DM_WORK_DIR"):
        return Path(configured).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(state).absolute() / "airflow-provider-dm"


def private_directory(path: Path) -> Path:
    """Return `path` as a directory that only this user can read; it is created with its parents if it is missing.

    Raises InvalidInput if it belongs to another user, is a link, or cannot be created.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise _work_dir_not_private(str(path), error.strerror or str(error)) from error
    if not stat.S_ISDIR(status.st_mode):
        raise _work_dir_not_private(str(path), "it is a link")
    if status.st_uid != os.geteuid():
        raise _work_dir_not_private(str(path), f"it belongs to the user with id {status.st_uid}")
    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
    return path


@dataclass(frozen=True)
class TaskDir:
    """The directory of one task. Its name is the task's, quoted, so that no task name can point outside the root."""

    root: Path
    task: str

    @classmethod
    def of(cls, task: str, root: Path) -> TaskDir:
        """Return the directory of a task, created if missing. Raises InvalidInput."""
        # The root may be shared with others (a given /tmp): its mode is kept, everything below it is private.
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_directory(root / "tasks")
        here = cls(root, task)
        private_directory(here.path)
        return here

    @property
    def path(self) -> Path:
        return self.root / "tasks" / path_name(self.task)

    def run(self, run_id: str) -> Path:
        """Return the directory of one run, created as private. Raises InvalidInput."""
        private_directory(self.path / "runs")
        return private_directory(self.path / "runs" / path_name(run_id))

    def private_relay(self, source_id: str) -> Path:
        """Return the directory of the relay log of a source without its own relay; it is not created."""
        return self.path / "relay" / path_name(source_id)

    def fallback_relay(self, source_id: str) -> Path:
        """Return the directory in which a sync pulls what the relay log cannot serve; it is not created."""
        return self.path / "upstream" / path_name(source_id)

    def forget_old_runs(self, kept: int = RUNS_KEPT) -> None:
        """Remove the files of all runs except the newest `kept` and running ones: a sync may be the oldest run."""
        runs = [run for run in (self.path / "runs").glob("*") if run.is_dir()]
        runs.sort(key=lambda run: run.stat().st_mtime, reverse=True)
        for run in runs[kept:]:
            if not _is_under_way(run):
                shutil.rmtree(run, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the task for this process; the kernel releases it at the process's end. Raises TaskRunsAlready."""
        with opened(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600) as descriptor:
            if not try_lock(descriptor):
                raise TaskRunsAlready(self.task, holder_in(descriptor))
            sign(descriptor)
            yield


def open_run_log(run: Path) -> IO[str]:
    """Open the log of a run's app. The open file is locked, which marks the run as running until the app ends."""
    descriptor = os.open(run / RUN_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _is_under_way(run: Path) -> bool:
    try:
        with open(run / RUN_LOG, "rb") as log:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it has no log
        return False
    return False


def shared_relay(root: Path, source_id: str, relay_dir: str = "") -> Path:
    """Return the directory of the relay log of a source with `enable-relay: true`.

    An absolute `relay-dir` is the directory itself. A relative one (default: `relay`) is below the work directory and
    has a folder for each source, since DM's template has the same value for all of them. The variable DM_RELAY_DIR
    overrides both, as `relay-dir` of a DM-worker does; it has a folder for each source, too.
    """
    if overriding := os.environ.get("DM_RELAY_DIR"):
        return Path(overriding).expanduser().absolute() / path_name(source_id)
    named = Path(relay_dir or "relay").expanduser()
    return named if named.is_absolute() else root / named / path_name(source_id)


def path_name(name: str) -> str:
    """Return a name as a safe path component: without separators, and neither `.` nor `..`."""
    safe = quote(name, safe="")
    return safe if safe.strip(".") else safe.replace(".", "%2E")
