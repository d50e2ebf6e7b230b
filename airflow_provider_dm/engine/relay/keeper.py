"""Supervision of one relay: it is started if its directory has no writer, and restarted when it dies.

The end of a relay's process is one value for all starters:

    EndedOnRequest      it has caught up, or was requested to end   exit code 0
    DirectoryLocked     another relay writes to the directory       2, with RelayLocked
    EndedByError        a user has to act                           2, with any other typed error
    EndedByCrash        unexpected                                  anything else

The keeper waits after DirectoryLocked, and restarts after EndedByCrash with growing delays. It returns any other end,
and a death beyond the allowed number, to its owner, which decides whether it can continue without this relay. It never
blocks: the owner calls `check` often.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.relay.directory_lock import holder_of
from airflow_provider_dm.engine.relay.errors import RelayLocked
from airflow_provider_dm.engine.relay.health import RelayStart, deaths_after
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.reported import EXIT_ERROR, EXIT_FINISHED

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
STAND_BY_SECONDS: Final = 1.0
"""Interval of the checks whether the directory still has a writer."""
DEATHS_ALLOWED: Final = 8
"""Maximum of consecutive deaths before the relay is given up. Their delays sum to a minute and a half."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EndedOnRequest:
    exit_code: int = EXIT_FINISHED


@dataclass(frozen=True)
class DirectoryLocked:
    holder: str


@dataclass(frozen=True)
class EndedByError:
    error: ReportedError


@dataclass(frozen=True)
class EndedByCrash:
    exit_code: int
    tail: str = field(repr=False)
    """The end of its log, which may contain secrets."""


def end_of(process: RelayProcess) -> EndedOnRequest | DirectoryLocked | EndedByError | EndedByCrash | None:
    """Return how a relay has ended; None while it runs. The log alone does not show that, as two processes may write to
    it."""
    code = process.exit_code()
    if code is None or code == EXIT_FINISHED:
        return None if code is None else EndedOnRequest()
    error = process.error() if code == EXIT_ERROR else None
    if error is None:
        return EndedByCrash(code, process.tail())
    return DirectoryLocked(error.message) if error.code == RelayLocked.code else EndedByError(error)


def pause_after(deaths: int) -> float:
    """Return the delay in seconds before the next start, after this number of consecutive deaths.

    >>> [pause_after(deaths) for deaths in (1, 2, 3, 99)]
    [0.5, 1.0, 2.0, 30.0]
    """
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (deaths - 1), LONGEST_PAUSE_SECONDS)


@dataclass
class KeptRelay:
    """A relay and its supervision. `environment`: the whole environment of the process, and the secrets of `spec`."""

    spec: RelaySpec
    environment: Mapping[str, str] = field(repr=False)
    log_path: Path
    deaths_allowed: int = DEATHS_ALLOWED
    deaths: int = 0
    """Consecutive deaths."""
    process: RelayProcess | None = field(default=None, init=False)
    holder: str | None = field(default=None, init=False)
    """The other relay whose end is awaited."""
    held_since: float = field(default=0.0, init=False)
    started_at: float = field(default=0.0, init=False)
    """The start of the process, by the monotonic clock."""
    _start_at: float = field(default=0.0, init=False)

    def check(self) -> EndedOnRequest | EndedByError | EndedByCrash | None:
        """Start the relay if it is due, and check whether it has ended. Return an end without restart, or None."""
        if self.process is None:
            if not self.is_start_delayed():
                self._start()
            return None
        match end_of(self.process):
            case None:
                return None
            case DirectoryLocked():
                self.delay_start(STAND_BY_SECONDS)
                return None
            case EndedByCrash(code) as end:
                now = time.monotonic()
                deaths = deaths_after(RelayStart(self.started_at, self.deaths), now)
                pause = pause_after(deaths) * random.uniform(0.8, 1.2)
                self.delay_start(pause, deaths)
                if deaths > self.deaths_allowed:
                    return end
                text = "the relay of %s died (exit code %d), %d consecutive deaths; restart in %.1f s"
                log.warning(text, self._source_id, code, deaths, pause)
                return None
            case end:
                self.process = None
                return end

    def is_start_delayed(self) -> bool:
        """Return True while the next start is delayed."""
        return self.process is None and time.monotonic() < self._start_at

    def delay_start(self, seconds: float, deaths: int = 0) -> None:
        """Delay the next start, after this number of consecutive deaths."""
        self.process, self.deaths, self._start_at = None, deaths, time.monotonic() + seconds

    def stop(self, grace_seconds: float) -> None:
        """End the process; the next `check` returns how it ended."""
        if self.process is not None:
            self.process.stop(grace_seconds)

    def _start(self) -> None:
        """Start the process, unless another relay writes to the directory: then check again later."""
        now, root = time.monotonic(), Path(self.spec.source.relay_dir)
        holder = holder_of(root)
        if holder is not None:
            if self.holder is None:
                log.info("another relay of %s is running (%s); waiting for its end", self._source_id, holder)
                self.held_since = now
            self.holder, self._start_at = holder, now + STAND_BY_SECONDS
            return
        self.holder, self.started_at = None, now
        self.process = RelayProcess.start(self.spec, self.environment, self.log_path)
        log.info("relay process %d of %s writes %s", self.process.pid, self._source_id, root)

    @property
    def _source_id(self) -> str:
        return self.spec.source.config.source_id
