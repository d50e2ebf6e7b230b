"""Safe mode: in which pieces of the log rows may be otherwise than the log says, and changes are written all the same.

A restart of our own needs none: the frontier commits with the rows, so what a bucket has is known exactly. Where their
positions differ after an unclean stop (`target.frontier`, rule 1), the furthest of them is the exit point, up to which
the very same epoch is repeated. What remains:

    state            why                                              left
    Off              the log is exact                                 -
    UntilLocation    a past that is not exact, with an exit point     there
                     a past that is not exact, without one            where the log ended when the task began
    Window           the same, without one: what DM does besides      see below
    Always           the task has `safe-mode: true`                   never

A load has none of these states: what it covers is exact. A transaction is first written as the log has it; if a row
collides, it is written over and counted (`overwriting`), in merged tables whichever source table it is of
(`last_wins`).

A start with `meta` and `safe-mode-duration: 0s` is exact: it has none of these states.

Log time is that of the events, not of the clock: a slow target or a pause makes nothing of it go by. The window begins
with the first transaction behind the start. It ends with the first one that committed so many seconds later, and never
in front of the location, behind which nothing of the past can be left: so it is not time that decides what is safe.
Where it ends is noted in the target *before* that transaction is applied, and an epoch ends there: a run that dies in
the window resumes in it, and leaves it at the same place, however epochs are cut. Time that goes back in the log makes
the window longer, never shorter.

    start 100; the log ended at 400 when the task began; 60 seconds

    place          100        200        300        400        500        600
    committed at    | 10:00:00 | 10:00:30 | 10:00:10 | 10:00:50 | 10:01:30 |
    state           UntilLocation(400) ───────────────┤ Window ──────────────┤ Off

    The first commit makes it 10:01:00. What commits at 10:01:30 ends it: its end, 600, is noted as the exit, then
    500..600 is applied, the last epoch of the window. Had 200..300 committed at 10:02:00, the exit would be 400.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from airflow_provider_dm.engine.config.units import SyncerConfig
from airflow_provider_dm.engine.downstream.safe_mode_window import Window
from airflow_provider_dm.engine.mysql.location import Location, has_passed


class Why(StrEnum):
    """The reason for which it is on, as the status shows it."""

    PAST = "the task began in a past that is not exact"
    CONFIGURED = "safe-mode: true"


@dataclass(frozen=True)
class Off:
    """The log is exact, and what does not fit stops the task."""


@dataclass(frozen=True)
class UntilLocation:
    """Rows may collide up to a place."""

    location: Location


@dataclass(frozen=True)
class Always:
    """The user wants it so."""


State: TypeAlias = Off | UntilLocation | Window | Always


def log_seconds(syncer: SyncerConfig, *, exit_is_known: bool) -> int:
    """Return how much log time is to go by for a past that is not exact: the longer of what is configured and two flush
    intervals. None with an exit point, and none for a `safe-mode-duration` of 0s, as in DM.
    """
    duration, flushes = syncer.safe_mode_duration, 2 * syncer.checkpoint_flush_interval
    return 0 if exit_is_known or duration == 0 else max(math.ceil(duration or 0), flushes)


def state_at(place: Location, *, always: bool, until: Location | None, window: Window | None) -> State:
    """Return the state in which the change behind `place` is written. `until`: the end of the location's part."""
    if until is not None and not has_passed(place, until):
        return UntilLocation(until)
    if always:
        return Always()
    if window is not None and (window.exit is None or not has_passed(place, window.exit)):
        return window
    return Off()
