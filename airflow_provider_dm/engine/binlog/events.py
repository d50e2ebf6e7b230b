"""The 256 event codes with the role of each. The only module that knows codes.

The boundary scan, the row decoder, the relay writer and the reference page use this table. An undeclared code stops the
log (`EventRole.STOP` is the default), even if the event has the "ignorable" flag: servers may ignore its content, but
we do not know it. A user who knows it can skip the event by the location in the error.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from pymysqlreplication.constants import BINLOG


class EventRole(IntEnum):
    """The role of an event for the engine. Zero (STOP) is the role of undeclared codes.

    Loops and kernels compare these numbers, so new ones are only added at the end: from READER to SQL the event's body
    is read; from MAP on the event belongs to rows, and is inside a transaction unless it is a complete one (PAYLOAD).
    """

    STOP = 0  # unknown or unsupported: a typed error at its location
    PASS = 1  # no row depends on it
    READER = 2  # affects reading: format, rotate, end of file
    BOUNDARY = 3  # opens or closes a transaction
    SQL = 4  # text: BEGIN, COMMIT, DDL; row changes as text are refused
    MAP = 5  # names a table for the following rows
    ROWS = 6  # plain, compressed or as differences, depending on the code
    PAYLOAD = 7  # contains a complete transaction, whose events are in this table too


class Kind(NamedTuple):
    """One event code. STOP and PASS have a reason."""

    code: int
    name: str
    role: EventRole
    why: str = ""


# The numbers are mysql-replication's.
QUERY: Final[int] = BINLOG.QUERY_EVENT
STOP: Final[int] = BINLOG.STOP_EVENT
ROTATE: Final[int] = BINLOG.ROTATE_EVENT
FORMAT_DESCRIPTION: Final[int] = BINLOG.FORMAT_DESCRIPTION_EVENT
XID: Final[int] = BINLOG.XID_EVENT
TABLE_MAP: Final[int] = BINLOG.TABLE_MAP_EVENT
WRITE_ROWS_V1: Final[int] = BINLOG.WRITE_ROWS_EVENT_V1
UPDATE_ROWS_V1: Final[int] = BINLOG.UPDATE_ROWS_EVENT_V1
DELETE_ROWS_V1: Final[int] = BINLOG.DELETE_ROWS_EVENT_V1
HEARTBEAT: Final[int] = BINLOG.HEARTBEAT_LOG_EVENT
INCIDENT: Final[int] = BINLOG.INCIDENT_EVENT
WRITE_ROWS: Final[int] = BINLOG.WRITE_ROWS_EVENT_V2
UPDATE_ROWS: Final[int] = BINLOG.UPDATE_ROWS_EVENT_V2
DELETE_ROWS: Final[int] = BINLOG.DELETE_ROWS_EVENT_V2
GTID: Final[int] = BINLOG.GTID_LOG_EVENT
ANONYMOUS_GTID: Final[int] = BINLOG.ANONYMOUS_GTID_LOG_EVENT
PREVIOUS_GTIDS: Final[int] = BINLOG.PREVIOUS_GTIDS_LOG_EVENT
XA_PREPARE: Final[int] = BINLOG.XA_PREPARE_EVENT
PARTIAL_UPDATE_ROWS: Final[int] = BINLOG.PARTIAL_UPDATE_ROWS_EVENT
MARIADB_GTID: Final[int] = BINLOG.MARIADB_GTID_EVENT
MARIADB_GTID_LIST: Final[int] = BINLOG.MARIADB_GTID_GTID_LIST_EVENT
START_ENCRYPTION: Final[int] = BINLOG.MARIADB_START_ENCRYPTION_EVENT
# Missing there: MySQL's newer codes, and MariaDB's compressed forms of older ones.
TRANSACTION_PAYLOAD: Final = 40
HEARTBEAT_V2: Final = 41
GTID_TAGGED: Final = 42
QUERY_COMPRESSED: Final = 165
WRITE_ROWS_V1_COMPRESSED: Final = 166
UPDATE_ROWS_V1_COMPRESSED: Final = 167
DELETE_ROWS_V1_COMPRESSED: Final = 168
WRITE_ROWS_COMPRESSED: Final = 169
UPDATE_ROWS_COMPRESSED: Final = 170
DELETE_ROWS_COMPRESSED: Final = 171
GTIDS: Final = frozenset({GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID})
"""The codes that begin a transaction."""

_OBSOLETE: Final = "only servers before MySQL 5.0 write it"
_BETA: Final = "only beta versions of MySQL 5.1 wrote it"
_STATEMENT: Final = "it belongs to a statement that was logged as text: set binlog_format=ROW for every session"

DECLARED: Final = (
    Kind(BINLOG.UNKNOWN_EVENT, "UNKNOWN", EventRole.STOP, "the code of no event"),
    Kind(BINLOG.START_EVENT_V3, "START_V3", EventRole.STOP, _OBSOLETE),
    Kind(QUERY, "QUERY", EventRole.SQL),
    Kind(STOP, "STOP", EventRole.READER),
    Kind(ROTATE, "ROTATE", EventRole.READER),
    Kind(BINLOG.INTVAR_EVENT, "INTVAR", EventRole.STOP, _STATEMENT),
    Kind(BINLOG.LOAD_EVENT, "LOAD", EventRole.STOP, _OBSOLETE),
    Kind(BINLOG.SLAVE_EVENT, "SLAVE", EventRole.STOP, _OBSOLETE),
    Kind(BINLOG.CREATE_FILE_EVENT, "CREATE_FILE", EventRole.STOP, _OBSOLETE),
    Kind(BINLOG.APPEND_BLOCK_EVENT, "APPEND_BLOCK", EventRole.STOP, _STATEMENT),
    Kind(BINLOG.EXEC_LOAD_EVENT, "EXEC_LOAD", EventRole.STOP, _OBSOLETE),
    Kind(BINLOG.DELETE_FILE_EVENT, "DELETE_FILE", EventRole.STOP, _STATEMENT),
    Kind(BINLOG.NEW_LOAD_EVENT, "NEW_LOAD", EventRole.STOP, _OBSOLETE),
    Kind(BINLOG.RAND_EVENT, "RAND", EventRole.STOP, _STATEMENT),
    Kind(BINLOG.USER_VAR_EVENT, "USER_VAR", EventRole.STOP, _STATEMENT),
    Kind(FORMAT_DESCRIPTION, "FORMAT_DESCRIPTION", EventRole.READER),
    Kind(XID, "XID", EventRole.BOUNDARY),
    Kind(BINLOG.BEGIN_LOAD_QUERY_EVENT, "BEGIN_LOAD_QUERY", EventRole.STOP, _STATEMENT),
    Kind(BINLOG.EXECUTE_LOAD_QUERY_EVENT, "EXECUTE_LOAD_QUERY", EventRole.STOP, _STATEMENT),
    Kind(TABLE_MAP, "TABLE_MAP", EventRole.MAP),
    Kind(BINLOG.PRE_GA_WRITE_ROWS_EVENT, "PRE_GA_WRITE_ROWS", EventRole.STOP, _BETA),
    Kind(
        BINLOG.PRE_GA_UPDATE_ROWS_EVENT,
        "PRE_GA_UPDATE_ROWS",
        EventRole.STOP,
        "only beta versions of MySQL 5.1 wrote it",
    ),
    Kind(
        BINLOG.PRE_GA_DELETE_ROWS_EVENT,
        "PRE_GA_DELETE_ROWS",
        EventRole.STOP,
        "only beta versions of MySQL 5.1 wrote it",
    ),
    Kind(WRITE_ROWS_V1, "WRITE_ROWS_V1", EventRole.ROWS),
    Kind(UPDATE_ROWS_V1, "UPDATE_ROWS_V1", EventRole.ROWS),
    Kind(DELETE_ROWS_V1, "DELETE_ROWS_V1", EventRole.ROWS),
    Kind(INCIDENT, "INCIDENT", EventRole.STOP, "the source itself could not log what it changed (LOST_EVENTS)"),
    Kind(HEARTBEAT, "HEARTBEAT", EventRole.PASS, "shows that the connection lives"),
    Kind(BINLOG.IGNORABLE_LOG_EVENT, "IGNORABLE", EventRole.STOP, "an event of a newer server that hides its kind"),
    Kind(BINLOG.ROWS_QUERY_LOG_EVENT, "ROWS_QUERY", EventRole.PASS, "the statement's text; its rows follow"),
    Kind(WRITE_ROWS, "WRITE_ROWS", EventRole.ROWS),
    Kind(UPDATE_ROWS, "UPDATE_ROWS", EventRole.ROWS),
    Kind(DELETE_ROWS, "DELETE_ROWS", EventRole.ROWS),
    Kind(GTID, "GTID", EventRole.BOUNDARY),
    Kind(ANONYMOUS_GTID, "ANONYMOUS_GTID", EventRole.BOUNDARY),
    Kind(PREVIOUS_GTIDS, "PREVIOUS_GTIDS", EventRole.READER),
    Kind(36, "TRANSACTION_CONTEXT", EventRole.PASS, "what group replication certifies; its rows follow"),
    Kind(37, "VIEW_CHANGE", EventRole.PASS, "who belongs to the replication group"),
    Kind(XA_PREPARE, "XA_PREPARE", EventRole.BOUNDARY),
    Kind(PARTIAL_UPDATE_ROWS, "PARTIAL_UPDATE_ROWS", EventRole.ROWS),
    Kind(TRANSACTION_PAYLOAD, "TRANSACTION_PAYLOAD", EventRole.PAYLOAD),
    Kind(HEARTBEAT_V2, "HEARTBEAT_V2", EventRole.PASS, "shows that the connection lives"),
    Kind(GTID_TAGGED, "GTID_TAGGED", EventRole.BOUNDARY),
    Kind(BINLOG.MARIADB_ANNOTATE_ROWS_EVENT, "ANNOTATE_ROWS", EventRole.PASS, "the statement's text; its rows follow"),
    Kind(
        BINLOG.MARIADB_BINLOG_CHECKPOINT_EVENT,
        "BINLOG_CHECKPOINT",
        EventRole.PASS,
        "which files the source needs for its own crash recovery",
    ),
    Kind(MARIADB_GTID, "MARIADB_GTID", EventRole.BOUNDARY),
    Kind(MARIADB_GTID_LIST, "MARIADB_GTID_LIST", EventRole.READER),
    Kind(
        START_ENCRYPTION,
        "START_ENCRYPTION",
        EventRole.STOP,
        "the file is encrypted: pull it through the server, which decrypts it, and with binlog_checksum=CRC32",
    ),
    Kind(QUERY_COMPRESSED, "MARIADB_QUERY_COMPRESSED", EventRole.SQL),
    Kind(WRITE_ROWS_V1_COMPRESSED, "MARIADB_WRITE_ROWS_V1_COMPRESSED", EventRole.ROWS),
    Kind(UPDATE_ROWS_V1_COMPRESSED, "MARIADB_UPDATE_ROWS_V1_COMPRESSED", EventRole.ROWS),
    Kind(DELETE_ROWS_V1_COMPRESSED, "MARIADB_DELETE_ROWS_V1_COMPRESSED", EventRole.ROWS),
    Kind(WRITE_ROWS_COMPRESSED, "MARIADB_WRITE_ROWS_COMPRESSED", EventRole.ROWS),
    Kind(UPDATE_ROWS_COMPRESSED, "MARIADB_UPDATE_ROWS_COMPRESSED", EventRole.ROWS),
    Kind(DELETE_ROWS_COMPRESSED, "MARIADB_DELETE_ROWS_COMPRESSED", EventRole.ROWS),
    Kind(172, "MARIADB_PARTIAL_ROW_DATA", EventRole.STOP, "row events in fragments are not read yet"),
)


def every_code(declared: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return all 256 kinds; undeclared ones have STOP.

    Raises ValueError for a code that is declared twice, or lacks a required reason.
    """
    table: dict[int, Kind] = {}
    for kind in declared:
        if kind.code in table:
            raise ValueError(f"event code {kind.code} is declared twice")
        if kind.role in (EventRole.STOP, EventRole.PASS) and not kind.why:
            raise ValueError(f"event code {kind.code} has no reason")
        table[kind.code] = kind
    return tuple(table.get(code, Kind(code, f"CODE_{code}", EventRole.STOP, _UNDECLARED)) for code in range(256))


_UNDECLARED: Final = "no server that this release supports writes it"
EVENTS: Final = every_code(DECLARED)
ROLES: Final = bytes(kind.role for kind in EVENTS)
"""`DO[code]`: for hot loops and kernels; derived from the table."""
