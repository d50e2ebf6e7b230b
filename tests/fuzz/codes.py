"""Numbers of the binlog format that the harness names: event codes, and the magic that a file begins with."""

from typing import Final

MAGIC: Final = b"\xfebin"
END_OF_STATEMENT: Final = 1
"""Flag of a rows event: the table maps before it are no longer in force."""

QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP = 2, 3, 4, 15, 16, 19
WRITE_V1, UPDATE_V1, DELETE_V1 = 23, 24, 25
ROWS_QUERY, WRITE, UPDATE, DELETE = 29, 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, CONTEXT, VIEW_CHANGE = 33, 34, 35, 36, 37
PARTIAL_UPDATE, PAYLOAD, GTID_TAGGED = 39, 40, 42
ANNOTATE, CHECKPOINT, MARIADB_GTID, GTID_LIST, START_ENCRYPTION = 160, 161, 162, 163, 164
QUERY_COMPRESSED, WRITE_COMPRESSED, UPDATE_COMPRESSED, DELETE_COMPRESSED = 165, 166, 167, 168
