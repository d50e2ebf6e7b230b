"""Errors in a log, except for unknown events (events.py) and tables (table_map.py).

`at` is always `FILE:POSITION` of the event, as used by mysqlbinlog; an event inside a compressed transaction is
`FILE:POSITION+OFFSET`, with its offset in the unpacked contents of the event at that position.
"""

from __future__ import annotations

from airflow_provider_dm.engine.errors import CONTINUE_AFTER, MIGRATE_AGAIN, DmError, Scope

_PULL_AGAIN = f"If the source still has this file, tasks read it from there by themselves; otherwise {MIGRATE_AGAIN}."


class MalformedEvent(DmError):
    """Bytes that no server writes: damage, or a position that is not the start of an event."""

    at: str
    reason: str

    code = "DM-3002"
    scope = Scope.UPSTREAM
    what = "the event at {at} is malformed: {reason}."
    hint = "Check that the position is the start of an event. " + _PULL_AGAIN


class ChecksumMismatch(DmError):
    """The stored CRC32 of an event does not match its bytes."""

    at: str
    stored: int
    computed: int

    code = "DM-3003"
    scope = Scope.UPSTREAM
    what = "the event at {at} has the checksum {stored:#010x}, its bytes have {computed:#010x}."
    hint = _PULL_AGAIN


class ChangeNotInLog(DmError):
    """A change whose rows are not in the log: logged as text, rolled back in part, or prepared before it begins.

    `at`: its location, which `found` names too.
    """

    at: str
    found: str
    way_out: str

    code = "DM-3004"
    scope = Scope.UPSTREAM
    what = "{found}"
    hint = "{way_out}"


def mixed_engine_rollback(at: str) -> ChangeNotInLog:
    return ChangeNotInLog(
        at,
        f"the transaction at {at} was rolled back after it changed a table that cannot roll back.",
        f"Compare its tables by hand, then {CONTINUE_AFTER}; use transactional engines only.",
    )


class UnsupportedFormat(DmError):
    """A file that does not begin like a binlog of version 4."""

    at: str
    reason: str

    code = "DM-3008"
    scope = Scope.UPSTREAM
    what = "{at} is not a binlog of version 4: {reason}."
    hint = "Sources before MySQL 5.6 and MariaDB 5.3, and encrypted or foreign files, cannot be read."


class LocationNotInLog(DmError):
    """The start location is not in the existing files."""

    at: str
    reason: str

    code = "DM-3009"
    scope = Scope.UPSTREAM
    what = "{at} is not in the log: {reason}."
    hint = "The source has lost its newest events, or the location is of another source."


class BrokenFileChain(DmError):
    """A file is missing between two files of the log."""

    file: str
    expected: str
    found: str

    code = "DM-3010"
    scope = Scope.UPSTREAM
    what = "{file} must be followed by {expected}, but is followed by {found}."
    hint = "A relay file may have been removed by hand. " + _PULL_AGAIN


class EventTooLarge(DmError):
    """An event beyond the limit of servers (max_allowed_packet is at most 1 GiB)."""

    at: str
    size: int

    code = "DM-3011"
    scope = Scope.UPSTREAM
    what = "the event at {at} has {size} bytes: the limit is 1 GiB, and 128 MiB for a compressed event."
    hint = f"Split the statement, or disable compression for it; apply this one by hand and {CONTINUE_AFTER}."
