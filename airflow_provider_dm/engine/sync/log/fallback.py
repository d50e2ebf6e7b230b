"""Fallback from the relay log to the upstream: classifies errors of reading, and reports that neither log serves.

A sync reads its source's relay log. If that cannot serve, the task pulls the binlog itself, from the same server and
the same file, until the relay log can serve again. Both have the bytes of the upstream's files under the same names, so
a location means the same in both. No log is read past a defect.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.errors import (
    BrokenFileChain,
    ChecksumMismatch,
    EventTooLarge,
    LocationNotInLog,
    MalformedEvent,
    OldLogNotHeld,
    UnknownEvent,
    UnsupportedFormat,
    XaRowsGone,
)
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Reaction, ReportedError
from airflow_provider_dm.engine.relay.errors import (
    BinlogPurged,
    GtidsPurged,
    RelayDirectoryUnusable,
    RelayFileGone,
    RelayOfAnotherServer,
    RelayStartsTooLate,
    TaskFellBehind,
    UpstreamLogDiffers,
    UpstreamSwitched,
)
from airflow_provider_dm.engine.sync.errors import BothLogsFailed, OtherUpstream, PrivateRelayEnded, RelaySilent


class Fault(Enum):
    """The meaning of an error for the log that was read."""

    LOG = "the log is damaged or incomplete"
    SUSPECT = "the log may be damaged: headers are read without checksums, so a flipped bit can cause this error"
    OTHER = "the log is not the cause"


_LOG: Final = (
    RelayFileGone,
    RelayStartsTooLate,
    RelayOfAnotherServer,
    RelayDirectoryUnusable,
    RelaySilent,
    PrivateRelayEnded,
    MalformedEvent,
    ChecksumMismatch,
    BrokenFileChain,
    LocationNotInLog,
    UnsupportedFormat,
    XaRowsGone,
    OldLogNotHeld,
)
_SUSPECT: Final = (UnknownEvent, EventTooLarge)


def unreadable(path: str, error: OSError) -> DmError:
    """Return the error for a listed file of the log that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return RelayFileGone(Path(path).name, str(Path(path).parent))
    return RelayDirectoryUnusable(path, error.strerror or str(error))


def both_logs_failed(source: str, here: str, local: DmError, upstream: DmError, *, by_gtid: bool) -> BothLogsFailed:
    """Return the error for a location that neither log can serve. `by_gtid`: a relay follows the source's failover.

    The remedies of each error assume that the other log serves, so only those are named that are still possible.
    """
    reaction = upstream.reacts()
    if is_another_server(upstream):
        workaround = f"Point the source back to the server whose log was read, or {MIGRATE_AGAIN}."
        if by_gtid:
            reaction = Reaction.RETRY  # a relay can follow a failover, and serve then
            workaround = (
                "Start the relay, if it does not run: with enable-gtid: true it continues with this server, if that "
                f"has every transaction of the former one. Else {MIGRATE_AGAIN}."
            )
    elif ReportedError.of(upstream).code in _GONE_UPSTREAM:
        workaround = (
            "The upstream has purged it, so only the relay log can serve: restore the missing files of the relay log "
            f"if there is a copy, or {MIGRATE_AGAIN}."
        )
        if isinstance(local, RelayDirectoryUnusable):
            workaround = f"The upstream has purged it, so only the relay log can serve. {local.workaround()}"
    elif isinstance(upstream, (*_LOG, *_SUSPECT)) and not isinstance(upstream, PrivateRelayEnded):
        workaround = f"The upstream sends the same bytes, so its own file is damaged: {MIGRATE_AGAIN}."
    else:
        workaround = f"The upstream may still have it. {upstream.workaround()}"
    return BothLogsFailed(source, here, _without_advice(local), _without_advice(upstream), workaround, reaction)


def is_another_server(error: DmError) -> bool:
    """Return True if the error means that the upstream is not the server whose log was read."""
    return ReportedError.of(error).code in (OtherUpstream.code, UpstreamSwitched.code)


_GONE_UPSTREAM: Final = frozenset({BinlogPurged.code, GtidsPurged.code, UpstreamLogDiffers.code, TaskFellBehind.code})


def _without_advice(error: DmError) -> str:
    return str(error).removesuffix(error.workaround()).rstrip()


def fault_of(error: DmError) -> Fault:
    """Return whether the log is the cause of an error of reading, planning or decoding."""
    if isinstance(error, _LOG):
        return Fault.LOG
    return Fault.SUSPECT if isinstance(error, _SUSPECT) else Fault.OTHER
