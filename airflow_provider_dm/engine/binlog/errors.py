"""What can be wrong with a log, apart from unknown events (events.py) and tables (table_map.py).

`at` is always `FILE:POSITION` of the event, as a person would look for it with mysqlbinlog; an event inside a
compressed transaction is `FILE:POSITION+OFFSET`, the offset counted in what the event at that position holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import GO_ON_BEHIND, MIGRATE_AGAIN, DmError, Scope

_PULL_AGAIN = f"If the source still has this file, tasks read it from there by themselves; else {MIGRATE_AGAIN}."


@dataclass(eq=False)
class MalformedEvent(DmError):
    """Bytes that no server writes: damage, or a position that is not the start of an event."""

    at: str
    reason: str

    code: ClassVar[str] = "DM-3002"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the event at {at} is malformed: {reason}."
    hint: ClassVar[str] = "Check that the position is the start of an event. " + _PULL_AGAIN


@dataclass(eq=False)
class ChecksumMismatch(DmError):
    """The stored CRC32 of an event is not that of its bytes."""

    at: str
    stored: int
    computed: int

    code: ClassVar[str] = "DM-3003"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the event at {at} has the checksum {stored:#010x}, its bytes have {computed:#010x}."
    hint: ClassVar[str] = _PULL_AGAIN


@dataclass(eq=False)
class StatementDml(DmError):
    """A row change logged as text; only the source could say which rows it touched. `statement`: how it begins."""

    at: str
    statement: str

    code: ClassVar[str] = "DM-3004"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the change at {at} is logged as a statement, not as rows: {statement}."
    hint: ClassVar[str] = (
        "Set binlog_format=ROW for every session of the source; make this change by hand if it is one of the task's "
        f"tables, and {GO_ON_BEHIND}."
    )


@dataclass(eq=False)
class MixedEngineRollback(DmError):
    """A rollback in the log, behind rows: which of them stayed depends on each table's engine."""

    at: str

    code: ClassVar[str] = "DM-3005"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the transaction at {at} was rolled back after it changed a table that cannot roll back."
    hint: ClassVar[str] = f"Compare its tables by hand, then {GO_ON_BEHIND}; use transactional engines only."


@dataclass(eq=False)
class UnsupportedFormat(DmError):
    """A file that does not begin as binlog version 4 does."""

    at: str
    reason: str

    code: ClassVar[str] = "DM-3008"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "{at} is no binlog of version 4: {reason}."
    hint: ClassVar[str] = "Sources before MySQL 5.6 and MariaDB 5.3, and encrypted or foreign files, cannot be read."


@dataclass(eq=False)
class LocationNotInLog(DmError):
    """The place to start from does not lie in the files there are."""

    at: str
    reason: str

    code: ClassVar[str] = "DM-3009"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "{at} is not in the log: {reason}."
    hint: ClassVar[str] = "The source lost its newest events, or another source's location was given."


@dataclass(eq=False)
class BrokenFileChain(DmError):
    """A file of the log is missing between two others."""

    file: str
    expected: str
    found: str

    code: ClassVar[str] = "DM-3010"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "behind {file} must come {expected}, but {found} does."
    hint: ClassVar[str] = "A relay file was removed by hand? " + _PULL_AGAIN


@dataclass(eq=False)
class EventTooLarge(DmError):
    """An event beyond what servers send to each other (max_allowed_packet ends at 1 GiB)."""

    at: str
    size: int

    code: ClassVar[str] = "DM-3011"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the event at {at} has {size} bytes: up to 1 GiB are read, 128 MiB of a compressed event."
    hint: ClassVar[str] = (
        f"Split the statement, or turn compression off for it; apply this one by hand and {GO_ON_BEHIND}."
    )
