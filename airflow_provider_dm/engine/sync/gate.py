"""The gate passes a requested stage (Running, Paused, Stopped) to the work on one source.

The app's heartbeat sets the request; the work checks `closed` between two epochs or rounds. The end of the whole app
closes the gate as well.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.meta.records import Stage

GATE_POLL_SECONDS: Final = 0.2


@dataclass
class Gate:
    """The gate of one source. `ending`: set when the app ends, never cleared."""

    ending: threading.Event
    closed: threading.Event = field(default_factory=threading.Event)
    """Set while the work on this source must not continue."""
    requested: Stage = Stage.RUNNING

    def request(self, requested: Stage) -> None:
        """Set the requested stage: Running opens the gate, every other stage closes it."""
        if requested is Stage.RUNNING:
            self.closed.clear()  # before `requested`: a reader of the request Running must not find the gate closed
        self.requested = requested
        if requested is not Stage.RUNNING or self.ending.is_set():  # checked last, as `ending` is set before `end()`
            self.closed.set()

    def end(self) -> None:
        """Close the gate for good, after `ending` was set. Safe in a signal handler."""
        self.closed.set()

    @property
    def is_paused(self) -> bool:
        """True if the work should wait to be resumed, instead of ending."""
        return self.requested is Stage.PAUSED and not self.ending.is_set()

    def wait(self) -> bool:
        """Wait while a pause is requested. Return True to continue, False to end."""
        while self.is_paused:
            self.ending.wait(GATE_POLL_SECONDS)
        return not self.closed.is_set()
