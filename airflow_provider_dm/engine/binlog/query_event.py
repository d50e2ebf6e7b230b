"""QUERY events: a statement as text, with the session that it ran in.

A scan needs only to know which kind of statement it is, and that without a parser: the first words decide. What is
neither transaction control nor a row change is called DDL here; whether it matters is the sync room's decision.
"""

from __future__ import annotations

import re
import struct
from enum import Enum
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog.errors import MalformedEvent

_POST_HEADER: Final = struct.Struct("<IIBHH")  # thread, seconds, length of schema, error code, length of variables
_SQL_MODE, _CHARSET = 1, 4

# Variable -> its size; a tuple (n, extra): n strings with a length byte, `extra` bytes behind each.
_FIXED: Final = {
    0: 4,
    _SQL_MODE: 8,
    3: 4,
    _CHARSET: 6,
    7: 2,
    8: 2,
    9: 8,
    10: 4,
    13: 3,
    16: 1,
    17: 8,
    18: 2,
    19: 1,
    20: 1,
    128: 3,  # MariaDB: microseconds
    129: 8,  # MariaDB: xid
}
_STRINGS: Final = {2: (1, 1), 5: (1, 0), 6: (1, 0), 11: (2, 0)}

_LEADING: Final = re.compile(rb"(?:\s+|--[ \t\r\n][^\n]*(?:\n|$)|--$|#[^\n]*(?:\n|$)|/\*(?![!M])[\s\S]*?\*/|;)+")
_EXECUTABLE: Final = re.compile(rb"/\*M?!\d*")
_TO: Final = re.compile(rb"\s+(?:WORK\s+)?TO\b", re.IGNORECASE)
_WORDS: Final = re.compile(rb"[A-Za-z_]+")

_UTF8_COLLATIONS: Final = frozenset(
    {33, 45, 46, 76, 83, *range(192, 224), *range(224, 248), *range(255, 324), *range(576, 672), *range(1216, 1248)}
)
_LATIN1_COLLATIONS: Final = frozenset({5, 8, 15, 31, 47, 48, 49, 94})
_ASCII_COLLATIONS: Final = frozenset({11, 65})


class Statement(Enum):
    """What a QUERY event is to a log of rows."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    ROLLBACK_TO = "rollback to savepoint"
    SAVEPOINT = "savepoint"
    NOTHING = "a comment"
    XA = "xa"
    ROW_CHANGE = "row change"
    DDL = "ddl"


_BY_FIRST_WORD: Final = {
    b"BEGIN": Statement.BEGIN,
    b"START": Statement.BEGIN,
    b"COMMIT": Statement.COMMIT,
    b"SAVEPOINT": Statement.SAVEPOINT,
    b"RELEASE": Statement.SAVEPOINT,
    b"XA": Statement.XA,
    b"INSERT": Statement.ROW_CHANGE,
    b"UPDATE": Statement.ROW_CHANGE,
    b"DELETE": Statement.ROW_CHANGE,
    b"REPLACE": Statement.ROW_CHANGE,
    b"LOAD": Statement.ROW_CHANGE,
    b"WITH": Statement.ROW_CHANGE,
    b"CALL": Statement.ROW_CHANGE,
    b"DO": Statement.ROW_CHANGE,
    b"SELECT": Statement.ROW_CHANGE,  # SELECT f() where f changes rows
}


class QueryEvent(NamedTuple):
    """`sql` as the session sent it, in the charset of collation id `charset` (None: not said)."""

    schema: bytes
    sql: bytes
    sql_mode: int = 0
    charset: int | None = None

    def text(self) -> str | None:
        """The statement as text; None where its charset is not one that we can read, or is not kept."""
        try:
            if self.charset in _LATIN1_COLLATIONS or self.charset in _ASCII_COLLATIONS:
                return self.sql.decode("cp1252")
            if self.charset is None or self.charset in _UTF8_COLLATIONS or self.sql.isascii():
                return self.sql.decode("utf-8")
        except UnicodeDecodeError:
            pass
        return None


def query_of(body: bytes, at: str) -> QueryEvent:
    """A QUERY event from its bytes between header and checksum. Raises MalformedEvent."""
    if len(body) < _POST_HEADER.size:
        raise MalformedEvent(at, "a QUERY event without its fixed part")
    _thread, _seconds, schema_size, _error, variables_size = _POST_HEADER.unpack_from(body)
    schema_start = _POST_HEADER.size + variables_size
    schema_end = schema_start + schema_size
    if len(body) <= schema_end:
        raise MalformedEvent(at, "a QUERY event shorter than its lengths say")
    sql_mode, charset = _session(body[_POST_HEADER.size : schema_start], at)
    return QueryEvent(body[schema_start:schema_end], body[schema_end + 1 :], sql_mode, charset)


def _session(variables: bytes, at: str) -> tuple[int, int | None]:
    """(sql_mode, collation id of the client's charset) from the status variables, up to the first unknown one."""
    sql_mode, charset = 0, None
    position = 0
    while position < len(variables):
        code = variables[position]
        size = _variable_size(variables, position + 1, code)
        if size is None:
            break
        value = variables[position + 1 : position + 1 + size]
        if len(value) < size:
            raise MalformedEvent(at, f"status variable {code} of a QUERY event is cut short")
        if code == _SQL_MODE:
            sql_mode = int.from_bytes(value, "little")
        elif code == _CHARSET:
            charset = int.from_bytes(value[:2], "little")
        position += 1 + size
    return sql_mode, charset


def _variable_size(variables: bytes, start: int, code: int) -> int | None:
    if code in _FIXED:
        return _FIXED[code]
    if code not in _STRINGS:
        return None
    count, extra = _STRINGS[code]
    position = start
    for _ in range(count):
        length = variables[position] if position < len(variables) else 0
        position += 1 + length + extra
    return position - start


def kind_of(sql: bytes) -> Statement:
    """What a statement is, by its first words.

    >>> kind_of(b"/* app */ insert into t values (1)"), kind_of(b"ROLLBACK TO `s`"), kind_of(b"# Dummy event")
    (<Statement.ROW_CHANGE: 'row change'>, <Statement.ROLLBACK_TO: 'rollback to savepoint'>, <Statement.NOTHING: 'a comment'>)
    """  # noqa: E501
    position = 0
    while position < len(sql):
        skipped = _LEADING.match(sql, position) or _EXECUTABLE.match(sql, position)
        if skipped is None:
            break
        position = skipped.end()
    if position >= len(sql):
        return Statement.NOTHING
    word = _WORDS.match(sql, position)
    first = word[0].upper() if word else b""
    if first == b"ROLLBACK":
        return Statement.ROLLBACK_TO if _TO.match(sql, position + len(first)) else Statement.ROLLBACK
    return _BY_FIRST_WORD.get(first, Statement.DDL)
