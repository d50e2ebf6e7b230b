"""What both ways of cutting events into row images agree on: the numbers of `rows` and of `kernels.split`.

A change is a row of int64 numbers: which layout, the file position of its event, and where its images lie in the
buffer. An event code stands for a number as well, derived from the table in `events`.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.events import DO, Do

# Columns of a change
LAYOUT, EVENT, BEFORE, BEFORE_END, AFTER, AFTER_END = range(6)
FIELDS: Final = 6
NO_ROW: Final = -1

# What to do with an event code
PASSED, LOOK, IS_MAP, FORGETS = range(4)
OPERATION: Final = 0x1C
INSERTS, UPDATES, DELETES = 0x04, 0x08, 0x10
HAS_EXTRA: Final = 0x20
"""The event has a length and extra data between flags and columns (version 2)."""

# Why `split` stopped. LOOK (1): the event at its position is for the plain twin
MORE, FULL = 0, 2

END_OF_STATEMENT: Final = 0x0001
"""Flag of a rows event: the tables that were named before it are forgotten behind it."""

HASH: Final = 0x9E3779B97F4A7C15
"""The factor that hashes table numbers: 2**64 / golden ratio (Knuth, "Fibonacci hashing")."""

UNWANTED: Final = -1
"""The layout of a table whose rows nobody wants."""

OPERATIONS: Final = {
    codes.WRITE_ROWS_V1: INSERTS,
    codes.UPDATE_ROWS_V1: UPDATES,
    codes.DELETE_ROWS_V1: DELETES,
    codes.WRITE_ROWS: INSERTS | HAS_EXTRA,
    codes.UPDATE_ROWS: UPDATES | HAS_EXTRA,
    codes.DELETE_ROWS: DELETES | HAS_EXTRA,
}
"""The forms of rows events, of the codes that both ways can read."""
PARTIAL_UPDATES: Final = UPDATES | HAS_EXTRA
"""How the head of a PARTIAL_UPDATE_ROWS event is read."""

_PASSED: Final = (Do.PASS, Do.READER, Do.SQL)


def _what(code: int) -> int:
    if code in OPERATIONS:
        return OPERATIONS[code]
    if DO[code] == Do.MAP:
        return IS_MAP
    if DO[code] == Do.BOUNDARY:
        return FORGETS
    # The checksum of a format event depends on a flag in it.
    return PASSED if DO[code] in _PASSED and code != codes.FORMAT_DESCRIPTION else LOOK


WHAT: Final = bytes(_what(code) for code in range(256))
"""`WHAT[code]`: PASSED, LOOK, IS_MAP, FORGETS (no table map lives longer than a transaction), or an operation."""
