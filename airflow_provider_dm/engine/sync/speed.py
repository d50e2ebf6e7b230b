"""How fast counters grow: since they began, and lately."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LATELY_SECONDS: Final = 30.0
"""DM's interval for what it calls recent."""


@dataclass(frozen=True)
class Speed:
    """Units per second."""

    total: float
    recent: float


@dataclass
class Meter:
    """A meter of counters that only grow, for any thread. Its clock begins with the first look."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looks: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)
    _first: tuple[float, dict[str, int]] | None = None

    def look(self, counters: Mapping[str, int], now: float | None = None) -> dict[str, Speed]:
        """Note where the counters are, and return the speed of each.

        >>> meter = Meter()
        >>> _ = meter.look({"rows": 0}, now=0.0)
        >>> _ = meter.look({"rows": 600}, now=60.0)
        >>> meter.look({"rows": 700}, now=70.0)["rows"]
        Speed(total=10.0, recent=10.0)
        """
        moment, here = time.monotonic() if now is None else now, dict(counters)
        with self._lock:
            self._first = self._first or (moment, here)
            self._looks.append((moment, here))
            while len(self._looks) > 2 and self._looks[1][0] <= moment - LATELY_SECONDS:
                self._looks.popleft()
            first, recent = self._first, self._looks[0]
        return {
            name: Speed(_per_second(first, moment, name, value), _per_second(recent, moment, name, value))
            for name, value in here.items()
        }


def _per_second(since: tuple[float, dict[str, int]], now: float, name: str, value: int) -> float:
    seconds = now - since[0]
    return (value - since[1].get(name, 0)) / seconds if seconds > 0 else 0.0
