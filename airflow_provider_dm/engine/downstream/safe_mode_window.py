"""dm_safe_mode: the log time of subtasks whose past is not exact, and its end (sync/safe_mode/states.py).

The row is written with the subtask's start. It is updated before the part of the log that changes it is applied, so a
successor finds the state by which a half-applied epoch was written. Without a row no log time is awaited.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.location import Location, has_passed

_ROWS: Final = MetaRows("dm_safe_mode")


@dataclass(frozen=True)
class SafeModeWindow:
    """The log time of one subtask: rows may collide until a transaction commits at `ends_at`, in seconds since 1970.

    `ends_at` None: the first transaction decides. `exit`: the location at which it ends, once it is known.
    """

    seconds: int
    ends_at: int | None = None
    exit: Location | None = None

    @property
    def awaited(self) -> int | None:
        """The commit time of the next relevant transaction, which has to end its epoch; None: there is none.

        >>> SafeModeWindow(60).awaited, SafeModeWindow(60, 1060).awaited
        (0, 1060)
        >>> SafeModeWindow(60, 1060, Location("bin.000001", 300)).awaited
        """
        if self.exit is not None:
            return None
        return 0 if self.ends_at is None else self.ends_at

    def seen(self, timestamp: int, end: Location, until: Location | None) -> SafeModeWindow:
        """Return the window before a part of the log up to `end` is applied, whose newest commit has that time.
        `until`: the location before which the window must not end.

        >>> first = SafeModeWindow(60).seen(1000, Location("bin.000001", 200), None)
        >>> first.ends_at, first.seen(1059, Location("bin.000001", 300), None).exit
        (1060, None)
        >>> str(first.seen(1060, Location("bin.000001", 400), None).exit)
        'bin.000001:400'
        """
        if self.exit is not None:
            return self
        ends_at = timestamp + self.seconds if self.ends_at is None else self.ends_at
        if timestamp < ends_at:
            return replace(self, ends_at=ends_at)
        is_passed = until is None or has_passed(end, until)
        return replace(self, ends_at=ends_at, exit=end if is_passed else until)


def load_window(connection: Connection, ref: SubtaskRef) -> SafeModeWindow | None:
    """Return the awaited log time; None if no log time is awaited."""
    rows = _ROWS.select(connection, ref, "seconds, ends_at, exit_location")
    if not rows:
        return None
    ((seconds, ends_at, saved),) = rows
    place = None if saved is None else Location.from_json(json.loads(text(saved)))
    return SafeModeWindow(int(seconds), None if ends_at is None else int(ends_at), place)


def begin_window(connection: Connection, ref: SubtaskRef, seconds: int) -> None:
    """Record the log time to await, inside the transaction that starts a subtask."""
    _ROWS.delete(connection, ref)
    if seconds:
        _ROWS.put(connection, ref, "seconds", [(seconds,)], now="updated_at")


def note_window(connection: Connection, fence: Fence, window: SafeModeWindow) -> None:
    """Record the current state of the window's end, inside a transaction. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    changes = "ends_at = %s, exit_location = %s, updated_at = UTC_TIMESTAMP(6)"
    place = None if window.exit is None else json.dumps(window.exit.to_json())
    _ROWS.update(connection, fence.ref, changes, (window.ends_at, place))
