"""From the relay log to the upstream and back: the decision alone, without files, processes or clocks.

A sync reads its source's relay log. Where that cannot serve, the task pulls for itself, from the same server and the
same file, until the relay log can serve again. Both hold the bytes of the upstream's own files under the same names, so
a location means the same in either. Neither is ever read past something that is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Final

from airflow_provider_dm.engine.binlog.errors import (
    BrokenFileChain,
    ChecksumMismatch,
    EventTooLarge,
    LocationNotInLog,
    MalformedEvent,
    TwoPhaseAlter,
    UnsupportedFormat,
    XaTransaction,
)
from airflow_provider_dm.engine.binlog.events import UnknownEvent
from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.relay.durable import RelayDirectoryUnusable
from airflow_provider_dm.engine.relay.reader import RelayFileGone, RelayStartsTooLate
from airflow_provider_dm.engine.relay.start import UpstreamSwitched

SILENT_SECONDS: Final = 60.0
"""How long nothing may come before the loop asks whether anybody pulls, and how old a relay's sign of life may be."""


class Reading(Enum):
    """Where the sync reads. The values are DM's words, as its query-status shows them."""

    LOCAL = "local"
    UPSTREAM = "remote"


class Health(Enum):
    """Whether a log can serve the sync's location."""

    WELL = "well"
    ILL = "ill"


class Move(Enum):
    STAY = "stay"
    FALL_BACK = "fall back"
    GO_BACK = "go back"
    GIVE_UP = "give up"


MOVES: Final = {
    # reading            relay log    upstream
    (Reading.LOCAL, Health.WELL, Health.WELL): Move.STAY,
    (Reading.LOCAL, Health.WELL, Health.ILL): Move.STAY,
    (Reading.LOCAL, Health.ILL, Health.WELL): Move.FALL_BACK,
    (Reading.LOCAL, Health.ILL, Health.ILL): Move.GIVE_UP,
    (Reading.UPSTREAM, Health.WELL, Health.WELL): Move.GO_BACK,
    (Reading.UPSTREAM, Health.WELL, Health.ILL): Move.GO_BACK,
    (Reading.UPSTREAM, Health.ILL, Health.WELL): Move.STAY,
    (Reading.UPSTREAM, Health.ILL, Health.ILL): Move.GIVE_UP,
}


class Fault(Enum):
    """What an error says about the log that was read."""

    LOG = "the log is damaged, or lacks something"
    SUSPECT = "the log may be damaged: a flipped bit in a header looks like this, as headers are walked unverified"
    OTHER = "the log is right, and something else is wrong"


@dataclass(eq=False)
class RelaySilent(DmError):
    """Nothing new comes, and nobody pulls."""

    source: str
    here: str
    why: str

    code: ClassVar[str] = "DM-6041"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    reaction: ClassVar[Reaction] = Reaction.RETRY
    what: ClassVar[str] = "the relay of {source} is not pulling: {why}. The sync stands at {here}."
    hint: ClassVar[str] = "Start the relay (DmRelayOperator, or `dmctl start-relay`) and look at its log."


@dataclass(eq=False)
class NeitherServes(DmError):
    """The relay log and the upstream both failed. `reported` says how to react: as the upstream's error does."""

    source: str
    here: str
    local: str
    upstream: str
    reported: dict[str, Any]

    code: ClassVar[str] = "DM-4061"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = (
        "the sync of {source} stands at {here}, and nothing can serve it from there. Relay log: {local} "
        "Upstream: {upstream}"
    )


@dataclass(eq=False)
class OtherUpstream(DmError):
    """The server that answers is not known to be the one whose log is being read."""

    held: str
    found: str

    code: ClassVar[str] = "DM-4062"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the sync reads the log of server {held}, but server {found} answers."
    hint: ClassVar[str] = "A position means nothing on another server: repair the relay log, or migrate in full again."


@dataclass(eq=False)
class PrivateRelayEnded(DmError):
    """What pulls for this task alone has ended."""

    reported: dict[str, Any]

    code: ClassVar[str] = "DM-4063"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "[{reported[ErrCode]} {reported[ErrScope]}] {reported[Message]}"


_LOG: Final = (
    RelayFileGone,
    RelayStartsTooLate,
    RelayDirectoryUnusable,
    RelaySilent,
    PrivateRelayEnded,
    MalformedEvent,
    ChecksumMismatch,
    BrokenFileChain,
    LocationNotInLog,
    UnsupportedFormat,
)
_SUSPECT: Final = (UnknownEvent, EventTooLarge, XaTransaction, TwoPhaseAlter)


def unreadable(path: str, error: OSError) -> DmError:
    """A file of the log that was there a moment ago."""
    if isinstance(error, FileNotFoundError):
        return RelayFileGone(Path(path).name, str(Path(path).parent))
    return RelayDirectoryUnusable(path, error.strerror or str(error))


def is_another_server(error: DmError) -> bool:
    """Whether the upstream could not serve because it is not the server whose log was read."""
    if isinstance(error, PrivateRelayEnded):
        return error.reported.get("ErrCode") == UpstreamSwitched.code
    return isinstance(error, OtherUpstream)


def fault_of(error: DmError) -> Fault:
    """What an error of reading, planning or decoding says about the log."""
    if isinstance(error, _LOG):
        return Fault.LOG
    return Fault.SUSPECT if isinstance(error, _SUSPECT) else Fault.OTHER
