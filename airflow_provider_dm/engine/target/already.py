"""Whether a column that the target has already is the one that a statement would make: whether old rows have its value.

A refusal says only that a column of that name is there. Where a person has made the same change before, its rows have
the same values as the source's. Where it is an extra column of the target's, they have others; so have those of a
column that is to get another name. Compared is what decides over the values of rows that are there: default, NULL,
numbering, and the expression of a computed column. Type, charset and place the caller looks at afterwards, as at the
beginning of a task. What cannot be compared with certainty is another column. A default that is the moment of the
statement is another one: each has its own.

    said: ADD COLUMN w int NOT NULL DEFAULT 5    there: `w` bigint(20) NOT NULL DEFAULT '5'     ─▶  it is that column
    said: ADD COLUMN w int DEFAULT 5             there: `w` int(11) DEFAULT NULL                ─▶  it is not

Other things that are there already have no such values: a key or a constraint refuses rows, or lets them in.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.copyable import NotCopyable
from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, Unreadable, string_value, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AlterTable,
    Code,
    ColumnDefinition,
    CreateTable,
    KeyKind,
)
from airflow_provider_dm.engine.ddl.target_code import is_moment
from airflow_provider_dm.engine.rules.mapping import family_of

_NUMBERS: Final = frozenset({"integer", "decimal", "float"})
_BITS: Final = "bit"
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]+)-([0-9]+)(?: ([0-9]+):([0-9]+)(?::([0-9]+)(?:[.]([0-9]*))?)?)?")
_TIME: Final = re.compile(r"(-?)([0-9]+):([0-9]+)(?::([0-9]+)(?:[.]([0-9]*))?)?")
_MOMENTS: Final = {"date": _DATE, "datetime": _DATE, "timestamp": _DATE, "time": _TIME}
_BASES: Final = {"X": 16, "B": 2}
_CONSTANTS: Final = {"TRUE": "1", "FALSE": "0"}

_Value: TypeAlias = tuple[object, ...]
_NULL: Final[_Value] = ("NULL",)


def is_the_same_column(sql: str, sql_mode: int, shown: str | None) -> bool:
    """Tell whether the table has the columns that an ALTER TABLE would add, as far as its old rows depend on them.

    `shown`: the table's SHOW CREATE TABLE in a session of that sql_mode (and time zone); None: it is not there.
    """
    try:
        said, there = (parse(one, sql_mode, "any") for one in (sql, shown or ""))
    except Unreadable:
        return False
    if not (isinstance(said, AlterTable) and isinstance(there, CreateTable)):
        return False
    columns = {one.name.lower(): one for one in there.definition.columns}
    return all(
        isinstance(spec, AddColumn)
        and (column := columns.get(spec.column.name.lower())) is not None
        and _is_same(spec.column, column, sql_mode)
        for spec in said.specs
    )


def _is_same(said: ColumnDefinition, there: ColumnDefinition, sql_mode: int) -> bool:
    if said.generated is not None or there.generated is not None:
        return _code(said.generated, sql_mode) == _code(there.generated, sql_mode)
    if said.auto_increment or there.auto_increment:
        return said.auto_increment and there.auto_increment
    if _nullable(said) != _nullable(there):
        return False
    defaults = said.default, there.default
    try:
        if any(one is not None and is_moment(one, sql_mode) for one in defaults):
            return False
    except NotCopyable:
        return False
    kind = said.type.name if said.type.name in _MOMENTS else family_of(said.type.name)
    return _default(said.default, kind, sql_mode) == _default(there.default, kind, sql_mode)


def _nullable(column: ColumnDefinition) -> bool:
    return column.nullable is not False and column.key is not KeyKind.PRIMARY


def _code(code: Code | None, sql_mode: int) -> _Value | None:
    """Return an expression as its tokens, however a server writes names, words and strings; None: there is none."""
    return None if code is None else tuple(_bare(one, sql_mode) for one in _cut(code, sql_mode))


def _bare(token: Token, sql_mode: int) -> tuple[str, str]:
    if token.kind is TokenKind.STRING:
        return "''", string_value(token.raw, sql_mode)
    return "", token.raw.lower() if token.name is None else token.name.lower()


def _cut(code: Code, sql_mode: int) -> list[Token]:
    """Return the tokens without parentheses around all, and without the charset that a server writes before strings."""
    found = [one for one in tokens(code, sql_mode) if one.raw.lower() != "_utf8mb4"]
    while found and found[0].raw == "(" and _closes_last(found):
        found = found[1:-1]
    return found


def _closes_last(found: list[Token]) -> bool:
    """Tell whether the first parenthesis is closed by the last token.

    >>> [_closes_last(list(tokens(code, 0))) for code in ("(a + (1))", "(a) + (1)")]
    [True, False]
    """
    depth = 0
    for at, token in enumerate(found):
        depth += (token.raw == "(") - (token.raw == ")")
        if depth == 0:
            return at == len(found) - 1
    return False


def _default(code: Code | None, kind: str, sql_mode: int) -> _Value:
    r"""Return the value of a default, or the expression that it is. `kind`: the column's family of types.

    >>> _default("-5", "integer", 0) == _default("'-5.0'", "integer", 0), _default("b'101'", "bit", 0)
    (True, ('number', Decimal('5')))
    >>> _default("'2024-01-01'", "datetime", 0) == _default("'2024-01-01 00:00:00.000'", "datetime", 0)
    True
    >>> _default("'it''s'", "text", 0) == _default(r"'it\'s'", "text", 0), _default(None, "text", 0)
    (True, ('NULL',))
    """
    found = [] if code is None else _cut(code, sql_mode)
    sign = "-" if found and found[0].raw == "-" else ""
    if found and found[0].raw in ("-", "+"):
        found = found[1:]
    match found:
        case []:
            return _NULL
        case [Token(text="NULL")]:
            return _NULL
        case [Token(kind=TokenKind.STRING) as token] if not sign:
            return _constant(string_value(token.raw, sql_mode), kind)
        case [Token(kind=TokenKind.NUMBER) as token]:
            return _constant(sign + token.raw, kind)
        case [Token(raw="."), token] if token.raw.isdecimal():
            return _constant(f"{sign}.{token.raw}", kind)
        case [Token(text="TRUE" | "FALSE") as token]:
            return _constant(sign + _CONSTANTS[token.text], kind)
        case [Token(text="X" | "B") as base, Token(kind=TokenKind.STRING) as token] if kind == _BITS and not sign:
            digits = string_value(token.raw, sql_mode)
            return ("number", Decimal(int(digits or "0", _BASES[base.text])))
    return ("expression", _code(code, sql_mode))


def _constant(value: str, kind: str) -> _Value:
    if kind in _NUMBERS or kind == _BITS:
        try:
            return ("number", Decimal(value))
        except InvalidOperation:
            return ("text", value)
    if (match := _MOMENTS[kind].fullmatch(value) if kind in _MOMENTS else None) is not None:
        *parts, fraction = (part or "" for part in match.groups())
        return ("moment", *(part.lstrip("0") for part in parts), fraction.rstrip("0"))
    return ("text", value)
