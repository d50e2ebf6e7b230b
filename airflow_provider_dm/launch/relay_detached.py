"""A relay that outlives whoever starts it: a process that no launcher holds, watched through the metadata DB alone.

`ensure` leaves one living relay of the source, whoever runs it. One that another machine reports of is taken as it is.
Here, the directory's lock decides: while it is held no second process is started, and the first is watched instead. A
relay that cannot start says why while its starter still looks, so that a wrong password never becomes a silence.

Beside the log lies a note of the process that was started here (`<log folder>/relay-<source>.detached`). Whoever
watches a relay may end it only if the note names it: another one may be a person's, or that of a running sync.
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

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import identity_of, is_of_this_machine
from airflow_provider_dm.engine.relay.health import HANDOVER_SECONDS, Life, is_alive
from airflow_provider_dm.engine.relay.keeper import DEATHS_ALLOWED, AsAsked, Died, Failed, Locked, end_of, pause_after
from airflow_provider_dm.engine.relay.lock import holder_of
from airflow_provider_dm.engine.relay.process import RelayProcess, end_of_log
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.launch.relays import error_of, prepare_shared_relay
from airflow_provider_dm.launch.workdir import quoted

FIRST_WORDS_SECONDS: Final = 15.0
"""A relay that cannot log in, or is refused by its upstream, has ended by then."""
FIRST_REPORT_SECONDS: Final = 60.0
"""Its first report comes after its upstream has answered, or has not for as long as a connection may take."""

log = logging.getLogger(__name__)


class RelayHangs(DmError):
    source: str
    holder: str

    code = "DM-9038"
    reaction = Reaction.RETRY
    what = "the relay of source {source} holds its directory but has said nothing for minutes: {holder}"
    hint = "Look at that process; if it hangs, end it by kill -9: the files are safe."


@dataclass
class DetachedRelay:
    """The relay of one source. `spec` names no launcher; `environment` is the child's, and the secrets."""

    spec: RelaySpec
    environment: Mapping[str, str] = field(repr=False)
    store: MetaStore
    log_path: Path
    masked: Callable[[str], str]
    """Takes secrets out of what is shown of a log."""
    process: RelayProcess | None = None
    """What was started here and not let go yet."""

    @property
    def source_id(self) -> str:
        return self.spec.source.config.source_id

    def ensure(self, deaths: int = 0) -> Life | None:
        """Return a life to watch; None: it has ended already, as it was asked to. `deaths` in a row lie behind it.

        Raises RelayFailed (it ended with a typed error), RelayKeepsDying, RelayHangs.
        """
        while True:
            if self.store.relay_desired(self.source_id) is Stage.STOPPED:
                return None
            if self._lives_elsewhere():
                return Life(time.time(), deaths)
            began, end = time.time(), None
            holder = holder_of(Path(self.spec.source.relay_dir))
            if holder is None:
                match end := self._start():
                    case None:
                        return Life(began, deaths)
                    case AsAsked():
                        return None
                    case Locked(other):
                        holder = other  # it was faster
            if holder is not None:
                if self._other_lives():
                    return Life(time.time(), deaths)
                if deaths >= DEATHS_ALLOWED:
                    raise RelayHangs(self.source_id, holder)
            deaths += 1
            if isinstance(end, Failed) or (isinstance(end, Died) and deaths > DEATHS_ALLOWED):
                raise error_of(self.source_id, end, deaths=deaths, log_path=self.log_path, masked=self.masked)
            pause = pause_after(deaths)
            log.warning("the relay of %s did not stay (%s); again in %.1f s", self.source_id, end or holder, pause)
            time.sleep(pause)

    def is_ours(self) -> bool:
        """Tell whether the living relay was started so on this machine, by an earlier attempt or just now."""
        if self.process is not None:
            return True
        status = self.store.relay_status(self.source_id)
        try:
            note = json.loads(self._note.read_text())
        except (OSError, ValueError):
            return False
        return status is not None and is_alive(status) and note == {"process": status.process}

    def let_go(self) -> None:
        """Let the process go on by itself; nothing here ends it any more."""
        self.process = None

    def end(self, grace_seconds: float) -> None:
        """End the process that was started here, or ask that of an earlier attempt to stop; nobody else's."""
        process, self.process = self.process, None
        if process is not None:
            process.stop(grace_seconds)
            return
        # In a thread: who is being killed may be in the middle of a transaction, and must not wait for himself.
        asking = threading.Thread(target=self._ask_to_stop, daemon=True)
        asking.start()
        asking.join(grace_seconds)

    def _ask_to_stop(self) -> None:
        if self.is_ours():
            self.store.set_relay_desired(self.source_id, Stage.STOPPED)

    def tail(self) -> str:
        """Return the end of the log, without secrets."""
        return self.masked(end_of_log(self.log_path))

    # How

    @property
    def _note(self) -> Path:
        return self.log_path.parent / f"relay-{quoted(self.source_id)}.detached"

    def _start(self) -> AsAsked | Locked | Failed | Died | None:
        """Start a process and wait for what it reports first; returns how it has ended, None while it lives."""
        prepare_shared_relay(self.spec.source.config, Path(self.spec.source.relay_dir))
        # The log is appended to: a living relay of an earlier run may be writing the same file.
        self.process = process = RelayProcess.start(self.spec, self.environment, self.log_path)
        log.info("relay process %d of %s writes %s", process.pid, self.source_id, self.spec.source.relay_dir)
        began, started = time.monotonic(), identity_of(process.pid)
        while process.wait(0.3) is None:
            status = self.store.relay_status(self.source_id)
            waited = time.monotonic() - began
            if status is None or status.process != started:  # the row is its predecessor's still
                if waited > FIRST_REPORT_SECONDS:
                    break
            elif waited > FIRST_WORDS_SECONDS or self._is_settled(status):
                break
        end = end_of(process)
        if end is None:
            self._note.write_text(json.dumps({"process": started}))
        else:
            self.process = None
        return end

    def _is_settled(self, status: RelayStatus) -> bool:
        """Return whether its first report suffices. One with an error may be about to end, and one that ends at a goal
        is given the time for it.
        """
        if status.error is not None:
            return False
        return status.stage is Stage.PAUSED or (self.spec.until == "stopped" and status.relay is not None)

    def _lives_elsewhere(self) -> bool:
        """Tell whether a relay runs on another machine. It holds no lock here; its heartbeat is all there is."""
        status = self.store.relay_status(self.source_id)
        if status is None or status.task or is_of_this_machine(status.process):
            return False
        if not is_alive(status):
            log.warning("the relay of %s ran on %s; this is %s", self.source_id, status.host, socket.gethostname())
            return False
        log.info("the relay of %s runs as process %s on %s; watching it", self.source_id, status.pid, status.host)
        return True

    def _other_lives(self) -> bool:
        """Tell whether the process here that holds the lock reports: one that is about to end is not worth watching."""
        deadline = time.monotonic() + HANDOVER_SECONDS
        while time.monotonic() < deadline:
            status = self.store.relay_status(self.source_id)
            if status is not None and is_alive(status, HANDOVER_SECONDS):
                log.info("process %s writes the relay log of %s already; watching it", status.pid, self.source_id)
                return True
            time.sleep(0.5)
        return False
