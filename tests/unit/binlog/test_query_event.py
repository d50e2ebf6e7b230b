"""A statement and its session, decoded by the session's charset."""

import struct

import pytest

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.query_event import QueryEvent, query_of
from airflow_provider_dm.engine.binlog.session_variables import Session
from airflow_provider_dm.engine.schema.charsets import UNSURE


def body(sql: bytes, variables: bytes = b"", schema: bytes = b"d") -> bytes:
    return struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables)) + variables + schema + b"\0" + sql


def test_a_query_event_has_statement_and_session_variables() -> None:
    parts = [
        b"\x00\0\0\0\0",
        b"\x01" + struct.pack("<Q", 0x42),
        b"\x06\x03std",
        b"\x05\x03UTC",
        b"\x0b\x02me\x02at",
        b"\x04" + struct.pack("<HHH", 8, 8, 8),
        b"\xfa what is this",
    ]
    query = query_of(body(b"SELECT '\xe9'", b"".join(parts)), "f:4")
    assert (query.schema, query.sql, query.schema_name) == (b"d", b"SELECT '\xe9'", "d")
    assert (query.session.sql_mode, query.session.time_zone, query.session.unknown) == (0x42, b"UTC", 0xFA)
    assert query.text() == "SELECT 'é'"


def test_a_charset_after_an_unknown_variable_is_not_guessed() -> None:
    mode, charset, unknown = b"\x01" + bytes(8), b"\x04" + struct.pack("<HHH", 45, 45, 45), b"\xfa?"
    assert query_of(body(b"x", mode + charset + unknown), "f:4").text() == "x"
    assert query_of(body(b"x", mode + unknown + charset), "f:4").text() is None
    assert query_of(body(b"x", charset + unknown + mode), "f:4").text() is None


@pytest.mark.parametrize(
    ("charset", "sql", "text"),
    [
        (45, "é😀".encode(), "é😀"),
        (None, "é".encode(), "é"),
        (45, b"a \xff", f"a {UNSURE}"),
        (255, "é😀".encode(), "é😀"),
        (2304, "é😀".encode(), "é😀"),
        (611, "é".encode(), "é"),
        (8, b"\x80\x81", "€\x81"),
        (1032, b"\xe9", "é"),
        (11, b"plain", "plain"),
        (11, b"\xe9", UNSURE),
        (28, "中 `表`".encode("gbk"), "中 `表`"),
        (28, b"'\x81\\' \x81'", "'乗' " + UNSURE + "'"),  # a character may end in a backslash
        (28, b"plain", "plain"),
        (13, "表 ｶ".encode("shift-jis"), "表 ｶ"),
        (13, b"\x81\x5f", UNSURE),  # servers take it for a backslash
        (1, "功許".encode("big5"), "功許"),
        (19, "하 똠".encode("cp949"), "하 똠"),
        (12, "表 ｶ".encode("euc-jp"), "表 ｶ"),
        (248, "中 \u1e3e 😀".encode("gb18030"), "中 \u1e3e 😀"),
        (51, "Ж".encode("cp1251"), "Ж"),
        (25, b"\xe1\xa1\xa4", f"α\u02bd{UNSURE}"),
        (32, b"`\xb2\xff`", f"`Ա{UNSURE}`"),  # its ' is none that ends a string
        (13, b"'\x81_'", f"'{UNSURE}'"),  # nor is this backslash one that escapes
        (640, b"\0x", "\0x"),
        (640, b"\x4e\x2d\xff", None),
        (63, b"\xe9", UNSURE),
        (10, b"plain", "plain"),
        (10, b"a[1]", None),  # Ä1Å
        (9999, "é".encode(), None),
    ],
)
def test_text_is_read_in_the_sessions_charset_or_not_at_all(charset: int | None, sql: bytes, text: str | None) -> None:
    charsets = None if charset is None else (charset, 8, 8)
    assert QueryEvent(b"", sql, Session(charsets=charsets)).text() == text


def test_statements_that_servers_rewrite_in_utf8_are_decoded() -> None:
    def text(sql: bytes) -> str | None:
        return QueryEvent(b"", sql, Session(charsets=(28, 28, 8))).text()

    assert text("CREATE TABLE `中` (\n  `a` int\n)".encode()) is None
    assert text("CREATE OR REPLACE TABLE `中` (\n  `a` int\n)".encode()) is None
    assert text("CREATE TABLE `表` (a int)".encode("gbk")) == "CREATE TABLE `表` (a int)"
    assert text(b"CREATE TABLE a (a int)") == "CREATE TABLE a (a int)"


def test_wrong_lengths_are_malformed() -> None:
    whole = body(b"x", b"\x00\0\0\0\0")
    for size in range(len(whole) - 1):
        with pytest.raises(MalformedEvent):
            query_of(whole[:size], "f:4")
    with pytest.raises(MalformedEvent):
        query_of(body(b"x", b"\x01\0\0"), "f:4")


def test_a_schema_name_that_is_not_text_is_malformed() -> None:
    with pytest.raises(MalformedEvent, match="UTF-8"):
        query_of(body(b"x", schema=b"\xff"), "f:4")
    assert query_of(body(b"x", schema="größe".encode()), "f:4").schema_name == "größe"
