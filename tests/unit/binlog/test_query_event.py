"""The first words of a statement decide; its charset says how to read it."""

import struct

import pytest

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.query_event import QueryEvent, Statement, kind_of, query_of


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (b"BEGIN", Statement.BEGIN),
        (b"START TRANSACTION", Statement.BEGIN),
        (b"COMMIT", Statement.COMMIT),
        (b"commit /* x */", Statement.COMMIT),
        (b"ROLLBACK", Statement.ROLLBACK),
        (b"ROLLBACK TO `s`", Statement.ROLLBACK_TO),
        (b"rollback work to savepoint s", Statement.ROLLBACK_TO),
        (b"SAVEPOINT `s`", Statement.SAVEPOINT),
        (b"RELEASE SAVEPOINT s", Statement.SAVEPOINT),
        (b"", Statement.NOTHING),
        (b"/* only */ -- a comment", Statement.NOTHING),
        (b"# Dummy event", Statement.NOTHING),
        (b"XA START 'x'", Statement.XA),
        (b"INSERT INTO t VALUES (1)", Statement.ROW_CHANGE),
        (b"/* hint */\n-- and more\n  replace into t values (1)", Statement.ROW_CHANGE),
        (b"/*!40000 UPDATE t SET a = 1 */", Statement.ROW_CHANGE),
        (b"/*M!100100 DELETE FROM t */", Statement.ROW_CHANGE),
        (b"WITH x AS (SELECT 1) DELETE FROM t", Statement.ROW_CHANGE),
        (b"CREATE TABLE t (a INT)", Statement.DDL),
        (b"TRUNCATE t", Statement.DDL),
        (b"/*!50003 CREATE TRIGGER x */", Statement.DDL),
        (b"GRANT SELECT ON *.* TO x", Statement.DDL),
        (b"`strange`", Statement.DDL),
        (b"BEGINNING", Statement.DDL),
    ],
)
def test_the_first_words_decide(sql: bytes, kind: Statement) -> None:
    assert kind_of(sql) is kind


def body(sql: bytes, variables: bytes = b"", schema: bytes = b"d") -> bytes:
    return struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables)) + variables + schema + b"\0" + sql


def test_session_variables_are_read_up_to_the_first_unknown_one() -> None:
    parts = [
        b"\x00\0\0\0\0",
        b"\x01" + struct.pack("<Q", 0x42),
        b"\x06\x03std",
        b"\x05\x03UTC",
        b"\x0b\x02me\x02at",
        b"\x04" + struct.pack("<HHH", 8, 8, 8),
        b"\xfa what is this",
    ]
    variables = b"".join(parts)
    query = query_of(body(b"SELECT '\xe9'", variables), "f:4")
    assert query == QueryEvent(b"d", b"SELECT '\xe9'", 0x42, 8)
    assert query.text() == "SELECT 'é'"


@pytest.mark.parametrize(
    ("charset", "sql", "text"),
    [
        (45, "é😀".encode(), "é😀"),
        (None, "é".encode(), "é"),
        (45, b"\xff", None),
        (8, b"\x80", "€"),
        (28, "中".encode("gbk"), None),
        (28, b"plain", "plain"),
    ],
)
def test_text_is_read_in_the_sessions_charset_or_not_at_all(charset: int | None, sql: bytes, text: str | None) -> None:
    assert QueryEvent(b"", sql, 0, charset).text() == text


def test_lying_lengths_are_damage() -> None:
    whole = body(b"x", b"\x00\0\0\0\0")
    for size in range(len(whole) - 1):
        with pytest.raises(MalformedEvent):
            query_of(whole[:size], "f:4")
    with pytest.raises(MalformedEvent):
        query_of(body(b"x", b"\x01\0\0"), "f:4")
