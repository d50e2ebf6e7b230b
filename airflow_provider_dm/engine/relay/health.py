"""The state of a relay process, derived from its row in the metadata DB: whether it is alive, and how it has ended.

A living relay reports every second, in every state: while pulling, while a user has paused it, or while it waits for
a full disk. So only the heartbeat shows whether it is alive, not the stage or the error. A relay that ends by itself
writes a final report and removes its process id from the row; one that was killed leaves an ageing heartbeat.
Everything here is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.meta.records import Json, RelayStatus, Stage
from airflow_provider_dm.engine.mysql.location import Location, Order, compare

REPORT_SECONDS: Final = 1.0
"""Interval of a living relay's reports. Every age below is measured from the last report."""
HANDOVER_SECONDS: Final = 6.0
"""Maximum age at which a row describes the holder of the directory's lock: an older row is of a relay that has ended or
hangs."""
FRESH_SECONDS: Final = 10.0
"""Maximum age for a relay that must act now (obey, serve a returning sync, prevent a private relay from reporting): ten
reports, because the metadata DB may answer late."""
GONE_SECONDS: Final = 20.0
"""A relay without a report for longer is restarted, and shown as stopped. That is wrong if only the metadata DB was
slow; the watcher that starts another relay then finds the directory locked and keeps watching."""
SILENT_SECONDS: Final = 60.0
"""A sync continues without a relay that is silent for longer, and a sensor reports it: by then a watcher has had time
to restart the relay, so that a restart does not count as an outage."""

_FINAL_STAGES: Final = (Stage.STOPPED, Stage.FINISHED)


@dataclass(frozen=True)
class RelayAlive:
    """A running relay, with or without an error."""


@dataclass(frozen=True)
class AskedToStop:
    """A relay that has ended on request."""


@dataclass(frozen=True)
class RelayCaughtUp:
    """A relay that has ended because it has caught up."""


@dataclass(frozen=True)
class RelayFailure:
    """A relay that has ended with a typed error (`errors.describe`)."""

    error: Json


@dataclass(frozen=True)
class RelayGone:
    """A relay whose process has ended without a request: it was killed, or its machine is down."""

    why: str


RelayState = RelayAlive | AskedToStop | RelayCaughtUp | RelayFailure | RelayGone


def relay_state(status: RelayStatus | None, desired: Stage | None) -> RelayState:
    """Return the state of the process, from its row and the desired stage."""
    if status is None:
        return RelayGone("no relay has ever reported")
    if status.stage is Stage.FINISHED:
        return RelayCaughtUp()
    if status.stage is not Stage.STOPPED and is_alive(status):
        return RelayAlive()
    if status.pid is None and status.error is not None:
        return RelayFailure(status.error)
    if desired is Stage.STOPPED:
        return AskedToStop()
    if status.stage is Stage.STOPPED:
        return RelayGone("it was ended from outside, by a signal")
    return RelayGone(f"process {status.pid} on {status.host} has not reported for {age_of(status):.0f} s")


def is_alive(status: RelayStatus | None, within_seconds: float = GONE_SECONDS) -> bool:
    """Return True if the row's process has not ended and has reported within this time."""
    if status is None or status.pid is None or status.stage in _FINAL_STAGES:
        return False
    return age_of(status) <= within_seconds


def age_of(status: RelayStatus) -> float:
    """Return the seconds since the last report."""
    return status.heartbeat_age_seconds or 0.0


def doing(status: RelayStatus) -> str:
    """Return one line: stage, location, and the error after which it will resume."""
    where = f"{status.stage.value} at {status.relay or 'its start'}, source at {status.master or 'an unknown place'}"
    return f"{where}; resumes automatically after {error_text(status.error)}" if status.error else where


def error_text(error: Json | None) -> str:
    """Return the text of an error (`errors.describe`) in one line."""
    known = error or {}
    return f"[{known.get('ErrCode', '?')}] {known.get('Message', known)}"


# Questions of a sync that reads the relay log


def sees_source(status: RelayStatus | None) -> bool:
    """Return True if the end of the source's log in the relay's row is recent. A relay that cannot reach the source, or
    write its log, reports the end that it knew before.
    """
    return status is not None and status.error is None and is_alive(status, FRESH_SECONDS)


def is_pulling(status: RelayStatus | None) -> bool:
    """Return True if the relay is pulling, so that the relay log grows."""
    return status is not None and sees_source(status) and _runs(status)


def silence(status: RelayStatus | None) -> str | None:
    """Return why the relay is not pulling, according to its row; None if it is."""
    if status is None or status.heartbeat_age_seconds is None:
        return "none has ever reported"
    if status.error is not None:
        return str(status.error.get("Message", "it has an error"))
    if status.pid is None:
        return f"it has ended ({status.stage.value})"
    return f"its last report is {age_of(status):.0f} s old" if age_of(status) > SILENT_SECONDS else None


def is_past(status: RelayStatus | None, here: Location, since_we_read: float) -> bool:
    """Return True if a living relay has pulled more than `here`: then its files must contain it too.

    `since_we_read`: seconds since our reading began. An older row may be of a relay that has died and whose directory
    has been replaced since.
    """
    if status is None or status.relay is None or not _is_younger(status, min(FRESH_SECONDS, since_we_read)):
        return False
    return _runs(status) and compare(status.relay, here) is Order.AFTER


def has_relay_ended(status: RelayStatus | None, since_we_read: float) -> bool:
    """Return True if the relay has reported, after our reading began, that it has ended or waits for a user's action.
    An older row may be of a relay that has been restarted since.
    """
    if status is None or not _is_younger(status, since_we_read):
        return False
    return status.pid is None or (status.stage is Stage.PAUSED and status.error is not None)


def _runs(status: RelayStatus) -> bool:
    return status.stage is Stage.RUNNING


def _is_younger(status: RelayStatus, seconds: float) -> bool:
    return status.heartbeat_age_seconds is not None and status.heartbeat_age_seconds < seconds


# Consecutive deaths

STEADY_SECONDS: Final = 60.0
"""A relay that has lived this long has recovered: its earlier deaths do not count."""


@dataclass(frozen=True)
class RelayStart:
    """The start of a relay process, in seconds since the epoch, and the number of consecutive deaths before it."""

    began_at: float
    deaths: int = 0


def deaths_after(life: RelayStart, ended_at: float) -> int:
    """Return the number of consecutive deaths including this one."""
    return 1 if ended_at - life.began_at >= STEADY_SECONDS else life.deaths + 1
