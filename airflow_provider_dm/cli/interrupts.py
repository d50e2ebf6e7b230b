"""Ctrl-C and SIGTERM as a value that a loop looks at: the first asks for an orderly end, the second for an end now."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from airflow_provider_dm.engine.errors import DmError


class Interrupted(DmError):
    command: str
    result: dict[str, Any] = field(default_factory=dict)
    """What the app under way had done until then."""

    code = "DM-9050"
    what = "{command} was interrupted; what is applied is saved."
    hint = "Run the same command again to continue."


class Interrupts:
    """A count of how often an end was asked for."""

    def __init__(self) -> None:
        self._count = 0
        self._happened = threading.Event()

    def note(self, *_signal: object) -> None:
        self._count += 1
        self._happened.set()

    def requested(self) -> bool:
        return self._count > 0

    def insisted(self) -> bool:
        return self._count > 1

    def wait(self, seconds: float) -> bool:
        """Sleep, but not through an interrupt. Returns whether one was requested."""
        return self._happened.wait(seconds)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Catch SIGINT and SIGTERM for the length of a block; only in the main thread."""
    seen = Interrupts()
    before = {number: signal.signal(number, seen.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
