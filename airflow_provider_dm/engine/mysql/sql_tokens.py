r"""SQL text cut into tokens, the way a server cuts it under the sql_mode of the session that sent it.

Three modes decide where a token ends: under ANSI_QUOTES `"x"` is a name, under MariaDB's MSSQL `[x]` is one as well,
and under NO_BACKSLASH_ESCAPES a backslash is a character like any other. The two others that matter to a grammar
(PIPES_AS_CONCAT, IGNORE_SPACE) cut nothing differently.

Tokens are made one by one, so whoever needs only the head of a statement never meets what stands behind it. Text in
executable comments (`/*!40101 … */`) is cut like any other: servers blank out what they did not run before they log it.

    >>> [token.text for token in tokens('DROP TABLE "a", b -- c', ANSI_QUOTES)]
    ['DROP', 'TABLE', '"a"', ',', 'B']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

ANSI_QUOTES: Final = 1 << 2
MSSQL: Final = 1 << 10
NO_BACKSLASH_ESCAPES: Final = 1 << 20
"""Bits of a session's sql_mode, as the log has them."""


class Token(NamedTuple):
    """A piece of a statement that is neither space nor comment."""

    text: str
    """A word in upper case, a quoted name as it is written, `''` for any string, or one character."""
    name: str | None
    """What the token is as an identifier; None for strings and signs."""


class Unreadable(Exception):
    """A text that is not read with certainty; the argument says why."""


def tokens(sql: str, sql_mode: int) -> Iterator[Token]:
    """Yield the tokens of a statement. Raises Unreadable at a quote or comment that is not closed."""
    pattern = _PATTERNS[bool(sql_mode & ANSI_QUOTES), bool(sql_mode & MSSQL), bool(sql_mode & NO_BACKSLASH_ESCAPES)]
    position = opened = 0
    while position < len(sql):
        match = pattern.match(sql, position)
        if match is None:
            raise Unreadable("a quote is not closed")
        position = match.end()
        text = match.group()
        match match.lastgroup:
            case "opening":
                opened += 1
            case "closing":
                opened -= 1
            case "name":
                yield Token(text, text[1:-1].replace(text[-1] * 2, text[-1]))
            case "string":
                yield Token("''", None)
            case "word":
                yield Token(text.upper(), text)
            case "sign":
                yield Token(text, None)
            case "doubtful":
                raise Unreadable("a no-break space is part of a name in one charset, and a space in another")
    if opened:
        raise Unreadable("a comment is not closed")


def _pattern(*, ansi_quotes: bool, mssql: bool, no_backslash_escapes: bool) -> re.Pattern[str]:
    escape = "" if no_backslash_escapes else r"|\\[\s\S]"
    plain = "" if no_backslash_escapes else r"\\"
    single = rf"'(?:[^'{plain}]{escape}|'')*'"
    double = rf'"(?:[^"{plain}]{escape}|"")*"'
    names = [
        r"`(?:[^`]|``)+`",
        *([r'"(?:[^"]|"")+"'] if ansi_quotes else []),
        *([r"\[(?:[^\]]|\]\])+\]"] if mssql else []),
    ]
    strings = [single, *([] if ansi_quotes else [double])]
    return re.compile(
        rf"""(?P<space>[ \t-\r]+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!)[\s\S]*?\*/)
           | (?P<opening>/\*M?!(?:\d{{5,6}})?)
           | (?P<closing>\*/)
           | (?P<name>{"|".join(names)})
           | (?P<string>{"|".join(strings)})
           | (?P<word>[0-9A-Za-z_$\u0080-\u009f\u00a1-\U0010ffff]+)
           | (?P<doubtful>\u00a0)
           | (?P<sign>[^'"`])""",
        re.VERBOSE,
    )


_BOTH: Final = (False, True)
_PATTERNS: Final = {
    (ansi, mssql, plain): _pattern(ansi_quotes=ansi, mssql=mssql, no_backslash_escapes=plain)
    for ansi in _BOTH
    for mssql in _BOTH
    for plain in _BOTH
}
