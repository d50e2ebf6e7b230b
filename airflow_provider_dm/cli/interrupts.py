"""Ctrl-C and SIGTERM as a value that a loop checks: the first requests an orderly end, the second an immediate end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """The number of requests to end."""

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
        """Sleep until an interrupt occurs, or for this time. Return True if an interrupt has occurred."""
        return self._happened.wait(seconds)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Catch SIGINT and SIGTERM during a block; only in the main thread."""
    seen = Interrupts()
    before = {number: signal.signal(number, seen.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
