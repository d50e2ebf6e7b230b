"""The safe mode of one sync at a location of its log: the state (states.py), its record in the target, its display."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow, note_window
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.safe_mode.states import (
    SafeModeAlways,
    SafeModeOff,
    SafeModeReason,
    SafeModeState,
    UntilLocation,
    state_at,
)

log = logging.getLogger(__name__)


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
        return state_at(place, always=self.always, until=self.until, window=self.window)

    def is_lenient(self, place: Location) -> bool:
        """Return True if rows after `place` that collide are overwritten and counted."""
        return self.at(place) != SafeModeOff()


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

    def to_json(self, state: SafeModeState, exit_point: Location | None) -> dict[str, Any]:
        """Return safe mode for the status. `exit_point`: the location up to which rows may be applied in part."""
        on, why, until = describe_state(state)
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


def describe_state(state: SafeModeState) -> tuple[bool, str, str]:
    """Return (whether it is on, why, until when), for people.

    >>> describe_state(SafeModeWindow(60))
    (True, 'the task started from meta or a checkpoint of DM', '60 s of log time after the first transaction')
    >>> describe_state(SafeModeAlways())
    (True, 'safe-mode: true', 'safe-mode is removed from the task file')
    """
    match state:
        case SafeModeOff():
            return False, "", ""
        case UntilLocation(location):
            return True, SafeModeReason.PAST.value, str(location)
        case SafeModeWindow(exit=None, ends_at=None, seconds=seconds):
            return True, SafeModeReason.PAST.value, f"{seconds} s of log time after the first transaction"
        case SafeModeWindow(exit=None, ends_at=ends_at):
            return (
                True,
                SafeModeReason.PAST.value,
                f"the first transaction that commits at {ends_at} (seconds since 1970) or later",
            )
        case SafeModeWindow(exit=place):
            return True, SafeModeReason.PAST.value, str(place)
        case SafeModeAlways():
            return True, SafeModeReason.CONFIGURED.value, "safe-mode is removed from the task file"
        case _:
            assert_never(state)
