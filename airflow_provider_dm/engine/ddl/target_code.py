r"""Checks the SQL code of a statement for a target: defaults, expressions and partitions must have known tokens only.

The statement runs in the target under its own sql_mode, so unchanged Code has the same meaning as at the source, if it
calls only functions that compute and reads neither the time, nor random numbers, nor the session's user.
The current time is the exception: the session that runs the statement sets its clock to the statement's time.

    DEFAULT now(3), DEFAULT -1.5, DEFAULT _latin1 x'e9', AS (a + 1)    are accepted
    DEFAULT (uuid()), DEFAULT f(1), CHECK (a < rand()), AS (@x)        are not
    DEFAULT _latin1'é'                                                 is not: its bytes depend on the client's charset

Comments are dropped, and so are the delimiters of executable comments, as `*/` may be part of a Code that lacks its
beginning `/*!50100`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import pairwise
from typing import Final

from airflow_provider_dm.engine.ddl.errors import NotCopyable, Unreadable
from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, all_tokens, tokens
from airflow_provider_dm.engine.ddl.partitions import CHANGED
from airflow_provider_dm.engine.ddl.statements import Code, ColumnType
from airflow_provider_dm.engine.schema.strings import CHARSETS

_COMPUTE: Final = (
    "abs acos and array as ascii asin atan atan2 between bin binary bit_count bit_length both case cast ceil ceiling "
    "char charset char_length character_length coalesce collate concat concat_ws conv convert cos cot crc32 date "
    "date_add date_sub datediff datetime day dayofmonth dayofweek dayofyear decimal degrees div double else elt end "
    "escape exp extract false field find_in_set floor for from from_days greatest hex hour if ifnull in inet6_aton "
    "inet6_ntoa inet_aton inet_ntoa instr integer interval is isnull json json_array json_contains json_depth "
    "json_extract json_keys json_length json_object json_quote json_type json_unquote json_valid json_value lcase "
    "leading least left length like ln locate log log10 log2 lower lpad ltrim makedate maketime md5 microsecond mid "
    "minute mod month not null nullif oct octet_length or ord pi position pow power quarter quote radians real regexp "
    "regexp_like repeat replace returning reverse right rlike round rpad rtrim sec_to_time second sha sha1 sha2 sign "
    "signed sin soundex space sqrt st_srid st_x st_y strcmp substr substring substring_index tan then time time_to_sec "
    "timediff to_days to_seconds trailing trim true truncate ucase unhex unsigned upper using weekday weekofyear when "
    "xor year yearweek"
)
"""Functions and keywords of expressions. None has side effects, waits, or reads the time."""
_COMPUTING: Final = frozenset(_COMPUTE.split())
_OPERATORS: Final = frozenset("-><=!,+*/%&|^~()")
_DROPPED: Final = frozenset({TokenKind.COMMENT, TokenKind.OPENING, TokenKind.CLOSING})
_MOMENTS: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
_ASKING: Final = _MOMENTS | {
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURRENT_ROLE", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "SYSDATE",
    "NEXT", "PREVIOUS", "SELECT", "ROWNUM", "SQLCODE", "SQLERRM", "MATCH", "EXISTS",
}  # fmt: skip
"""Words that call, or may call, a function without parentheses."""
_OF_CALLS: Final = frozenset("(),-")
_CONSTANTS: Final = frozenset({"NULL", "TRUE", "FALSE"})
_LITERAL_TYPES: Final = frozenset({"DATE", "TIME", "TIMESTAMP"})
_MARKED: Final = frozenset({"N", "X", "B"})
"""Letters directly before a string."""
_OF_PARTITIONS: Final = frozenset(
    "partition subpartition hash key range list columns than in values into maxvalue and".upper().split()
)
"""Words of partition clauses that parentheses may follow."""
_CALLED_IN_PARTITIONS: Final = _OF_PARTITIONS | {"UNIX_TIMESTAMP"}
"""Its session has the time zone of the source's session (`zones`)."""
_MAINTENANCE: Final = ("ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR")
_PLACES: Final = frozenset({"DIRECTORY", "TABLESPACE"})


def plain(code: Code, sql_mode: int) -> Code:
    """Return the Code without comments.

    >>> plain("PARTITION BY HASH (a) */ PARTITIONS 4", 0)
    'PARTITION BY HASH (a)   PARTITIONS 4'
    """
    return "".join(" " if piece.kind in _DROPPED else piece.raw for piece in _read(all_tokens, code, sql_mode))


def checked_default(code: Code, sql_mode: int, *, of: str, expressions: bool) -> Code:
    """Return a valid default of a column. `expressions`: computed defaults are accepted too. Raises NotCopyable."""
    code = plain(code, sql_mode)
    if is_moment(code, sql_mode) or _is_literal(_significant_tokens(code, sql_mode)):
        return code
    if not expressions:
        raise NotCopyable(f"the default {code} of {of}, which the other flavour may compute differently")
    try:
        return checked_expression(code, sql_mode)
    except NotCopyable as error:
        raise NotCopyable(f"the default of {of}: {error}") from None


def plain_default(code: Code, sql_mode: int, functions: Collection[str]) -> Code | None:
    """Return a default that is a literal, the current time, or one of these functions of literals; None for any other.

    >>> plain_default("(json_array(1, 'a'))", 0, {"json_array"}), plain_default("(json_array(a))", 0, {"json_array"})
    ("(json_array(1, 'a'))", None)
    """
    code = plain(code, sql_mode)
    significant = _significant_tokens(code, sql_mode)
    if is_moment(code, sql_mode) or _is_literal(significant):
        return code
    words = [token for token in significant if token.kind is not TokenKind.STRING and token.text not in _OF_CALLS]
    calls = bool(words) and words[0].raw.lower() in functions and "(" in (token.text for token in significant)
    return code if calls and all(_is_literal([token]) for token in words[1:]) else None


def rounded(default: Code, kind: ColumnType) -> Code:
    """Return a default as the source stores it: of a DECIMAL with the column's decimals, of a YEAR with four digits.

    TiDB keeps all decimals, and warns whenever it writes to a row from before the column (1292). It reads a YEAR's 0 as
    the text '0', which means 2000.

    >>> rounded("'-1.005'", ColumnType("decimal", ("9", "2"))), rounded("1.005", ColumnType("double"))
    ('-1.01', '1.005')
    >>> rounded("0", ColumnType("year")), rounded("'0'", ColumnType("year"))
    ("'0000'", "'0'")
    """
    if kind.name == "year" and default.strip("0.") == "":
        return "'0000'"
    if kind.name != "decimal":
        return default
    decimals = int(kind.arguments[1]) if len(kind.arguments) > 1 else 0
    try:
        number = Decimal(default.strip("'\"").replace(" ", ""))
    except InvalidOperation:
        return default
    if decimals >= -int(number.as_tuple().exponent):
        return default
    return f"{number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, Context(prec=MAX_PREC)):f}"


def is_moment(code: Code | None, sql_mode: int = 0) -> bool:
    """Return True if the code is the current time, as in ON UPDATE.

    A column of MariaDB with such a default loses its ON UPDATE when it gets another default, or none.
    """
    words = [] if code is None else [token.text for token in _significant_tokens(code, sql_mode)]
    return bool(words) and words[0] in _MOMENTS and all(text in ("(", ")") or text.isdecimal() for text in words[1:])


def checked_expression(code: Code, sql_mode: int) -> Code:
    """Return an expression that only computes, over literals and columns. Raises NotCopyable."""
    code = plain(code, sql_mode)
    significant = _significant_tokens(code, sql_mode)
    for token, following in zip(significant, [*significant[1:], None], strict=True):
        calls = following is not None and following.text == "("
        match token.kind:
            case TokenKind.STRING | TokenKind.NUMBER:
                known = True
            case TokenKind.NAME:
                known = not calls
            case TokenKind.SIGN:
                known = token.raw in _OPERATORS
            case _:
                known = token.raw.lower() in _COMPUTING or (not calls and token.text not in _ASKING)
        if not known:
            raise NotCopyable(f"{token.raw!r} in the expression {code}")
    return code


def is_maintenance(clause: Code) -> bool:
    """Return True for maintenance of partitions, which changes nothing."""
    return clause.upper().startswith(_MAINTENANCE)


def checked_partitions(code: Code, sql_mode: int) -> Code:
    """Return a partition clause that only assigns rows to partitions. Raises NotCopyable."""
    if code.startswith(CHANGED):
        raise NotCopyable("the partitions of a table whose single partitions have changed, and are not known")
    code = plain(code, sql_mode)
    significant = _significant_tokens(code, sql_mode)
    before = ""
    for at, token in enumerate(significant):
        calls = at + 1 < len(significant) and significant[at + 1].text == "("
        match token.kind:
            case TokenKind.STRING | TokenKind.NUMBER:
                known = True
            case TokenKind.SIGN:
                known = token.raw in _OPERATORS
            case _ if before in ("PARTITION", "SUBPARTITION"):
                known = True  # a partition's name
            case TokenKind.NAME:
                known = not calls
            case _ if token.text == "ENGINE":
                known = next((one.text for one in significant[at + 1 :] if one.text != "="), "") == "INNODB"
            case _:
                known = token.text in _CALLED_IN_PARTITIONS or token.raw.lower() in _COMPUTING if calls else (
                    token.text not in _ASKING | _PLACES
                )  # fmt: skip
        if not known:
            raise NotCopyable(f"{token.raw!r} in the partitions {code}")
        before = token.text
    return code


def _is_literal(literal: list[Token]) -> bool:
    """Return True for a literal: -1, .5, 'a' 'b', N'x', x'41', 0x41, _utf8mb4'x', DATE '2020-01-01', TRUE."""
    texts = [token.text for token in literal]
    if texts and texts[0] in ("-", "+"):
        literal, texts = literal[1:], texts[1:]
    kinds = [token.kind for token in literal]
    if texts[:1] == ["."]:
        return len(literal) == 2 and texts[1].isdecimal()
    if kinds == [TokenKind.NUMBER]:
        return True
    if len(literal) == 1 and (texts[0] in _CONSTANTS or texts[0].startswith(("0X", "0B"))):
        return literal[0].kind is TokenKind.WORD
    if kinds[:1] == [TokenKind.WORD] and len(literal) > 1:
        known = texts[0] in _MARKED | _LITERAL_TYPES or literal[0].raw[1:].lower() in CHARSETS | {"binary"}
        literal, kinds = (literal[1:], kinds[1:]) if known else ([], [])
    return bool(literal) and all(kind is TokenKind.STRING for kind in kinds)


def _significant_tokens(code: Code, sql_mode: int) -> list[Token]:
    """Return the tokens without comments. Raises NotCopyable."""
    significant = _read(tokens, code, sql_mode)
    for introducer, literal in pairwise(significant):
        introduces = introducer.raw[:1] == "_" and literal.kind is TokenKind.STRING
        if introduces and introducer.raw[1:].lower() in CHARSETS | {"binary"} and not literal.raw.isascii():
            raise NotCopyable(f"the string {introducer.raw}{literal.raw}, whose bytes are not known")
    return significant


def _read(cut: Callable[[str, int], Iterator[Token]], code: Code, sql_mode: int) -> list[Token]:
    try:
        return list(cut(code, sql_mode))
    except Unreadable as error:
        raise NotCopyable(f"the expression {code}: {error}") from None
