"""The way by which a person's wish reaches the work on one source: open, closed for a while, or closed for good.

The beat sets the wish, the work looks at `closed` where it looks whether to stop: between two epochs or rounds. Closed
is also what a whole app's end is, whoever wants that.
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
        """Take the stage that people want: Running opens, every other one closes."""
        if wish is Stage.RUNNING:
            self.closed.clear()  # first: whoever sees the wish to run must not find it closed
        self.wish = wish
        if wish is not Stage.RUNNING or self.ending.is_set():  # asked last: whoever ends all sets that first
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
