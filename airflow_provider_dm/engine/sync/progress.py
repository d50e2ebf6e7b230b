"""The progress and speed of one sync, for users: counters that the loop sets and the thread of the beat reads."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.mysql.location import Location

LATELY_SECONDS: Final = 30.0
"""The interval for recent speeds, as in DM."""
_LEAST_HELD: Final = 1.0
"""The least age in seconds of rows that are held back, also if the source's clock is ahead of ours."""


@dataclass(frozen=True)
class Speed:
    """Units per second."""

    total: float
    recent: float


@dataclass
class Meter:
    """Measures the speed of counters that only grow. Thread-safe. The time before the first `record` does not count."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _records: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)
    _first: tuple[float, dict[str, int]] | None = None

    def record(self, counters: Mapping[str, int], now: float | None = None) -> dict[str, Speed]:
        """Record the values of the counters, and return the speed of each.

        >>> meter = Meter()
        >>> _ = meter.record({"rows": 0}, now=0.0)
        >>> _ = meter.record({"rows": 600}, now=60.0)
        >>> meter.record({"rows": 700}, now=70.0)["rows"]
        Speed(total=10.0, recent=10.0)
        """
        moment, here = time.monotonic() if now is None else now, dict(counters)
        with self._lock:
            self._first = self._first or (moment, here)
            self._records.append((moment, here))
            while len(self._records) > 2 and self._records[1][0] <= moment - LATELY_SECONDS:
                self._records.popleft()
            first, recent = self._first, self._records[0]
        return {
            name: Speed(_per_second(first, moment, name, value), _per_second(recent, moment, name, value))
            for name, value in here.items()
        }


def _per_second(since: tuple[float, dict[str, int]], now: float, name: str, value: int) -> float:
    seconds = now - since[0]
    return (value - since[1].get(name, 0)) / seconds if seconds > 0 else 0.0


LagPoint = tuple[int, float | None, float]
"""Time in seconds since 1970; the highest lag in seconds (None: unknown); the highest rows per second."""

RECENT_SECONDS: Final = 15
RECENT_POINTS: Final = 40
OLDER_SECONDS: Final = 240
OLDER_POINTS: Final = 90


@dataclass
class CheckpointHistory:
    """The lag and the rows per second of one sync over time, for the UI, in a bounded number of points. Thread-safe.

    It is part of the progress, because each beat replaces the run row. It has the last ten minutes in points of 15
    seconds, and six hours before them in points of four minutes.
    """

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


@dataclass
class SyncProgress:
    """The progress of one sync. Each field is replaced atomically, so another thread reads a recent value of each."""

    location: Location | None = None
    """Everything before this location is in the target."""
    goal: Location | None = None
    goal_far: str = ""
    """A message for users while the sync is caught up and its goal is in a file that the source has not begun."""
    epochs: int = 0
    transactions: int = 0
    changes: int = 0
    rows: int = 0
    """Rows that the target was asked to write or delete: fewer than changes, as those of one key are folded."""
    ddl_applied: int = 0
    """DDL statements that the target's tables have followed."""
    ddl_at: Location | None = None
    """The location of the DDL statement that is being followed; an error at this time is about this statement."""
    newest_timestamp: int | None = None
    """Commit time, in seconds since 1970, of the newest transaction or DDL applied."""
    caught_up: bool = False
    """True if the last read found no more events in the relay log."""
    master: Location | None = None
    """The end of the source's log, as last reported by the process that pulls it."""
    at_end: bool = False
    """True if, at the last check, the relay log had everything that the source had written."""
    at_end_at: float | None = None
    """The time of the last check with that result, in seconds since 1970."""
    bytes: int = 0
    """The bytes of the log that were applied or skipped."""
    left_bytes: int | None = None
    """The known bytes of the log between here and the goal or, without a goal, the source's end. None: unknown."""
    failures: int = 0
    """The number of transient errors that have stopped the sync."""
    safe_mode: dict[str, Any] = field(default_factory=dict)
    """The state of safe mode, with reason and end, and the collisions (`Collisions.to_json`)."""
    contested_rows: int = 0
    """Rows that wait for a place in a merged table that a row of another source table has."""
    contested_since: float | None = None
    """The time since which the oldest of these rows waits, in seconds since 1970; None: no row waits."""
    unresolved_groups: list[dict[str, Any]] | None = None
    """Merged tables with held-back rows, because not all shards have executed the same DDL (DM's unresolvedGroups);
    None: not read yet.
    """
    held_back_bytes: int | None = 0
    """The bytes of the log from the first held-back row to here; None: unknown."""
    resuming: str = ""
    """The last error, while the sync waits before it resumes automatically."""
    binlog_type: str = "local"
    """DM's word for the log that is read: "local" (the source's relay log) or "remote" (pulled for this task)."""

    meter: Meter = field(default_factory=Meter, repr=False)
    history: CheckpointHistory = field(default_factory=CheckpointHistory, repr=False)
    _speeds: dict[str, Speed] = field(default_factory=lambda: defaultdict(lambda: Speed(0.0, 0.0)), repr=False)

    # Set by the loop and by the reader of the log

    def begins(self, here: Location, goal: Location | None) -> None:
        """Set the start and the goal of a run."""
        self.location, self.goal, self.ddl_at = here, goal, None

    def moved(self, to: Location) -> None:
        """Set the location up to which everything is in the target."""
        self.location = to

    def read(self, epoch: Epoch) -> None:
        """Count an epoch that is applied completely."""
        self.transactions += epoch.transactions
        self.bytes += epoch.bytes
        self.newest_timestamp = epoch.newest_timestamp

    def wrote(self, changes: int, rows: int) -> None:
        """Count the changes and rows of an epoch, also of a re-sync."""
        self.epochs += 1
        self.changes += changes
        self.rows += rows

    def log_checked(self, *, caught_up: bool) -> None:
        """Set whether the end of the log is reached."""
        self.caught_up = caught_up

    def ddl_begun(self, at: Location) -> None:
        """Set the location of the DDL statement that is being followed."""
        self.ddl_at = at

    def ddl_followed(self) -> None:
        """Count the DDL statement, which the target's tables have followed."""
        self.ddl_at = None
        self.ddl_applied += 1

    def ddl_passed(self, timestamp: int) -> None:
        """Record the commit time of a DDL statement that is applied or skipped, in seconds since 1970."""
        self.newest_timestamp = max(self.newest_timestamp or 0, timestamp) or None

    def set_contested(self, rows: int, since: float | None) -> None:
        """Set the number of contested rows, and since when the oldest waits."""
        self.contested_rows, self.contested_since = rows, since

    def set_unresolved_groups(self, groups: list[dict[str, Any]]) -> None:
        """Set the merged tables with held-back rows."""
        self.unresolved_groups = groups

    def set_safe_mode(self, shown: dict[str, Any]) -> None:
        """Set the state of safe mode."""
        self.safe_mode = shown

    def set_binlog_type(self, binlog_type: str) -> None:
        """Set DM's word for the log that is read: "local" or "remote"."""
        self.binlog_type = binlog_type

    def set_source_end(self, master: Location | None, seen_at: float | None) -> None:
        """Set the end of the source's log. `seen_at`: when this log was found to have all of it; None: it has not."""
        self.master = master or self.master
        self.at_end = seen_at is not None
        self.at_end_at = seen_at if seen_at is not None else self.at_end_at

    def set_left(self, left_bytes: int | None, held_back_bytes: int | None, goal_far: str) -> None:
        """Set how many bytes are left and held back, and the message for a goal that the log has not reached."""
        self.left_bytes, self.held_back_bytes, self.goal_far = left_bytes, held_back_bytes, goal_far

    def pauses(self, why: str) -> None:
        """Count a transient error. `why`: its code and the time until the sync resumes."""
        self.resuming, self.failures = why, self.failures + 1

    def resumes(self) -> None:
        """Clear the message of `pauses`."""
        self.resuming = ""

    # Derived values

    def lag_seconds(self, now: float | None = None) -> float | None:
        """Return the age of the oldest commit whose rows may be missing in the target, or 0 if none is missing.

        None: unknown. The lag grows while the sync or the source's relay is blocked, and while rows are held back. If
        the source has no new commits, it is the time since the sync last saw the end of the source's log.
        """
        now = time.time() if now is None else now
        held = self._held_since()
        if self.holds_back and held is None:
            return None
        if self.caught_up and self.at_end and not self.holds_back:
            return 0.0
        reached = [moment for moment in (self.newest_timestamp, self.at_end_at) if moment is not None]
        known = [max(reached)] if reached else []
        known += [held] if held is not None else []
        if not known:
            return None
        return max(_LEAST_HELD if self.holds_back else 0.0, now - min(known))

    def held_back_seconds(self, now: float | None = None) -> float | None:
        """Return for how long rows have been held back; None: no row is held back, or the time is unknown.

        Counts rows after a DDL that not all shards have executed, and contested rows.
        """
        held = self._held_since()
        return None if held is None else max(_LEAST_HELD, (time.time() if now is None else now) - held)

    def _held_since(self) -> float | None:
        times = [group["since"] for group in self.unresolved_groups or ()]
        return min((time for time in (*times, self.contested_since) if time is not None), default=None)

    @property
    def holds_back(self) -> bool:
        """True if rows are held back or contested."""
        return bool(self.unresolved_groups or self.contested_rows)

    def paused(self) -> None:
        """Record that the sync no longer reads the log."""
        self.caught_up = self.at_end = False

    def beat(self) -> dict[str, Any]:
        """Measure the speed and add a point to the history. Return the progress for the run row."""
        self._speeds = self.meter.record({"rows": self.changes, "transactions": self.transactions, "bytes": self.bytes})
        self.history.note(time.time(), self.lag_seconds(), self._speeds["rows"].recent)
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the progress for the run row, with the speeds of the last `beat`."""
        speeds, lag = self._speeds, self.lag_seconds()
        pace = speeds["bytes"].recent
        return {
            "location": str(self.location) if self.location else None,
            "goal": str(self.goal) if self.goal else None,
            "goal_far": self.goal_far,
            "master": str(self.master) if self.master else None,
            "epochs": self.epochs,
            "transactions": self.transactions,
            "changes_applied": self.changes,
            "rows_written": self.rows,
            "ddl_applied": self.ddl_applied,
            "total_rps": round(speeds["rows"].total, 1),
            "recent_rps": round(speeds["rows"].recent, 1),
            "total_tps": round(speeds["transactions"].total, 1),
            "recent_tps": round(speeds["transactions"].recent, 1),
            "bytes": self.bytes,
            "bytes_per_second": round(pace),
            "left_bytes": self.left_bytes,
            "seconds_left": seconds_left(self.left_bytes, pace),
            "lag_seconds": lag,
            "caught_up": self.caught_up and self.at_end and not self.holds_back,
            "safe_mode": self.safe_mode,
            "contested_rows": self.contested_rows,
            "held_back_seconds": self.held_back_seconds(),
            "held_back_bytes": self.held_back_bytes,
            "unresolved_groups": self.unresolved_groups,
            "failures": self.failures,
            "resuming": self.resuming,
            "binlog_type": self.binlog_type,
            "history": self.history.points(),
        }


def seconds_left(left_bytes: int | None, bytes_per_second: float) -> float | None:
    """Return the estimated time for the bytes that are left, at the current speed; None: unknown.

    >>> seconds_left(1000, 200.0), seconds_left(0, 0.0), seconds_left(1000, 0.0), seconds_left(None, 9.0)
    (5.0, 0.0, None, None)
    """
    if left_bytes == 0:
        return 0.0
    return round(left_bytes / bytes_per_second, 1) if left_bytes is not None and bytes_per_second > 0 else None


def progress_line(progress: Mapping[str, Any]) -> str:
    """Format one source's progress, given as `to_json` returns it, for users.

    >>> progress_line({"location": "bin.000003:99", "changes_applied": 12000, "recent_rps": 350.4, "lag_seconds": 61.2,
    ...                "bytes": 1 << 20, "left_bytes": 3 << 20, "seconds_left": 125.0})
    'at bin.000003:99, 12,000 rows (350/s), lag 1 min 1 s, 3.0 MiB to go (25 % done), 2 min 5 s left'
    >>> progress_line({"lag_seconds": 0.0, "resuming": "DM-6001, again in 2 s"})
    '0 rows (0/s), lag 0 s, waiting: DM-6001, again in 2 s'
    >>> progress_line({"lag_seconds": 0.0, "goal_far": "the goal is after the newest file"})
    '0 rows (0/s), lag 0 s, waiting: the goal is after the newest file'
    >>> progress_line({"lag_seconds": 61.0, "held_back_seconds": 61.0, "held_back_bytes": 3 << 20,
    ...                "unresolved_groups": [{"target": "`shop`.`o`", "waits": "for s.o_2 of this source"}]})
    '0 rows (0/s), lag 1 min 1 s, held back for 1 min 1 s (3.0 MiB of log): `shop`.`o` waits for s.o_2 of this source'
    """
    parts = [f"at {progress['location']}"] if progress.get("location") else []
    parts.append(f"{progress.get('changes_applied', 0):,} rows ({progress.get('recent_rps', 0):,.0f}/s)")
    if ddl := progress.get("ddl_applied"):
        parts.append(f"{ddl:,} DDL")
    lag, left, seconds = (progress.get(key) for key in ("lag_seconds", "left_bytes", "seconds_left"))
    parts.append("lag unknown" if lag is None else f"lag {duration(lag)}")
    if left:
        done = progress.get("bytes", 0)
        parts.append(f"{left / (1 << 20):,.1f} MiB to go ({100 * done // (done + left)} % done)")
        parts += [f"{duration(seconds)} left"] if seconds is not None else []
    safe_mode = progress.get("safe_mode") or {}
    if safe_mode.get("on"):
        parts.append(f"safe mode ({safe_mode['why']})")
    if tables := safe_mode.get("collisions"):
        rows = sum(counts["missing"] + counts["present"] for counts in tables.values())
        parts.append(f"{rows:,} rows of {', '.join(sorted(tables))} collided and were overwritten")
    parts += _held_back(progress)
    if far := progress.get("goal_far"):
        parts.append(f"waiting: {far}")
    if why := progress.get("resuming"):
        parts.append(f"waiting: {why}")
    return ", ".join(parts)


def _held_back(progress: Mapping[str, Any]) -> list[str]:
    """Return one part of the line with the held-back rows, their age and their reasons; no part if there are none."""
    reasons = [
        f"{group['target']} waits {group['waits']}" if group["waits"] else f"{group['target']} is applied now"
        for group in progress.get("unresolved_groups") or ()
    ]
    if rows := progress.get("contested_rows"):
        reasons.append(f"{rows:,} rows wait for their places")
    if not reasons:
        return []
    seconds, size = progress.get("held_back_seconds"), progress.get("held_back_bytes")
    age = "" if seconds is None else f" for {duration(seconds)}"
    log = f" ({size / (1 << 20):,.1f} MiB of log)" if size else ""
    return [f"held back{age}{log}: {'; '.join(reasons)}"]


def duration(seconds: float) -> str:
    """Format a duration for users.

    >>> [duration(seconds) for seconds in (0.4, 59.7, 60, 3599, 90061)]
    ['0 s', '59 s', '1 min', '59 min 59 s', '1 d 1 h']
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for above, name, below, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= above:
            rest = whole % above // below
            return f"{whole // above} {name}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError(whole)
