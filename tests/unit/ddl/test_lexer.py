"""SQL text as tokens, under every sql_mode that cuts it differently."""

import pytest

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES, tokens


def texts(sql: str, sql_mode: int = 0) -> list[str]:
    return [token.text for token in tokens(sql, sql_mode)]


def names(sql: str, sql_mode: int = 0) -> list[str | None]:
    return [token.name for token in tokens(sql, sql_mode)]


def test_words_names_strings_and_signs() -> None:
    assert texts("drop `t` /* c */, 'x' -- rest") == ["DROP", "`t`", ",", "''"]
    assert names("drop `a``b`, 'x'") == ["drop", "a`b", None, None]
    assert texts("a--b") == ["A", "-", "-", "B"]
    assert texts("a --\tb\nc # d\ne") == ["A", "C", "E"]
    assert texts("2023_t.$x 表é") == ["2023_T", ".", "$X", "表É"]


def test_executable_comments_are_read() -> None:
    assert texts("/*!50001 A */ /*M!100301 B */ /*! C */ /* D */") == ["A", "B", "C"]
    assert texts("/*!50001 A /* inner */ B */") == ["A", "B"]


@pytest.mark.parametrize(
    ("sql", "mode", "expected"),
    [
        ('"a"', 0, ["''"]),
        ('"a\\"b"', 0, ["''"]),
        ('"a""b"', ANSI_QUOTES, ['"a""b"']),
        ('"a\\" b', ANSI_QUOTES, ['"a\\"', "B"]),
        ("'a\\' b'", 0, ["''"]),
        ("'a\\' b", NO_BACKSLASH_ESCAPES, ["''", "B"]),
        ('"a\\" b', NO_BACKSLASH_ESCAPES, ["''", "B"]),
        ("'a''b'", NO_BACKSLASH_ESCAPES, ["''"]),
        ("[a b].x", MSSQL | ANSI_QUOTES, ["[a b]", ".", "X"]),
        ("[a]", 0, ["[", "A", "]"]),
    ],
)
def test_quotes_mean_what_the_mode_says(sql: str, mode: int, expected: list[str]) -> None:
    assert texts(sql, mode) == expected


def test_names_in_brackets_and_double_quotes_are_unquoted() -> None:
    assert names('[a]]b]."c""d"', MSSQL | ANSI_QUOTES) == ["a]b", None, 'c"d']


@pytest.mark.parametrize("sql", ["a 'open", "a `open", "a /*!40000 b", 'a "open', "``", "a\u00a0b"])
def test_ambiguous_text_is_unreadable(sql: str) -> None:
    with pytest.raises(Unreadable):
        texts(sql, ANSI_QUOTES)


def test_tokens_before_an_unreadable_part_are_returned() -> None:
    ahead = tokens("DROP VIEW 'open", 0)
    assert [next(ahead).text, next(ahead).text] == ["DROP", "VIEW"]


def test_a_long_string_is_lexed_without_backtracking() -> None:
    """The engine of regular expressions must not go back and forth in it."""
    assert texts("'" + "it\\'s \\\\" * 100_000 + "'") == ["''"]
