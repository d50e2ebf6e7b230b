"""What a relay's row in the metadata DB tells whoever looks at it: does it live, where does it stand, how has it ended.

A living relay reports every second, whatever it is doing: pulling, paused by a person, or waiting for a disk that
is full. So life is told by the heartbeat alone, never by stage or error. A relay that ends by itself leaves its last
word and takes its process id out of the row; one that was killed leaves a heartbeat that grows old. Everything here is
pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.meta.model import Json, RelayStatus, Stage
from airflow_provider_dm.engine.mysql.location import Location, Order, compare

REPORT_SECONDS: Final = 1.0
"""A living relay reports so often. Every age below is counted from its last report."""
HANDOVER_SECONDS: Final = 6.0
"""The age up to which a row speaks for whoever holds the directory's lock: an older one is of a relay that has ended,
or hangs."""
FRESH_SECONDS: Final = 10.0
"""A relay that is to do something now (obey, serve a sync that comes back to it, keep a private one from reporting)
must have reported within this time: ten reports, as a metadata DB may answer late."""
GONE_SECONDS: Final = 20.0
"""A relay that is silent for longer is started again, and shown as stopped. Wrong when only the metadata DB was slow;
then whoever starts another finds the directory's lock held and goes on watching: an error costs a look."""
SILENT_SECONDS: Final = 60.0
"""A sync does without a relay that is silent for longer, and a sensor says that it is: a watcher has had time to start
it again by then, so that a restart is not taken for an outage."""

_LAST_WORDS: Final = (Stage.STOPPED, Stage.FINISHED)


@dataclass(frozen=True)
class Alive:
    """A relay that runs, whatever troubles it."""


@dataclass(frozen=True)
class Stopped:
    """A relay that has ended, and was asked to."""


@dataclass(frozen=True)
class Finished:
    """A relay that has ended because it had caught up."""


@dataclass(frozen=True)
class Failed:
    """A relay that has ended with a typed error, as `errors.describe` writes one."""

    error: Json


@dataclass(frozen=True)
class Gone:
    """A relay whose process is no more, and nobody asked for that: killed, or its machine is down."""

    why: str


Seen = Alive | Stopped | Finished | Failed | Gone


def seen(status: RelayStatus | None, desired: Stage | None, gone_seconds: float = GONE_SECONDS) -> Seen:
    """Return what the row says about the process, read together with the stage that people want it to have."""
    if status is None:
        return Gone("no relay has ever reported")
    if status.stage is Stage.FINISHED:
        return Finished()
    if status.stage is not Stage.STOPPED and is_alive(status, gone_seconds):
        return Alive()
    if status.pid is None and status.error is not None:
        return Failed(status.error)
    if desired is Stage.STOPPED:
        return Stopped()
    if status.stage is Stage.STOPPED:
        return Gone("it was ended from outside, by a signal")
    return Gone(f"process {status.pid} on {status.host} has said nothing for {age_of(status):.0f} s")


def is_alive(status: RelayStatus | None, within_seconds: float = GONE_SECONDS) -> bool:
    """Tell whether a process stands behind this row, which has reported within that time."""
    if status is None or status.pid is None or status.stage in _LAST_WORDS:
        return False
    return age_of(status) <= within_seconds


def age_of(status: RelayStatus) -> float:
    """Return the seconds since the last report."""
    return status.heartbeat_age_seconds or 0.0


def doing(status: RelayStatus) -> str:
    """Return one line: stage, place, and what it waits for."""
    where = f"{status.stage.value} at {status.relay or 'its start'}, source at {status.master or 'an unknown place'}"
    return f"{where}; goes on by itself after {said(status.error)}" if status.error else where


def said(error: Json | None) -> str:
    """Return an error as `errors.describe` writes it, in one line."""
    known = error or {}
    return f"[{known.get('ErrCode', '?')}] {known.get('Message', known)}"


# What a sync asks that reads the relay log


def is_pulling(status: RelayStatus | None) -> bool:
    """Tell whether somebody makes the relay log grow."""
    return status is not None and is_alive(status, FRESH_SECONDS) and status.error is None and _runs(status)


def silence(status: RelayStatus | None) -> str | None:
    """Return why nobody pulls, as far as the row tells; None: somebody does."""
    if status is None or status.heartbeat_age_seconds is None:
        return "none has ever reported"
    if status.error is not None:
        return str(status.error.get("Message", "it has an error"))
    if status.pid is None:
        return f"it has ended ({status.stage.value})"
    return f"its last sign of life is {age_of(status):.0f} s old" if age_of(status) > SILENT_SECONDS else None


def is_past(status: RelayStatus | None, here: Location, since_we_read: float) -> bool:
    """Tell whether a living relay has more than `here`: then its files must have it too.

    A row from before we began to read, so many seconds ago, may be of one that has died, with a directory that is
    another one by now.
    """
    if status is None or status.relay is None or not _is_younger(status, min(FRESH_SECONDS, since_we_read)):
        return False
    return _runs(status) and compare(status.relay, here) is Order.AFTER


def has_ended(status: RelayStatus | None, since_we_read: float) -> bool:
    """Tell whether the relay said after we began to read that it has ended, or that it waits for a person: a row from
    before may be of one that has been started again since.
    """
    if status is None or not _is_younger(status, since_we_read):
        return False
    return status.pid is None or (status.stage is Stage.PAUSED and status.error is not None)


def _runs(status: RelayStatus) -> bool:
    return status.stage is Stage.RUNNING


def _is_younger(status: RelayStatus, seconds: float) -> bool:
    return status.heartbeat_age_seconds is not None and status.heartbeat_age_seconds < seconds


# Deaths in a row

STEADY_SECONDS: Final = 60.0
"""A relay that lived so long has recovered: its earlier deaths are forgotten."""


@dataclass(frozen=True)
class Life:
    """One life of a relay, as its watcher counts: when it began (seconds since the epoch), deaths right before it."""

    began_at: float
    deaths: int = 0


def deaths_after(life: Life, ended_at: float) -> int:
    """Return the deaths in a row with this one."""
    return 1 if ended_at - life.began_at >= STEADY_SECONDS else life.deaths + 1
