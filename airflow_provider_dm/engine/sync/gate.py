"""How a requested stage reaches the work on one source: open, closed for a while, or closed for good.

The beat sets the request; the work checks `closed` where it checks whether to stop: between two epochs or rounds. The
end of the whole app, by whatever request, closes it as well.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.meta.model import Stage

LOOK_SECONDS: Final = 0.2


@dataclass
class Gate:
    """The gate of one source. `ending` is the end of all work, and never taken back."""

    ending: threading.Event
    closed: threading.Event = field(default_factory=threading.Event)
    """Set while this source's work should not go on, for whatever reason."""
    wish: Stage = Stage.RUNNING

    def want(self, wish: Stage) -> None:
        """Take the requested stage: Running opens, every other one closes."""
        if wish is Stage.RUNNING:
            self.closed.clear()  # first: a reader of the request to run must not find it closed
        self.wish = wish
        if wish is not Stage.RUNNING or self.ending.is_set():  # checked last: the end of all sets that first
            self.closed.set()

    def end(self) -> None:
        """Close for good. `ending` is set already. Safe in a signal handler."""
        self.closed.set()

    @property
    def is_paused(self) -> bool:
        """Tell whether the work should wait for its resumption, and not end."""
        return self.wish is Stage.PAUSED and not self.ending.is_set()

    def wait(self) -> bool:
        """Wait while it is paused. Return True to go on, False to end."""
        while self.is_paused:
            self.ending.wait(LOOK_SECONDS)
        return not self.closed.is_set()
