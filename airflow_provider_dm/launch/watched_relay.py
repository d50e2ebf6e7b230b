"""A relay that outlives its starter: a process without a launcher, watched through the metadata DB only.

`ensure` results in one live relay of the source. A relay that reports from another machine is accepted. On this machine
the directory's lock decides: while it is held no second process is started, and its holder is watched instead. `ensure`
waits for the first report, so that an error at the start, such as a wrong password, is raised.

A file beside the log names the process that was started here (`<log folder>/relay-<source>.detached`). A watcher may
end a relay only if this file names it: any other relay may have been started by a user or a running sync.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import identity_of, is_of_this_machine
from airflow_provider_dm.engine.relay.directory_lock import holder_of
from airflow_provider_dm.engine.relay.health import HANDOVER_SECONDS, RelayStart, is_alive
from airflow_provider_dm.engine.relay.keeper import (
    DEATHS_ALLOWED,
    DirectoryLocked,
    EndedByCrash,
    EndedByError,
    EndedOnRequest,
    end_of,
    pause_after,
)
from airflow_provider_dm.engine.relay.process import RelayProcess, end_of_log
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.launch.errors import RelayHangs
from airflow_provider_dm.launch.relays import error_of, prepare_shared_relay
from airflow_provider_dm.launch.workdir import path_name

START_ERROR_SECONDS: Final = 15.0
"""By then, a relay that cannot log in, or is rejected by its upstream, has ended."""
FIRST_REPORT_SECONDS: Final = 60.0
"""Its first report is made after its upstream has responded, or after the time-out of a connection."""

log = logging.getLogger(__name__)


@dataclass
class DetachedRelay:
    """The relay of one source. `spec` names no launcher. `environment`: the child's, and the secrets."""

    spec: RelaySpec
    environment: Mapping[str, str] = field(repr=False)
    store: MetaStore
    log_path: Path
    masked: Callable[[str], str]
    """Masks secrets in parts of a log."""
    process: RelayProcess | None = None
    """The process that was started here and is not released yet."""

    @property
    def source_id(self) -> str:
        return self.spec.source.config.source_id

    def ensure(self, deaths: int = 0) -> RelayStart | None:
        """Return a live relay to watch; None if it has already ended on request. `deaths`: the preceding failures.

        Raises RelayFailed (it ended with a typed error), RelayKeepsDying, RelayHangs.
        """
        while True:
            if self.store.relay_desired(self.source_id) is Stage.STOPPED:
                return None
            if self._lives_elsewhere():
                return RelayStart(time.time(), deaths)
            began, end = time.time(), None
            holder = holder_of(Path(self.spec.source.relay_dir))
            if holder is None:
                match end := self._start():
                    case None:
                        return RelayStart(began, deaths)
                    case EndedOnRequest():
                        return None
                    case DirectoryLocked(other):
                        holder = other  # it was started first
            if holder is not None:
                if self._holder_reports():
                    return RelayStart(time.time(), deaths)
                if deaths >= DEATHS_ALLOWED:
                    raise RelayHangs(self.source_id, holder)
            deaths += 1
            if isinstance(end, EndedByError) or (isinstance(end, EndedByCrash) and deaths > DEATHS_ALLOWED):
                raise error_of(self.source_id, end, deaths=deaths, log_path=self.log_path, masked=self.masked)
            pause = pause_after(deaths)
            log.warning("the relay of %s ended (%s); restart in %.1f s", self.source_id, end or holder, pause)
            time.sleep(pause)

    def is_ours(self) -> bool:
        """Return True if the live relay was started by this class on this machine, now or by an earlier attempt."""
        if self.process is not None:
            return True
        status = self.store.relay_status(self.source_id)
        try:
            note = json.loads(self._note_path.read_text())
        except (OSError, ValueError):
            return False
        return status is not None and is_alive(status) and note == {"process": status.process}

    def detach(self) -> None:
        """Release the process: it continues independently and is not ended here any more."""
        self.process = None

    def end(self, grace_seconds: float) -> None:
        """End the process that was started here, or ask that of an earlier attempt to stop; no other relay."""
        process, self.process = self.process, None
        if process is not None:
            process.stop(grace_seconds)
            return
        # In a thread: the process to be killed may be in a transaction for which this one must not wait.
        asking = threading.Thread(target=self._ask_to_stop, daemon=True)
        asking.start()
        asking.join(grace_seconds)

    def _ask_to_stop(self) -> None:
        if self.is_ours():
            self.store.set_relay_desired(self.source_id, Stage.STOPPED)

    def tail(self) -> str:
        """Return the end of the log, without secrets."""
        return self.masked(end_of_log(self.log_path))

    # Internals

    @property
    def _note_path(self) -> Path:
        return self.log_path.parent / f"relay-{path_name(self.source_id)}.detached"

    def _start(self) -> EndedOnRequest | DirectoryLocked | EndedByError | EndedByCrash | None:
        """Start a process and wait for its first report. Return how it has ended, or None while it lives."""
        prepare_shared_relay(self.spec.source.config, Path(self.spec.source.relay_dir))
        # The log is appended to: a living relay of an earlier run may be writing the same file.
        self.process = process = RelayProcess.start(self.spec, self.environment, self.log_path)
        log.info("relay process %d of %s writes %s", process.pid, self.source_id, self.spec.source.relay_dir)
        began, started = time.monotonic(), identity_of(process.pid)
        while process.wait(0.3) is None:
            status = self.store.relay_status(self.source_id)
            waited = time.monotonic() - began
            if status is None or status.process != started:  # the row is still its predecessor's
                if waited > FIRST_REPORT_SECONDS:
                    break
            elif waited > START_ERROR_SECONDS or self._is_settled(status):
                break
        end = end_of(process)
        if end is None:
            self._note_path.write_text(json.dumps({"process": started}))
        else:
            self.process = None
        return end

    def _is_settled(self, status: RelayStatus) -> bool:
        """Return True if its first report suffices. A relay that reports an error, or runs up to a goal, may be about
        to end and is given more time.
        """
        if status.error is not None:
            return False
        return status.stage is Stage.PAUSED or (self.spec.until == "stopped" and status.relay is not None)

    def _lives_elsewhere(self) -> bool:
        """Return True if a relay runs on another machine: its lock is not visible here, so its heartbeat decides."""
        status = self.store.relay_status(self.source_id)
        if status is None or status.task or is_of_this_machine(status.process):
            return False
        if not is_alive(status):
            log.warning("the relay of %s ran on %s; this is %s", self.source_id, status.host, socket.gethostname())
            return False
        log.info("the relay of %s runs as process %s on %s; watching it", self.source_id, status.pid, status.host)
        return True

    def _holder_reports(self) -> bool:
        """Return True if the lock's holder on this machine reports: a process that is about to end is not watched."""
        deadline = time.monotonic() + HANDOVER_SECONDS
        while time.monotonic() < deadline:
            status = self.store.relay_status(self.source_id)
            if status is not None and is_alive(status, HANDOVER_SECONDS):
                log.info("process %s writes the relay log of %s already; watching it", status.pid, self.source_id)
                return True
            time.sleep(0.5)
        return False
