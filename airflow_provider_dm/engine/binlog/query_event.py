"""QUERY events: a statement as text, with its session variables. `ddl.first_words` classifies it."""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog.client_charsets import UTF8_IDS, decoded
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.session_variables import Session, read_session

_POST_HEADER: Final = struct.Struct("<IIBHH")  # thread, seconds, length of schema, error code, length of variables
_REWRITTEN: Final = re.compile(rb"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?[`\"][^\n]+ \(\n  ")
"""The form in which servers log CREATE TABLE … SELECT."""


class QueryEvent(NamedTuple):
    """A QUERY event. `sql` as its session sent it, in the client's charset."""

    schema: bytes
    sql: bytes
    session: Session = Session()

    @property
    def schema_name(self) -> str:
        """The default schema; the server's names are UTF-8. Raises UnicodeDecodeError."""
        return self.schema.decode("utf-8")

    def text(self) -> str | None:
        """Return the statement as text, with UNSURE for unknown characters.

        None if its charset, or the sql_mode for parsing it, is unknown or not logged.
        """
        session = self.session
        if session.unknown is not None and (session.sql_mode is None or session.charsets is None):
            return None  # they may follow the unknown variable
        client = None if session.charsets is None else session.charsets[0]
        if client is not None and client not in UTF8_IDS and self._may_be_in_utf8():
            return None
        return decoded(self.sql, client)

    def _may_be_in_utf8(self) -> bool:
        """Return True if the statement may be in UTF-8, regardless of the charset in the event.

        Servers rewrite CREATE TABLE … SELECT in UTF-8, but the event names the client's charset.
        """
        return _REWRITTEN.match(self.sql) is not None and not self.sql.isascii() and _is_utf8(self.sql)


def query_of(body: bytes, at: str) -> QueryEvent:
    """Parse a QUERY event from its bytes between header and checksum. Raises MalformedEvent."""
    if len(body) < _POST_HEADER.size:
        raise MalformedEvent(at, "a QUERY event without its fixed part")
    _thread, _seconds, schema_size, _error, variables_size = _POST_HEADER.unpack_from(body)
    schema_start = _POST_HEADER.size + variables_size
    schema_end = schema_start + schema_size
    if len(body) <= schema_end or body[schema_end]:
        raise MalformedEvent(at, "a QUERY event that does not fit its lengths")
    schema = body[schema_start:schema_end]
    if not _is_utf8(schema):
        raise MalformedEvent(at, "the name of its schema is not UTF-8")
    return QueryEvent(schema, body[schema_end + 1 :], read_session(body[_POST_HEADER.size : schema_start], at))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
