"""Any text is a statement or Unreadable, and is cut into the same tokens however it is spaced."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.first_words import head_of_row_change, is_of_temporary_table, kind_of, xa_verb
from airflow_provider_dm.engine.ddl.lexer import TokenKind, all_tokens, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from tests.unit.ddl.table_of_statements import MODES, Entry, entries

TABLE = entries()
SIGNS = ["(", ")", ",", ";", ".", "=", "'", '"', "`", "[", "]", "--", "-- ", "#", "\\", "\n"]
SIGNS += ["/*", "*/", "/*!50100", "/*M!"]
PARSED = [entry for entry in TABLE if entry.readable and not entry.expected.startswith("IrrelevantStatement")]
WORDS = sorted({token.raw for entry in PARSED for token in tokens(entry.sql, entry.sql_mode)})
SQL_MODES = st.sets(st.sampled_from(sorted(MODES.values()))).map(sum)
SOUP = st.lists(st.sampled_from(SIGNS + WORDS) | st.text(max_size=3), max_size=25).map(" ".join)


def read(sql: str, sql_mode: int) -> object:
    """Return the statement, or None where it is Unreadable; nothing else may be raised."""
    try:
        return parse(sql, sql_mode, "shop")
    except Unreadable:
        return None


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, int]:
    """A statement of the table that is cut off, torn, or mixed with another one."""
    one, other = draw(st.sampled_from(TABLE)), draw(st.sampled_from(TABLE))
    at, behind = draw(st.integers(0, len(one.sql))), draw(st.integers(0, len(one.sql)))
    start = draw(st.integers(0, len(other.sql)))
    middle = draw(st.sampled_from(["", other.sql[start : start + 20], *SIGNS]))
    sql = draw(st.sampled_from([one.sql[:at], one.sql[:at] + middle + one.sql[at:], one.sql[:at] + one.sql[behind:]]))
    return sql, draw(SQL_MODES | st.just(one.sql_mode))


@settings(max_examples=600, deadline=None)
@given(SOUP, SQL_MODES)
def test_random_tokens_are_a_statement_or_unreadable(soup: str, sql_mode: int) -> None:
    for head in ("", "CREATE TABLE t ", "CREATE TABLE t (a int ", "ALTER TABLE t ", "ALTER TABLE t ADD "):
        read(head + soup, sql_mode)


@settings(max_examples=1500, deadline=None)
@given(mutations())
def test_a_truncated_statement_is_a_statement_or_unreadable(mutation: tuple[str, int]) -> None:
    read(*mutation)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40) | mutations().map(lambda mutation: mutation[0].encode()))
def test_the_first_words_of_any_bytes_are_found(sql: bytes) -> None:
    kind_of(sql), xa_verb(sql), is_of_temporary_table(sql)
    assert head_of_row_change(sql).endswith("…")


@settings(max_examples=600, deadline=None)
@given(SOUP | mutations().map(lambda mutation: mutation[0]), SQL_MODES)
def test_the_tokens_of_a_text_are_the_text(sql: str, sql_mode: int) -> None:
    try:
        found = list(all_tokens(sql, sql_mode))
    except Unreadable:
        return
    assert "".join(piece.raw for piece in found) == sql
    assert [piece.start for piece in found] == [0, *(piece.end for piece in found)][: len(found)]


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.sql[:60])
def test_spaces_and_comments_between_tokens_change_nothing(entry: Entry) -> None:
    """Cut and joined anew with other space between, a text has the same tokens."""
    try:
        found = list(all_tokens(entry.sql, entry.sql_mode))
    except Unreadable:
        return
    for seed in range(3):
        dice = Random(seed)
        spaced = "".join(
            _space(dice) if piece.kind in (TokenKind.SPACE, TokenKind.COMMENT) else piece.raw for piece in found
        )
        assert _cut(spaced, entry.sql_mode) == _cut(entry.sql, entry.sql_mode)


def _space(dice: Random) -> str:
    return dice.choice([" ", "\n", "\t  ", " /* ' */ ", " -- `\n", ' #"\n'])


def _cut(sql: str, sql_mode: int) -> list[tuple[str, str | None]] | str:
    try:
        return [(token.text, token.name) for token in tokens(sql, sql_mode)]
    except Unreadable as error:
        return str(error)
