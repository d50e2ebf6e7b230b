"""The errors of reading a log.

`at` is always `FILE:POSITION` of the event, as used by mysqlbinlog; an event inside a compressed transaction is
`FILE:POSITION+OFFSET`, with its offset in the unpacked contents of the event at that position.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.binlog.events import EVENTS, INCIDENT
from airflow_provider_dm.engine.errors import (
    CONTINUE_AFTER,
    MIGRATE_AGAIN,
    DescribedError,
    DmError,
    Scope,
    UpstreamError,
)

_PULL_AGAIN = f"If the source still has this file, tasks read it there automatically; otherwise {MIGRATE_AGAIN}."


class MalformedEvent(UpstreamError):
    """Bytes that no server writes: damage, or a position that is not the start of an event."""

    at: str
    reason: str

    code = "DM-3002"
    what = "the event at {at} is malformed: {reason}."
    hint = "Check that the position is the start of an event. " + _PULL_AGAIN


class ChecksumMismatch(UpstreamError):
    """The stored CRC32 of an event does not match its bytes."""

    at: str
    stored: int
    computed: int

    code = "DM-3003"
    what = "the event at {at} has the checksum {stored:#010x}, its bytes have {computed:#010x}."
    hint = _PULL_AGAIN


class ChangeNotInLog(UpstreamError):
    """A change whose rows are not in the log: logged as text, rolled back in part, or prepared before it begins.

    `at`: its location, which `found` names too.
    """

    at: str
    found: str
    remedy: str

    code = "DM-3004"
    what = "{found}"
    hint = "{remedy}"


def mixed_engine_rollback(at: str) -> ChangeNotInLog:
    return ChangeNotInLog(
        at,
        f"the transaction at {at} was rolled back after it changed a table that cannot roll back.",
        f"Compare its tables by hand, then {CONTINUE_AFTER}; use transactional engines only.",
    )


class UnsupportedFormat(UpstreamError):
    """A file that does not begin like a binlog of version 4."""

    at: str
    reason: str

    code = "DM-3008"
    what = "{at} is not a binlog of version 4: {reason}."
    hint = "Sources before MySQL 5.6 and MariaDB 5.3, and encrypted or foreign files, cannot be read."


class LocationNotInLog(UpstreamError):
    """The start location is not in the existing files."""

    at: str
    reason: str

    code = "DM-3009"
    what = "{at} is not in the log: {reason}."
    hint = "The source has lost its newest events, or the location is of another source."


class BrokenFileChain(UpstreamError):
    """A file is missing between two files of the log."""

    file: str
    expected: str
    found: str

    code = "DM-3010"
    what = "{file} must be followed by {expected}, but is followed by {found}."
    hint = "A relay file may have been removed by hand. " + _PULL_AGAIN


class EventTooLarge(UpstreamError):
    """An event beyond the limit of servers (max_allowed_packet is at most 1 GiB)."""

    at: str
    size: int

    code = "DM-3011"
    what = "the event at {at} has {size} bytes: the limit is 1 GiB, and 128 MiB for a compressed event."
    hint = f"Split the statement, or disable compression for it; apply this one by hand and {CONTINUE_AFTER}."


_LOST: Final = (
    "Everything before it is applied. The lost changes are unknown: the source's error log has the time and cause. "
    f"Compare the tables with the source's, correct what differs, and {CONTINUE_AFTER}; or {MIGRATE_AGAIN}."
)


class UnknownEvent(UpstreamError):
    """An event that must not be skipped and cannot be applied."""

    at: str
    kind: int
    name: str
    why: str

    code = "DM-3001"
    what = "the event {name} (code {kind}) at {at} cannot be applied: {why}."
    hint = f"Everything before it is applied. Make its change by hand, then {CONTINUE_AFTER}."

    @classmethod
    def of(cls, at: str, kind: int) -> UnknownEvent:
        """Return the error for event code `kind` at location `at`."""
        return cls(at, kind, EVENTS[kind].name, EVENTS[kind].why)

    def workaround(self) -> str:
        return _LOST if self.kind == INCIDENT else self.hint


class XaRowsGone(UpstreamError):
    """A prepared transaction is committed, but its rows are no longer in the log."""

    at: str
    xid: str
    prepared: str

    code = "DM-3012"
    what = (
        "the XA transaction {xid} is committed at {at}. Its rows were prepared at {prepared}, which no existing log "
        "contains any more."
    )
    hint = (
        "Everything before it is applied. If there is a copy of that file, restore it to the relay directory; "
        f"otherwise make the changes by hand and {CONTINUE_AFTER}; or {MIGRATE_AGAIN}."
    )


class PartialRowImage(UpstreamError):
    """A row event that omits columns whose values are needed."""

    at: str
    table: str
    columns: tuple[str, ...]

    code = "DM-3020"
    what = "the rows of {table} at {at} lack columns: {columns}."
    hint = (
        "Set binlog_row_image=FULL for every session of the source, leave the table out by block-allow-list, and "
        "migrate it with another task. MariaDB 11.8 omits generated columns even then, which is an error only if they "
        "are part of a key, or if the target does not compute them."
    )


class MalformedRows(UpstreamError):
    """Row images that do not match their table's columns."""

    at: str
    table: str
    reason: str

    code = "DM-3021"
    what = "the rows of {table} at {at} cannot be decoded: {reason}."
    hint = "The relay's copy is damaged, or the table had another definition at this location."


class FailoverNotFollowed(DescribedError):
    """A new server's log cannot be joined to the old server's: they have different transactions, or no GTIDs."""

    code = "DM-4045"
    scope = Scope.UPSTREAM


class OldLogNotHeld(UpstreamError):
    """The log continues in another server's, and a needed part of the old server's log is missing."""

    source: str
    here: str
    place: str
    open: str
    newer: str

    code = "DM-4068"
    what = (
        "the sync of {source} has reached {here}. Another server has taken over ({newer}), and the old server's log "
        "from there to {place} is missing: {open}, and the same locations in the new server's log are unknown."
    )
    hint = (
        "Restore the old server's relay log if there is a copy of it, or point the source to the old server again, "
        f"with a new relay-dir, until that location is passed; otherwise {MIGRATE_AGAIN}."
    )


class SchemaMismatch(UpstreamError):
    """The log's columns differ from the catalogue's."""

    at: str
    table: str
    log: str
    catalogue: str

    code = "DM-5010"
    what = "{table} has changed: at {at} the log has {log}, the known definition has {catalogue}."
    hint = (
        "Give the table's definition at this location by `dmctl binlog-schema update TASK SCHEMA TABLE FILE`, and run "
        "the task again; or begin after the DDL that changed the table."
    )


class Contradiction(Exception):
    """The table map's type differs from the catalogue's; the text is the table map's type."""


class MalformedImage(ValueError):
    """Image number `index` does not match its layout."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


class NoRows(Exception):
    """The rows of a prepared transaction, whose commit is at `position`, are not available; `why` is the reason."""

    def __init__(self, position: int, why: DmError) -> None:
        super().__init__(position, why)
        self.position = position
        self.why = why
