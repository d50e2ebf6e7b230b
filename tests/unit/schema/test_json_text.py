"""Documents as literals for MySQL: as text where a parser gives it back, else built around what it would change."""

import pytest

from airflow_provider_dm.engine.schema.json_text import mysql_literal


@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b"1.5",
        b'{"a": [1.0, -0.0, 1e15, 0.1, 18446744073709551615, -9223372036854775808]}',
        b'"1.50 and 12345678901234567890123"',
        rb'{"a\"1.50": "\\", "[": "]}"}',
    ],
)
def test_most_documents_are_their_text(text: bytes) -> None:
    escaped = text.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    assert mysql_literal(text) == b"'" + escaped + b"'"


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        (b"1.50", b"CAST(1.50 AS JSON)"),
        (b"18446744073709551616", b"CAST(18446744073709551616 AS JSON)"),
        (b"-9223372036854775809", b"CAST(-9223372036854775809 AS JSON)"),
        (b'[1.50, 2.5, "x"]', b"JSON_ARRAY(1.50,CAST('2.5' AS JSON),CAST('\"x\"' AS JSON))"),
        (b'{"": [], "a": {"b": -0.10}}', b"JSON_OBJECT('',CAST('[]' AS JSON),'a',JSON_OBJECT('b',-0.10))"),
        (rb'''{"it's \"\u0001\\": 0.00}''', b"JSON_OBJECT('it\\'s \"\x01\\\\',0.00)"),
        (b'[[0.30, {"x": "]"}], 1]', b"JSON_ARRAY(JSON_ARRAY(0.30,CAST('{\"x\": \"]\"}' AS JSON)),CAST('1' AS JSON))"),
        (b"[1234567890123456.7]", b"JSON_ARRAY(1234567890123456.7)"),
    ],
)  # fmt: skip
def test_numbers_that_a_parser_would_change_are_separate_literals(text: bytes, literal: bytes) -> None:
    assert mysql_literal(text) == literal
