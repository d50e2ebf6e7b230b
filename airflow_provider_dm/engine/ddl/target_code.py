r"""Which Code of a statement may run in a target: defaults, expressions and partitions, all of which is known.

The statement runs in the target under its own sql_mode, so Code that is not changed means there what it meant at the
source, if it calls only what computes (`copyable`) and asks neither for the time, nor for chance, nor for who is there.
The moment of the statement is the exception: whoever runs it sets the session's clock to it.

    DEFAULT now(3), DEFAULT -1.5, DEFAULT _latin1 x'e9', AS (a + 1)    are known
    DEFAULT (uuid()), DEFAULT f(1), CHECK (a < rand()), AS (@x)        are not
    DEFAULT _latin1'é'                                                 is not: its bytes depend on the client's charset

Comments are dropped, and so are the marks of those that were executed, as `*/` may stand in a Code whose beginning
`/*!50100` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from airflow_provider_dm.engine.ddl.copyable import COMPUTING, OPERATORS, NotCopyable
from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, Unreadable, pieces, tokens
from airflow_provider_dm.engine.ddl.statements import Code
from airflow_provider_dm.engine.schema.strings import CHARSETS

_UNSAID: Final = frozenset({TokenKind.COMMENT, TokenKind.OPENING, TokenKind.CLOSING})
_MOMENTS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
_ASKING: Final = _MOMENTS | {
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURRENT_ROLE", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "SYSDATE",
    "NEXT", "PREVIOUS", "SELECT", "ROWNUM", "SQLCODE", "SQLERRM", "MATCH", "EXISTS",
}  # fmt: skip
"""Words that call something without parentheses, or may."""
_CONSTANTS: Final = frozenset({"NULL", "TRUE", "FALSE"})
_LITERAL_TYPES: Final = frozenset({"DATE", "TIME", "TIMESTAMP"})
_MARKED: Final = frozenset({"N", "X", "B"})
"""Letters directly before a string."""
_OF_PARTITIONS: Final = frozenset(
    "partition subpartition hash key range list columns than in values into maxvalue and".upper().split()
)
"""Words of partition clauses that parentheses follow."""
_CALLED_IN_PARTITIONS: Final = _OF_PARTITIONS | {"UNIX_TIMESTAMP"}
"""Its session has the time zone of the source's (`zones`)."""
_PLACES: Final = frozenset({"DIRECTORY", "TABLESPACE"})


def plain(code: Code, sql_mode: int) -> Code:
    """Return the Code without comments.

    >>> plain("PARTITION BY HASH (a) */ PARTITIONS 4", 0)
    'PARTITION BY HASH (a)   PARTITIONS 4'
    """
    return "".join(" " if piece.kind in _UNSAID else piece.raw for piece in _read(pieces, code, sql_mode))


def checked_default(code: Code, sql_mode: int, *, of: str, expressions: bool) -> Code:
    """Return what may be a column's default. `expressions`: also one that is computed. Raises NotCopyable."""
    code = plain(code, sql_mode)
    if is_moment(code, sql_mode) or _is_literal(_said(code, sql_mode)):
        return code
    if not expressions:
        raise NotCopyable(f"the default {code} of {of}, which the other flavour may compute in another way")
    try:
        return checked_expression(code, sql_mode)
    except NotCopyable as error:
        raise NotCopyable(f"the default of {of}: {error}") from None


def is_moment(code: Code, sql_mode: int) -> bool:
    """Tell whether it is the moment of the statement, as ON UPDATE has it."""
    found = [token.text for token in _said(code, sql_mode)]
    return bool(found) and found[0] in _MOMENTS and all(text in ("(", ")") or text.isdecimal() for text in found[1:])


def checked_expression(code: Code, sql_mode: int) -> Code:
    """Return an expression that only computes, from literals and columns. Raises NotCopyable."""
    code = plain(code, sql_mode)
    found = _said(code, sql_mode)
    for token, following in zip(found, [*found[1:], None], strict=True):
        calls = following is not None and following.text == "("
        match token.kind:
            case TokenKind.STRING | TokenKind.NUMBER:
                known = True
            case TokenKind.NAME:
                known = not calls
            case TokenKind.SIGN:
                known = token.raw in OPERATORS
            case _:
                known = token.raw.lower() in COMPUTING or (not calls and token.text not in _ASKING)
        if not known:
            raise NotCopyable(f"{token.raw!r} in the expression {code}")
    return code


def checked_partitions(code: Code, sql_mode: int) -> Code:
    """Return a partition clause that says nothing but which row goes where. Raises NotCopyable."""
    code = plain(code, sql_mode)
    found = _said(code, sql_mode)
    before = ""
    for at, token in enumerate(found):
        calls = at + 1 < len(found) and found[at + 1].text == "("
        match token.kind:
            case TokenKind.STRING | TokenKind.NUMBER:
                known = True
            case TokenKind.SIGN:
                known = token.raw in OPERATORS
            case _ if before in ("PARTITION", "SUBPARTITION"):
                known = True  # a partition's name
            case TokenKind.NAME:
                known = not calls
            case _ if token.text == "ENGINE":
                known = next((one.text for one in found[at + 1 :] if one.text != "="), "") == "INNODB"
            case _:
                known = token.text in _CALLED_IN_PARTITIONS or token.raw.lower() in COMPUTING if calls else (
                    token.text not in _ASKING | _PLACES
                )  # fmt: skip
        if not known:
            raise NotCopyable(f"{token.raw!r} in the partitions {code}")
        before = token.text
    return code


def _is_literal(found: list[Token]) -> bool:
    """Tell whether it is a literal: -1, .5, 'a' 'b', N'x', x'41', 0x41, _utf8mb4'x', DATE '2020-01-01', TRUE."""
    texts = [token.text for token in found]
    if texts and texts[0] in ("-", "+"):
        found, texts = found[1:], texts[1:]
    kinds = [token.kind for token in found]
    if texts[:1] == ["."]:
        return len(found) == 2 and texts[1].isdecimal()
    if kinds == [TokenKind.NUMBER]:
        return True
    if len(found) == 1 and (texts[0] in _CONSTANTS or texts[0].startswith(("0X", "0B"))):
        return found[0].kind is TokenKind.WORD
    if kinds[:1] == [TokenKind.WORD] and len(found) > 1:
        known = texts[0] in _MARKED | _LITERAL_TYPES or found[0].raw[1:].lower() in CHARSETS | {"binary"}
        found, kinds = (found[1:], kinds[1:]) if known else ([], [])
    return bool(found) and all(kind is TokenKind.STRING for kind in kinds)


def _said(code: Code, sql_mode: int) -> list[Token]:
    """Return the tokens. Raises NotCopyable."""
    found = _read(tokens, code, sql_mode)
    for introducer, literal in pairwise(found):
        introduces = introducer.raw[:1] == "_" and literal.kind is TokenKind.STRING
        if introduces and introducer.raw[1:].lower() in CHARSETS | {"binary"} and not literal.raw.isascii():
            raise NotCopyable(f"the string {introducer.raw}{literal.raw}, whose bytes are not known")
    return found


def _read(cut: Callable[[str, int], Iterator[Token]], code: Code, sql_mode: int) -> list[Token]:
    try:
        return list(cut(code, sql_mode))
    except Unreadable as error:
        raise NotCopyable(f"the expression {code}: {error}") from None
