"""Error numbers of MySQL, MariaDB and TiDB, grouped by whether a retry may succeed. 8xxx and 9xxx are TiDB's."""

from typing import Final

ACCESS_DENIED: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698, 3118})
"""The account lacks a privilege, or may not log in."""

CONNECTION_LOST: Final = frozenset(
    {0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1927, 2003, 2006, 2013, 2014, 2055, 4031}
)
"""The connection is unusable; whether its last statement took effect is unknown."""

LOCK_WAIT: Final = 1205
"""The session's timeout for a lock has expired."""

_TIDB_BUSY: Final = frozenset(
    {8002, 8005, 8022, 8027, 8028, 8229, 8252}  # a conflict, a schema that changed, a lock that expired, throttling
    | {8055, 8113, 8120, 8176, 8245}  # an old snapshot, another changed schema, no timestamp, the memory is full
    | {9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008, 9010, 9011}  # PD or TiKV: slow, busy, without a leader
    | {9012, 9013}  # TiFlash: slow, busy
)
"""What TiDB's reference of error codes calls temporary, or asks to retry."""
_PREPARED_GONE: Final = frozenset({1243, 1615})
"""A prepared statement is unknown, as behind a proxy, or DDL changed its table too often: it is prepared anew."""
BUSY: Final = frozenset({1020, LOCK_WAIT, 1213, 1317}) | _PREPARED_GONE | _TIDB_BUSY
"""The transaction was rolled back, or must be; the same work may succeed."""
UNKNOWN_ERROR: Final = 1105
"""TiDB's number of every error that has none of its own."""

FILE_ERRORS: Final = frozenset({1026, 1030})
"""A file of the server cannot be written; the message has the system's number."""

UNWRITABLE: Final = frozenset({1290, 1792, 1836, 1021, 1114})
"""The server is read-only (it has failed over, or is about to), or its disk is full: it may become writable again."""
