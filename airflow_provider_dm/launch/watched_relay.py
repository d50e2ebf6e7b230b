"""A relay that an operator runs, or finds running, and watches through the metadata DB.

`ensure` results in one live relay of the source. A relay that reports from another machine is accepted. On this machine
the directory's lock decides: while it is held no second process is started, and its holder is watched instead. `ensure`
waits for the first report, so that an error at the start, such as a wrong password, is raised.

A relay without a launcher outlives its starter. A file beside its log names the process
(`<log folder>/relay-<source>.detached`). A later watcher may end a relay only if this file names it: any other relay
may have been started by a user or a running sync.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import LONGEST_FIELD, TransientErrorsLogged
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import identity_of, is_of_this_machine
from airflow_provider_dm.engine.relay.directory_lock import holder_of
from airflow_provider_dm.engine.relay.health import HANDOVER_SECONDS, RelayStart, is_alive
from airflow_provider_dm.engine.relay.keeper import EndedOnRequest, KeptRelay
from airflow_provider_dm.engine.relay.process import RelayProcess, end_of_log
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.launch.errors import RelayHangs, RelayKeepsDying
from airflow_provider_dm.launch.relays import error_of, prepare_shared_relay
from airflow_provider_dm.launch.workdir import path_name

START_ERROR_SECONDS: Final = 15.0
"""By then, a relay that cannot log in, or is rejected by its upstream, has ended."""
FIRST_REPORT_SECONDS: Final = 60.0
"""Its first report is made after its upstream has responded, or after the time-out of a connection."""
HOLDER_REPORT_SECONDS: Final = 120.0
"""A process that holds the directory's lock for longer without a report hangs."""
_POLL_SECONDS: Final = 0.3

log = logging.getLogger(__name__)


@dataclass
class WatchedRelay:
    """The relay of one source. It outlives this process if the spec in `kept` names no launcher."""

    kept: KeptRelay
    store: MetaStore
    masked: Callable[[str], str]
    """Masks secrets in parts of a log."""
    is_ended: bool = field(default=False, init=False)
    """True after `end`: no process is started any more."""

    @property
    def spec(self) -> RelaySpec:
        return self.kept.spec

    @property
    def source_id(self) -> str:
        return self.spec.source.config.source_id

    def ensure(self) -> RelayStart | None:
        """Return a live relay to watch; None if it has already ended on request, or by `end`.

        Raises RelayFailed (it ended with a typed error), RelayKeepsDying, RelayHangs.
        """
        if self.store.relay_desired(self.source_id) is Stage.STOPPED:
            return None
        if self._lives_elsewhere():
            return RelayStart(time.time(), self.kept.deaths)
        directory, log_path = Path(self.spec.source.relay_dir), self.kept.log_path
        if self.kept.deaths > self.kept.deaths_allowed and holder_of(directory) is None:  # counted by a trigger
            tail = self.tail()[-LONGEST_FIELD:]
            raise RelayKeepsDying(self.source_id, self.kept.deaths, str(log_path), tail)
        prepare_shared_relay(self.spec.source.config, directory)
        began = time.monotonic()
        while not self.is_ended:
            end, status, desired = self.kept.check(), None, None
            with TransientErrorsLogged(log.warning):  # a relay continues without the metadata DB
                status, desired = self.store.relay_status(self.source_id), self.store.relay_desired(self.source_id)
            if isinstance(end, EndedOnRequest):
                return None
            if end is not None:
                raise error_of(self.source_id, end, deaths=self.kept.deaths, log_path=log_path, masked=self.masked)
            if self.kept.process is not None:
                if self._has_started(self.kept.process, status):
                    return RelayStart(time.time(), self.kept.deaths)
            elif self.kept.holder is not None:
                if is_alive(status, HANDOVER_SECONDS):  # a holder that is about to end does not report
                    log.info("%s writes the relay log of %s already; watching it", self.kept.holder, self.source_id)
                    return RelayStart(time.time(), self.kept.deaths)
                if desired is Stage.STOPPED:
                    return None
                # It may have held the lock for days, and have reported until now.
                if time.monotonic() - max(self.kept.held_since, began) > HOLDER_REPORT_SECONDS:
                    raise RelayHangs(self.source_id, self.kept.holder)
            time.sleep(_POLL_SECONDS)
        return None

    def is_ours(self) -> bool:
        """Return True if the live relay was started by this class on this machine, now or by an earlier attempt."""
        if self.kept.process is not None:
            return True
        status = self.store.relay_status(self.source_id)
        try:
            note = json.loads(self._note_path.read_text())
        except (OSError, ValueError):
            return False
        return status is not None and is_alive(status) and note == {"process": status.process}

    def end(self, grace_seconds: float) -> None:
        """End the process that was started here. If it has no launcher, ask that of an earlier attempt to stop."""
        self.is_ended = True
        if self.kept.process is not None:
            log.info("ending relay process %d of %s", self.kept.process.pid, self.source_id)
            self.kept.stop(grace_seconds)
        elif self.spec.launcher_pid is None:
            # In a thread: the process to be killed may be in a transaction for which this one must not wait.
            asking = threading.Thread(target=self._ask_to_stop, daemon=True)
            asking.start()
            asking.join(grace_seconds)

    def _ask_to_stop(self) -> None:
        if self.is_ours():
            self.store.set_relay_desired(self.source_id, Stage.STOPPED)

    def tail(self) -> str:
        """Return the end of the log, without secrets."""
        return self.masked(end_of_log(self.kept.log_path))

    # Internals

    @property
    def _note_path(self) -> Path:
        return self.kept.log_path.parent / f"relay-{path_name(self.source_id)}.detached"

    def _has_started(self, process: RelayProcess, status: RelayStatus | None) -> bool:
        """Return True if the process has reported, or its report is overdue."""
        identity, waited = identity_of(process.pid), time.monotonic() - self.kept.started_at
        if status is None or status.process != identity:  # the row is still its predecessor's
            started = waited > FIRST_REPORT_SECONDS
        else:
            started = waited > START_ERROR_SECONDS or self._is_settled(status)
        if started and self.spec.launcher_pid is None:
            self._note_path.write_text(json.dumps({"process": identity}))
        return started

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
