"""Constants shared by the two ways of dividing events into row images: `rows` and `kernels.split`.

A change is a row of int64 numbers: its layout, the file position of its event, and the offsets of its images in the
buffer. Event codes are mapped to numbers too, derived from the table in `events`.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.events import ROLES, EventRole

# Columns of a change
LAYOUT, EVENT, BEFORE, BEFORE_END, AFTER, AFTER_END = range(6)
FIELDS: Final = 6
NO_ROW: Final = -1

# Actions for an event code
PASSED, LOOK, IS_MAP, FORGETS = range(4)
OPERATION: Final = 0x1C
INSERTS, UPDATES, DELETES = 0x04, 0x08, 0x10
HAS_EXTRA: Final = 0x20
"""The event has a length and extra data between flags and columns (version 2)."""

# Why `split` stopped. LOOK (1): the event at its position must be handled without a kernel
MORE, FULL = 0, 2

END_OF_STATEMENT: Final = 0x0001
"""Flag of a rows event: the table maps before it are invalid after it."""

HASH: Final = 0x9E3779B97F4A7C15
"""The factor that hashes table numbers: 2**64 / golden ratio (Knuth, "Fibonacci hashing")."""

UNWANTED: Final = -1
"""The layout of an unwanted table."""

OPERATIONS: Final = {
    codes.WRITE_ROWS_V1: INSERTS,
    codes.UPDATE_ROWS_V1: UPDATES,
    codes.DELETE_ROWS_V1: DELETES,
    codes.WRITE_ROWS: INSERTS | HAS_EXTRA,
    codes.UPDATE_ROWS: UPDATES | HAS_EXTRA,
    codes.DELETE_ROWS: DELETES | HAS_EXTRA,
}
"""The formats of rows events, for the codes that both ways can read."""

_PASSED: Final = (EventRole.PASS, EventRole.READER, EventRole.SQL)


def _what(code: int) -> int:
    if code in OPERATIONS:
        return OPERATIONS[code]
    if ROLES[code] == EventRole.MAP:
        return IS_MAP
    if ROLES[code] == EventRole.BOUNDARY:
        return FORGETS
    # The checksum of a format event depends on a flag in it.
    return PASSED if ROLES[code] in _PASSED and code != codes.FORMAT_DESCRIPTION else LOOK


WHAT: Final = bytes(_what(code) for code in range(256))
"""`WHAT[code]`: PASSED, LOOK, IS_MAP, FORGETS (no table map outlives a transaction), or an operation."""
