"""QUERY events: a statement as text, with the session that it ran in.

A scan needs only to know which kind of statement it is, and that without a parser: the first words decide. What is
neither transaction control nor a row change is called DDL here; whether it matters is the decision of `engine.sync`.
"""

from __future__ import annotations

import re
import struct
from enum import Enum
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog.client_charsets import UTF8_IDS, decoded
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.session_variables import Session, read_session

_POST_HEADER: Final = struct.Struct("<IIBHH")  # thread, seconds, length of schema, error code, length of variables
_LEADING: Final = re.compile(rb"(?:\s+|--[ \t\r\n][^\n]*(?:\n|$)|--$|#[^\n]*(?:\n|$)|/\*(?![!M])[\s\S]*?\*/|;)+")
_EXECUTABLE: Final = re.compile(rb"/\*M?!\d*")
_TO: Final = re.compile(rb"\s+(?:WORK\s+)?TO\b", re.IGNORECASE)
_WORDS: Final = re.compile(rb"[A-Za-z_]+")
_WRITTEN_ANEW: Final = re.compile(rb"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?[`\"][^\n]+ \(\n  ")
"""How the text looks that servers write for CREATE TABLE … SELECT."""
_HEAD: Final = re.compile(
    rb"(?:\s|/\*[\s\S]*?\*/)*([^('\"=;]{1,80}?)\s*(?:\b(?:SET|VALUES?|SELECT|WHERE)\b|[('\"=;]|$)", re.IGNORECASE
)
"""What a row change does, and to which table: in front of everything that may be a value."""


class Statement(Enum):
    """The kind of a QUERY event in a log of rows."""

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
    """A QUERY event. `sql` as its session sent it, in the client's charset.

    `seconds`: how long it ran; `error`: how it ended.
    """

    schema: bytes
    sql: bytes
    session: Session = Session()
    thread: int = 0
    seconds: int = 0
    error: int = 0

    @property
    def schema_name(self) -> str:
        """The default schema; the server's names are UTF-8. Raises UnicodeDecodeError."""
        return self.schema.decode("utf-8")

    def text(self) -> str | None:
        """Return the statement as text, with UNSURE for characters that are not known.

        None where its charset, or the mode to read it in, is not known, or is not kept.
        """
        said = self.session
        if said.unknown is not None and (said.sql_mode is None or said.charsets is None):
            return None  # they may stand behind the variable that is not known
        client = None if said.charsets is None else said.charsets[0]
        if client is not None and client not in UTF8_IDS and self._may_be_in_utf8():
            return None
        return decoded(self.sql, client)

    def _may_be_in_utf8(self) -> bool:
        """Tell whether the statement may be in UTF-8, whatever charset the event names.

        Servers write CREATE TABLE … SELECT anew, in UTF-8, and let the event name the client's charset.
        """
        return _WRITTEN_ANEW.match(self.sql) is not None and not self.sql.isascii() and _is_utf8(self.sql)


def query_of(body: bytes, at: str) -> QueryEvent:
    """Parse a QUERY event from its bytes between header and checksum. Raises MalformedEvent."""
    if len(body) < _POST_HEADER.size:
        raise MalformedEvent(at, "a QUERY event without its fixed part")
    thread, seconds, schema_size, error, variables_size = _POST_HEADER.unpack_from(body)
    schema_start = _POST_HEADER.size + variables_size
    schema_end = schema_start + schema_size
    if len(body) <= schema_end or body[schema_end]:
        raise MalformedEvent(at, "a QUERY event that does not fit its lengths")
    schema = body[schema_start:schema_end]
    if not _is_utf8(schema):
        raise MalformedEvent(at, "the name of its schema is not UTF-8")
    session = read_session(body[_POST_HEADER.size : schema_start], at)
    return QueryEvent(schema, body[schema_end + 1 :], session, thread, seconds, error)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def kind_of(sql: bytes) -> Statement:
    """Tell what a statement is, by its first words.

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


def head_of(sql: bytes) -> str:
    """Return how a row change begins, for messages: what follows is data.

    >>> head_of(b"/* app */ UPDATE `t` SET a = 1"), head_of(b"INSERT INTO t(a) VALUES ('s3cret')"), head_of(b"'s3cret'")
    ('UPDATE `t` …', 'INSERT INTO t …', '…')
    """
    head = _HEAD.match(sql)
    return f"{head[1].decode('utf-8', 'replace') if head else ''} …".lstrip()
