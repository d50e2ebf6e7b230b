"""What a relay's row in the metadata DB tells whoever watches it from elsewhere: does it live, how has it ended.

A living relay reports every second, whatever it is doing: pulling, paused by a person, or waiting for a disk that
is full. So life is told by the heartbeat alone, never by stage or error. A relay that ends by itself leaves its last
word and takes its process id out of the row; one that was killed leaves a heartbeat that grows old. Everything here is
pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.meta.model import Json, RelayStatus, Stage

GONE_SECONDS: Final = 20.0
"""Twenty reports missed. Wrong when only the metadata DB was slow; then whoever starts another finds the directory's
lock held and goes on watching, so an error costs a look and nothing else."""

_LAST_WORDS: Final = (Stage.STOPPED, Stage.FINISHED)


@dataclass(frozen=True)
class Alive:
    """A relay that runs, whatever troubles it. `doing` is a line for the log."""

    doing: str


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
        return Alive(doing(status))
    if status.pid is None and status.error is not None:
        return Failed(status.error)
    if desired is Stage.STOPPED:
        return Stopped()
    if status.stage is Stage.STOPPED:
        return Gone("it was ended from outside, by a signal")
    return Gone(f"process {status.pid} on {status.host} has said nothing for {age_of(status):.0f} s")


def is_alive(status: RelayStatus, gone_seconds: float = GONE_SECONDS) -> bool:
    """Tell whether a process stands behind this row."""
    return status.pid is not None and status.stage not in _LAST_WORDS and age_of(status) <= gone_seconds


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


# Deaths in a row


@dataclass(frozen=True)
class Life:
    """One life of a relay, as its watcher counts: when it began (seconds since the epoch), deaths right before it."""

    began_at: float
    deaths: int = 0


def deaths_after(life: Life, ended_at: float, steady_seconds: float) -> int:
    """Return the deaths in a row with this one. A relay that lived steadily had recovered from the earlier ones."""
    return 1 if ended_at - life.began_at >= steady_seconds else life.deaths + 1
