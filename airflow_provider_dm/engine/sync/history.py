"""The history of one sync for the UI: its lag and rows per second over time, in a bounded number of points.

The history is part of the progress, because each beat replaces the run row. It has the last ten minutes in points of 15
seconds, and six hours before them in points of four minutes.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

LagPoint = tuple[int, float | None, float]
"""Time in seconds since 1970; the highest lag in seconds (None: unknown); the highest rows per second."""

RECENT_SECONDS: Final = 15
RECENT_POINTS: Final = 40
OLDER_SECONDS: Final = 240
OLDER_POINTS: Final = 90


@dataclass
class CheckpointHistory:
    """The points of the last hours. Thread-safe."""

    _recent: deque[LagPoint] = field(default_factory=lambda: deque(maxlen=RECENT_POINTS))
    _older: deque[LagPoint] = field(default_factory=lambda: deque(maxlen=OLDER_POINTS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, now: float, lag_seconds: float | None, rows_per_second: float) -> None:
        """Add one measurement.

        >>> history = CheckpointHistory()
        >>> for second in range(0, 60, 5):
        ...     history.note(1010 * 15 + second, float(second), 2.0)
        >>> history.points()
        [(15150, 10.0, 2.0), (15165, 25.0, 2.0), (15180, 40.0, 2.0), (15195, 55.0, 2.0)]
        """
        with self._lock:
            for points, width in ((self._recent, RECENT_SECONDS), (self._older, OLDER_SECONDS)):
                begin = int(now // width) * width
                lag = None if lag_seconds is None else round(lag_seconds, 1)
                rate = round(rows_per_second, 1)
                if points and points[-1][0] == begin:
                    _, lag_before, rate_before = points.pop()
                    lag = max((seconds for seconds in (lag_before, lag) if seconds is not None), default=None)
                    rate = max(rate_before, rate)
                points.append((begin, lag, rate))

    def points(self) -> list[LagPoint]:
        """Return all points, the oldest first; where both resolutions have a time, the finer point.

        While there are fewer than RECENT_POINTS finer points, they are the whole history: a coarser point would begin
        before the sync.
        """
        with self._lock:
            recent, older = list(self._recent), list(self._older)
        if len(recent) < RECENT_POINTS:
            return recent
        return [point for point in older if point[0] < recent[0][0]] + recent
