"""What can be wrong with a log, apart from unknown events (events.py) and tables (table_map.py).

`at` is always `FILE:POSITION` of the event, as a person would look for it with mysqlbinlog; an event inside a
compressed transaction is `FILE:POSITION+OFFSET`, the offset counted in what the event at that position holds.
"""

from __future__ import annotations

from airflow_provider_dm.engine.errors import GO_ON_BEHIND, MIGRATE_AGAIN, DmError, Scope

_PULL_AGAIN = f"If the source still has this file, tasks read it from there by themselves; else {MIGRATE_AGAIN}."


class MalformedEvent(DmError):
    """Bytes that no server writes: damage, or a position that is not the start of an event."""

    at: str
    reason: str

    code = "DM-3002"
    scope = Scope.UPSTREAM
    what = "the event at {at} is malformed: {reason}."
    hint = "Check that the position is the start of an event. " + _PULL_AGAIN


class ChecksumMismatch(DmError):
    """The stored CRC32 of an event is not that of its bytes."""

    at: str
    stored: int
    computed: int

    code = "DM-3003"
    scope = Scope.UPSTREAM
    what = "the event at {at} has the checksum {stored:#010x}, its bytes have {computed:#010x}."
    hint = _PULL_AGAIN


class StatementDml(DmError):
    """A row change logged as text; only the source could say which rows it touched. `statement`: how it begins."""

    at: str
    statement: str

    code = "DM-3004"
    scope = Scope.UPSTREAM
    what = "the change at {at} is logged as a statement, not as rows: {statement}."
    hint = (
        "Set binlog_format=ROW for every session of the source; make this change by hand if it is one of the task's "
        f"tables, and {GO_ON_BEHIND}."
    )


class MixedEngineRollback(DmError):
    """A rollback in the log, behind rows: which of them stayed depends on each table's engine."""

    at: str

    code = "DM-3005"
    scope = Scope.UPSTREAM
    what = "the transaction at {at} was rolled back after it changed a table that cannot roll back."
    hint = f"Compare its tables by hand, then {GO_ON_BEHIND}; use transactional engines only."


class UnsupportedFormat(DmError):
    """A file that does not begin as binlog version 4 does."""

    at: str
    reason: str

    code = "DM-3008"
    scope = Scope.UPSTREAM
    what = "{at} is no binlog of version 4: {reason}."
    hint = "Sources before MySQL 5.6 and MariaDB 5.3, and encrypted or foreign files, cannot be read."


class LocationNotInLog(DmError):
    """The place to start from does not lie in the files there are."""

    at: str
    reason: str

    code = "DM-3009"
    scope = Scope.UPSTREAM
    what = "{at} is not in the log: {reason}."
    hint = "The source lost its newest events, or another source's location was given."


class BrokenFileChain(DmError):
    """A file of the log is missing between two others."""

    file: str
    expected: str
    found: str

    code = "DM-3010"
    scope = Scope.UPSTREAM
    what = "behind {file} must come {expected}, but {found} does."
    hint = "A relay file was removed by hand? " + _PULL_AGAIN


class EventTooLarge(DmError):
    """An event beyond what servers send to each other (max_allowed_packet ends at 1 GiB)."""

    at: str
    size: int

    code = "DM-3011"
    scope = Scope.UPSTREAM
    what = "the event at {at} has {size} bytes: up to 1 GiB are read, 128 MiB of a compressed event."
    hint = f"Split the statement, or turn compression off for it; apply this one by hand and {GO_ON_BEHIND}."
