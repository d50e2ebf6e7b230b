"""Safe mode: the parts of the log in which the target's rows may differ from what the log expects.

A restart needs no safe mode: the frontier commits with the rows, so the position of each bucket is exact. If the
positions of buckets differ after a crash, the same epoch is repeated up to the furthest position (downstream/frontier,
rule 1). The states are:

    state            cause                                            ends
    SafeModeOff      the target has exactly the expected rows         -
    UntilLocation    an inexact start with an exit point              at the exit point
                     an inexact start without an exit point           at the end of the log when the task began
    Window           the same, in addition, as DM does                see below
    SafeModeAlways   the task has `safe-mode: true`                   never

An inexact start is one from `meta` or from DM's checkpoint: the target may have rows of the log that follows. With
`safe-mode-duration: 0s` a start from `meta` counts as exact. Rows that a load has copied are exact. A transaction is
first written as the log has it; if a row collides, the transaction is rolled back and written over the existing rows,
and the rows are counted (`overwriting`), in merged tables whichever source table they belong to (`last_wins`).

The window is measured in commit times of the log, so a slow target or a pause does not shorten it. It begins with the
first transaction after the start, and ends with the first transaction that committed so many seconds later, but not
before the location of UntilLocation. The end is saved in the target *before* that transaction is applied, and an epoch
ends there: a run that dies in the window resumes in it, and leaves it at the same location, wherever epochs end. Commit
times that go backwards make the window longer, never shorter.

    start 100; the log ended at 400 when the task began; 60 seconds

    place          100        200        300        400        500        600
    committed at    | 10:00:00 | 10:00:30 | 10:00:10 | 10:00:50 | 10:01:30 |
    state           UntilLocation(400) ───────────────┤ Window ──────────────┤ SafeModeOff

    The first commit sets the end time to 10:01:00. The commit at 10:01:30 ends the window: its location, 600, is saved
    as the exit; then 500..600 is applied as its last epoch. Had 200..300 committed at 10:02:00, the exit would be 400.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from airflow_provider_dm.engine.config.units import SyncerConfig
from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow
from airflow_provider_dm.engine.mysql.location import Location, has_passed


class SafeModeReason(StrEnum):
    """The reason for safe mode, for people."""

    PAST = "the task started from meta or a checkpoint of DM"
    CONFIGURED = "safe-mode: true"


@dataclass(frozen=True)
class SafeModeOff:
    """Safe mode is off: a collision stops the task."""


@dataclass(frozen=True)
class UntilLocation:
    """Rows may collide up to a location."""

    location: Location


@dataclass(frozen=True)
class SafeModeAlways:
    """Safe mode is on by configuration."""


SafeModeState: TypeAlias = SafeModeOff | UntilLocation | SafeModeWindow | SafeModeAlways


def log_seconds(syncer: SyncerConfig, *, exit_is_known: bool) -> int:
    """Return the length of the window after an inexact start, in seconds of log time, as in DM.

    It is the maximum of `safe-mode-duration` and two flush intervals; 0 with an exit point or a duration of 0s.
    """
    duration, flushes = syncer.safe_mode_duration, 2 * syncer.checkpoint_flush_interval
    return 0 if exit_is_known or duration == 0 else max(math.ceil(duration or 0), flushes)


def state_at(place: Location, *, always: bool, until: Location | None, window: SafeModeWindow | None) -> SafeModeState:
    """Return the state for the change after `place`. `until`: the end of UntilLocation."""
    if until is not None and not has_passed(place, until):
        return UntilLocation(until)
    if always:
        return SafeModeAlways()
    if window is not None and (window.exit is None or not has_passed(place, window.exit)):
        return window
    return SafeModeOff()
