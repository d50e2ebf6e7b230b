r"""The only lexer: SQL text as tokens, as a server splits it under the sql_mode of the session.

Three modes decide where a token ends: under ANSI_QUOTES `"x"` is a name, under MariaDB's MSSQL `[x]` is a name too,
and under NO_BACKSLASH_ESCAPES a backslash is an ordinary character. The two other modes that affect a grammar
(PIPES_AS_CONCAT, IGNORE_SPACE) do not change tokens.

Tokens are made one by one, so a caller that needs only the first words of a statement never reads the rest. Text in
executable comments (`/*!40101 … */`) is read like any other: servers log spaces for the parts that they did not run.

    >>> [token.text for token in tokens('DROP TABLE "a", b -- c', ANSI_QUOTES)]
    ['DROP', 'TABLE', '"a"', ',', 'B']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from airflow_provider_dm.engine.ddl.errors import Unreadable

REAL_AS_FLOAT: Final = 1 << 0
ANSI_QUOTES: Final = 1 << 2
ORACLE: Final = 1 << 9
MSSQL: Final = 1 << 10
NO_BACKSLASH_ESCAPES: Final = 1 << 20
"""Bits of a session's sql_mode, as they are logged."""
_TOKEN_MODES: Final = ANSI_QUOTES | MSSQL | NO_BACKSLASH_ESCAPES


class TokenKind(Enum):
    """The kind of a token."""

    SPACE = "space"
    COMMENT = "comment"
    OPENING = "opening"
    """The start of an executable comment."""
    CLOSING = "closing"
    NAME = "name"
    """A quoted name."""
    STRING = "string"
    NUMBER = "number"
    WORD = "word"
    SIGN = "sign"


_KINDS: Final = {str(kind.value): kind for kind in TokenKind}
_OPENING_GROUP, _CLOSING_GROUP = TokenKind.OPENING.value, TokenKind.CLOSING.value
_INSIGNIFICANT: Final = frozenset({TokenKind.SPACE.value, TokenKind.COMMENT.value, _OPENING_GROUP, _CLOSING_GROUP})


class Token(NamedTuple):
    """A part of a statement; `raw` is its text as written, which begins at `start`."""

    text: str
    """A word in upper case, a quoted name or a number as written, `''` for any string, or one character."""
    name: str | None
    """The token as an identifier; None for strings and signs."""
    raw: str
    start: int
    kind: TokenKind

    @property
    def end(self) -> int:
        return self.start + len(self.raw)


def tokens(sql: str, sql_mode: int) -> Iterator[Token]:
    """Yield all tokens except spaces and comments. Raises Unreadable for a quote or comment that is not closed."""
    opened = 0
    for group, match in _matches(sql, sql_mode):
        if group in _INSIGNIFICANT:
            opened += (group == _OPENING_GROUP) - (group == _CLOSING_GROUP)
        else:
            yield _token(group, match)
    if opened:
        raise Unreadable("a comment is not closed")


def all_tokens(sql: str, sql_mode: int) -> Iterator[Token]:
    """Yield all tokens, including spaces. Raises Unreadable for a quote or a plain comment that is not closed."""
    for group, match in _matches(sql, sql_mode):
        yield _token(group, match)


def _matches(sql: str, sql_mode: int) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield each match with its group in the pattern, which is the token's kind."""
    match_next = _pattern(sql_mode & _TOKEN_MODES).match
    position, end = 0, len(sql)
    while position < end:
        match = match_next(sql, position)
        if match is None:
            raise Unreadable("a quote is not closed")
        group = match.lastgroup or ""
        if group == "unclosed":
            raise Unreadable("a comment is not closed")
        if group == "doubtful":
            raise Unreadable("a no-break space is part of a name in one charset, and a space in another")
        yield group, match
        position = match.end()


def _token(group: str, match: re.Match[str]) -> Token:
    kind, raw = _KINDS[group], match.group()
    text, name = raw, None
    if kind is TokenKind.WORD:
        text, name = raw.upper(), raw
    elif kind is TokenKind.NAME:
        name = raw[1:-1].replace(raw[-1] * 2, raw[-1])
    elif kind is TokenKind.STRING:
        text = "''"
    elif kind is TokenKind.NUMBER:
        name = raw if raw.isalnum() else None
    return Token(text, name, raw, match.start(), kind)


def string_value(raw: str, sql_mode: int) -> str:
    r"""Return the value of a quoted string.

    >>> string_value(r"'it''s \\ \%'", 0), string_value(r"'it''s \\'", NO_BACKSLASH_ESCAPES)
    ("it's \\ \\%", "it's \\\\")
    """
    body, quote = raw[1:-1], raw[0]
    if sql_mode & NO_BACKSLASH_ESCAPES:
        return body.replace(quote * 2, quote)
    return re.sub(
        rf"{quote}{quote}|\\([\s\S])", lambda match: _ESCAPED.get(match[1], match[1]) if match[1] else quote, body
    )


_ESCAPED: Final = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_",
}  # fmt: skip
_IN_WORD: Final = r"0-9A-Za-z_$\u0080-\u009f\u00a1-\U0010ffff"


_COMMENT: Final = r"--(?=[\x00-\x20\x7f]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!)[\s\S]*?\*/"
_OPENING: Final = r"/\*M?!(?:\d{5,6})?"
SILENT: Final = re.compile(rf"(?:[ \t-\r;]+|{_COMMENT}|{_OPENING}|\*/)*")
"""Insignificant text between words or before a statement: spaces, comments, semicolons."""


@cache
def _pattern(modes: int) -> re.Pattern[str]:
    """Return the pattern of tokens under these modes, built on demand: a process needs one or two of the eight."""
    ansi_quotes, mssql = modes & ANSI_QUOTES, modes & MSSQL
    escape = "" if modes & NO_BACKSLASH_ESCAPES else r"|\\[\s\S]"
    plain = "" if modes & NO_BACKSLASH_ESCAPES else r"\\"
    single = rf"'(?:[^'{plain}]{escape}|'')*'"
    double = rf'"(?:[^"{plain}]{escape}|"")*"'
    names = [
        r"`(?:[^`]|``)+`",
        *([r'"(?:[^"]|"")+"'] if ansi_quotes else []),
        *([r"\[(?:[^\]]|\]\])+\]"] if mssql else []),
    ]
    strings = [single, *([] if ansi_quotes else [double])]
    return re.compile(
        rf"""(?P<space>[ \t-\r]+)
           | (?P<comment>{_COMMENT})
           | (?P<opening>{_OPENING})
           | (?P<unclosed>/\*)
           | (?P<closing>\*/)
           | (?P<name>{"|".join(names)})
           | (?P<string>{"|".join(strings)})
           | (?P<number>(?<!\.)[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![{_IN_WORD}]))
           | (?P<word>[{_IN_WORD}]+)
           | (?P<doubtful>\u00a0)
           | (?P<sign>[^'"`])""",
        re.VERBOSE,
    )
