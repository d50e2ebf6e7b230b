"""The kind of a logged statement, by its first words, which is all that a scan of the log needs to know.

Every statement that is neither transaction control nor a row change counts as DDL here; `engine.sync` decides whether
it matters. The bytes are in the client's charset, which a scan does not determine: keywords are ASCII in every charset,
so each byte is read as one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import takewhile
from typing import Final

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import SILENT, Token, TokenKind, all_tokens, tokens

_MOST_SHOWN: Final = 80
_SHOWN: Final = frozenset({TokenKind.NAME, TokenKind.WORD})
_DATA_FOLLOWS: Final = frozenset({"SET", "VALUE", "VALUES", "SELECT", "WHERE"})


class StatementKind(Enum):
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
    **dict.fromkeys(("BEGIN", "START"), StatementKind.BEGIN),
    "COMMIT": StatementKind.COMMIT,
    **dict.fromkeys(("SAVEPOINT", "RELEASE"), StatementKind.SAVEPOINT),
    "XA": StatementKind.XA,
    # SELECT f() where f changes rows
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO", "SELECT"),
                    StatementKind.ROW_CHANGE),
}  # fmt: skip


_USUAL: Final = {b"BEGIN": StatementKind.BEGIN, b"COMMIT": StatementKind.COMMIT}
"""The statements that servers log around each transaction: a dictionary lookup saves the lexer."""


def kind_of(sql: bytes) -> StatementKind:
    """Return the kind of a statement.

    >>> kind_of(b"/* app */ insert into t values (1)"), kind_of(b"ROLLBACK TO `s`"), kind_of(b"# Dummy event")
    (<StatementKind.ROW_CHANGE: 'row change'>, <StatementKind.ROLLBACK_TO: 'rollback to savepoint'>, <StatementKind.NOTHING: 'a comment'>)
    """  # noqa: E501
    if sql in _USUAL:
        return _USUAL[sql]
    match _words(sql, 3):
        case []:
            return StatementKind.NOTHING
        case ["ROLLBACK", "TO", *_] | ["ROLLBACK", "WORK", "TO"]:
            return StatementKind.ROLLBACK_TO
        case ["ROLLBACK", *_]:
            return StatementKind.ROLLBACK
        case [first, *_]:
            return _BY_FIRST_WORD.get(first, StatementKind.DDL)
        case _:
            return StatementKind.DDL


def xa_verb(sql: bytes) -> str:
    """Return the verb of an XA statement: START, END, PREPARE, COMMIT or ROLLBACK; "" if it has none.

    >>> xa_verb(b"XA START X'78',X'',1")
    'START'
    """
    return "".join(_words(sql, 2)[1:])


def is_of_temporary_table(sql: bytes) -> bool:
    """Return True if a statement creates or drops a temporary table, and so changes no permanent table.

    >>> is_of_temporary_table(b"DROP /*!40005 TEMPORARY */ TABLE IF EXISTS t"), is_of_temporary_table(b"DROP TABLE t")
    (True, False)
    """
    words = _words(sql, 4)
    return words[:1] in (["CREATE"], ["DROP"]) and "TEMPORARY" in (words[1:4] if words[1:2] == ["OR"] else words[1:2])


def head_of_row_change(sql: bytes) -> str:
    """Return the beginning of a row change for messages, without data: comments and the rest of it can hold data.

    >>> head_of_row_change(b"/* app */ UPDATE `t` SET a = 1"), head_of_row_change(b"INSERT INTO t(a) VALUES ('s3cret')")
    ('UPDATE `t` …', 'INSERT INTO t …')
    """
    head = takewhile(lambda token: token.kind in _SHOWN or token.text in (".", ","), _readable(sql))
    words = takewhile(lambda token: token.text not in _DATA_FOLLOWS, head)
    shown = re.sub(r" ?\. ?", ".", " ".join(word.raw for word in words).replace(" ,", ","))[:_MOST_SHOWN]
    return f"{shown.encode('latin-1').decode('utf-8', 'replace')} …".lstrip()


def first_words(sql: str) -> str:
    """Return the first words of a statement for messages, as its literals can be data."""
    return " ".join(re.sub(r"\s+", " ", sql).split(" ")[:4])


def _words(sql: bytes, count: int) -> list[str]:
    """Return the text of the first tokens; "?" marks the position from which the text cannot be read.

    Insignificant text is skipped by one match, whatever its length: a log may contain a megabyte of semicolons.
    """
    text, position = sql.decode("latin-1"), 0
    words: list[str] = []
    while len(words) < count:
        position = SILENT.match(text, position).end()  # type: ignore[union-attr]  # the pattern matches an empty text
        if position == len(text):
            break
        try:
            piece = next(all_tokens(text[position:], 0))
        except Unreadable:
            words.append("?")
            break
        words.append(piece.text)
        position += len(piece.raw)
    return words


def _readable(sql: bytes) -> Iterator[Token]:
    """Yield the tokens up to the position from which the text cannot be read, which is marked by "?"."""
    try:
        yield from tokens(sql.decode("latin-1"), 0)
    except Unreadable:
        yield Token("?", None, "?", 0, TokenKind.SIGN)
