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

BUSY: Final = frozenset({1020, LOCK_WAIT, 1213, 1317, 8002, 8022, 8028, 9007})
"""The transaction was rolled back, or must be; the same work may succeed."""

READ_ONLY: Final = frozenset({1290, 1792, 1836})
"""The server has failed over, or is about to: it may become writable again."""
