"""Safe mode: the parts of the log in which the target's rows may differ from what the log expects.

A restart needs no safe mode: the frontier commits with the rows, so the position of each bucket is exact. If the
positions of buckets differ after a crash, the same epoch is repeated up to the furthest position (downstream/frontier,
rule 1). The states are:

    state            cause                                            ends
    OFF              the target has exactly the expected rows         -
    UNTIL_LOCATION   an inexact start with an exit point              at the exit point
                     an inexact start without an exit point           at the end of the log when the task began
    WINDOW           the same, in addition, as DM does                see below
    ALWAYS           the task has `safe-mode: true`                   never

An inexact start is one from `meta` or from DM's checkpoint: the target may have rows of the log that follows. With
`safe-mode-duration: 0s` a start from `meta` counts as exact. Rows that a load has copied are exact. A transaction is
first written as the log has it; if a row collides, the transaction is rolled back and written over the existing rows,
and the rows are counted (`overwriting`), in merged tables also those of other source tables (`last_wins`).

The window is measured in commit times of the log, so a slow target or a pause does not shorten it. It begins with the
first transaction after the start, and ends with the first transaction that committed after that duration, but not
before the location of UNTIL_LOCATION. The end is saved in the target *before* that transaction is applied, and an epoch
ends there: a run that dies in the window resumes in it, and leaves it at the same location, independent of the ends of
epochs. Commit times that go backwards make the window longer, never shorter.

    start 100; the log ended at 400 when the task began; 60 seconds

    place          100        200        300        400        500        600
    committed at    | 10:00:00 | 10:00:30 | 10:00:10 | 10:00:50 | 10:01:30 |
    state           UNTIL_LOCATION (400) ─────────────┤ WINDOW ──────────────┤ OFF

    The first commit sets the end time to 10:01:00. The commit at 10:01:30 ends the window: its location, 600, is saved
    as the exit; then 500..600 is applied as its last epoch. Had 200..300 committed at 10:02:00, the exit would be 400.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.config.units import SyncerConfig
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow, note_window
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.mysql.location import Location, has_passed
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision

log = logging.getLogger(__name__)

_PAST: Final = "the task started from meta or a checkpoint of DM"


class SafeModeState(Enum):
    """The state of safe mode for the changes after one location."""

    OFF = auto()
    """A collision stops the task."""
    UNTIL_LOCATION = auto()
    WINDOW = auto()
    ALWAYS = auto()


def log_seconds(syncer: SyncerConfig, *, exit_is_known: bool) -> int:
    """Return the length of the window after an inexact start, in seconds of log time, as in DM.

    It is the maximum of `safe-mode-duration` and two flush intervals; 0 with an exit point or a duration of 0s.
    """
    duration, flushes = syncer.safe_mode_duration, 2 * syncer.checkpoint_flush_interval
    return 0 if exit_is_known or duration == 0 else max(math.ceil(duration or 0), flushes)


@dataclass(frozen=True)
class SafeMode:
    """The safe mode of one sync at one location of its log.

    `always`: `safe-mode: true`. `until`: where an inexact start ends. `window`: its length in log time.
    """

    always: bool = False
    until: Location | None = None
    window: SafeModeWindow | None = None

    @property
    def until_time(self) -> int | None:
        """See `plan_epoch`."""
        return None if self.window is None else self.window.awaited

    @property
    def exit(self) -> Location | None:
        """The location at which the window ends, which an epoch must not cross; None: no window, or not known yet."""
        return None if self.window is None else self.window.exit

    @property
    def ends(self) -> list[Location]:
        """The known locations at which safe mode may end."""
        return [place for place in (self.until, self.exit) if place is not None]

    def seen(self, planned: Planned) -> SafeMode:
        """Return the safe mode after a piece of the log, with its commit times."""
        if self.window is None:
            return self
        match planned:
            case Epoch(hi=end, newest_timestamp=timestamp) | DdlStatement(end=end, timestamp=timestamp):
                return replace(self, window=self.window.seen(timestamp, end, self.until))
            case UpToDate():
                return self
            case _:
                assert_never(planned)

    def at(self, place: Location) -> SafeModeState:
        """Return the state for the log after `place`."""
        if self.until is not None and not has_passed(place, self.until):
            return SafeModeState.UNTIL_LOCATION
        if self.always:
            return SafeModeState.ALWAYS
        if self.window is not None and (self.exit is None or not has_passed(place, self.exit)):
            return SafeModeState.WINDOW
        return SafeModeState.OFF

    def described(self, place: Location) -> tuple[bool, str, str]:
        """Return (whether it is on after `place`, why, until when), for users.

        >>> here = Location("bin.000001", 4)
        >>> SafeMode(window=SafeModeWindow(60)).described(here)
        (True, 'the task started from meta or a checkpoint of DM', '60 s of log time after the first transaction')
        >>> SafeMode(always=True).described(here)
        (True, 'safe-mode: true', 'safe-mode is removed from the task file')
        """
        match self.at(place), self.window:
            case SafeModeState.OFF, _:
                return False, "", ""
            case SafeModeState.ALWAYS, _:
                return True, "safe-mode: true", "safe-mode is removed from the task file"
            case SafeModeState.WINDOW, SafeModeWindow(exit=None, ends_at=None, seconds=seconds):
                return True, _PAST, f"{seconds} s of log time after the first transaction"
            case SafeModeState.WINDOW, SafeModeWindow(exit=None, ends_at=ends_at):
                end = f"the first transaction that commits at {ends_at} (seconds since 1970) or later"
                return True, _PAST, end
            case state, _:
                return True, _PAST, str(self.exit if state is SafeModeState.WINDOW else self.until)

    def is_lenient(self, place: Location) -> bool:
        """Return True if rows after `place` that collide are overwritten and counted."""
        return self.at(place) is not SafeModeState.OFF


def save_window(transactions: Transactions, fence: Fence, before: SafeMode, planned: Planned) -> SafeMode:
    """Return the safe mode after a piece of the log, and save its window in the target before the piece is applied.

    Raises Fenced, TargetWentBack.
    """
    after = before.seen(planned)
    if after.window is not None and after != before:
        window = after.window
        transactions(lambda connection: note_window(connection, fence, window))
    return after


@dataclass
class Collisions:
    """The rows of one source that were overwritten since its run began."""

    source: str
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By table; for a merged table also by source table (`by`), with all its source tables (`fed_by`)."""

    def add(self, collisions: Iterable[Collision], feeders: Callable[[], Iterable[Feeder]]) -> None:
        """Count overwritten rows. `feeders`: returns the source tables of the task; called for merged tables only."""
        merged: set[str] = set()
        for collision in collisions:
            was = self.counts.get(collision.table, {})
            now = was | _plus(was, collision)
            name = f"{self.source}:{collision.by}" if collision.by else ""
            if collision.by:
                merged.add(collision.table)
                by = now.get("by", {})
                now["by"] = by | {name: _plus(by.get(name, {}), collision)}
            if not was:
                log.warning("%s: rows collide and are overwritten; query-status shows how many", collision.table)
            self.counts = {**self.counts, collision.table: now}
        known = list(feeders()) if merged else []
        for table in merged:
            fed_by = sorted(f"{feeder.source}:{feeder.table}" for feeder in known if str(feeder.target) == table)
            self.counts = {**self.counts, table: self.counts[table] | {"fed_by": fed_by}}

    def to_json(self, described: tuple[bool, str, str], exit_point: Location | None) -> dict[str, Any]:
        """Return safe mode for the status. `described`: see `SafeMode.described`. `exit_point`: the location up to
        which rows may be applied in part."""
        on, why, until = described
        return {
            "on": on,
            "why": why,
            "until": until,
            "exit_point": None if exit_point is None else str(exit_point),
            "collisions": self.counts,
        }


def _plus(counts: dict[str, Any], collision: Collision) -> dict[str, int]:
    return {
        "missing": counts.get("missing", 0) + collision.missing,
        "present": counts.get("present", 0) + collision.present,
    }
