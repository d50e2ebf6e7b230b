"""Decides whether a target table already has the result of a statement: an equal column, or a renamed key.

A refusal only means that a column of that name exists. If a user has made the same change before, its rows have the
source's values. If it is an extra column of the target, or one that is to be renamed, its rows have other values. The
properties that decide the values of existing rows are compared: default, NULL, AUTO_INCREMENT, and the expression of a
generated column. The caller compares type, charset and position afterwards, as at the start of a task. A column that
cannot be compared with certainty counts as different, and so does the current time as a default.

    statement: ADD COLUMN w int NOT NULL DEFAULT 5    target: `w` bigint(20) NOT NULL DEFAULT '5'     ─▶  equal
    statement: ADD COLUMN w int DEFAULT 5             target: `w` int(11) DEFAULT NULL                ─▶  different

A key that is to be renamed does not exist if it was renamed before, and also if it was dropped or never created. So the
new name has to exist. Other objects that exist already have no values: a key or a constraint either refuses rows or
accepts them.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.errors import NotCopyable, Unreadable
from airflow_provider_dm.engine.ddl.lexer import Token, TokenKind, string_value, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AlterTable,
    Code,
    ColumnDefinition,
    CreateTable,
    KeyDefinition,
    KeyKind,
    RenameKey,
    SetKeyVisibility,
    Spec,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.target_code import is_moment
from airflow_provider_dm.engine.rules.mapping import type_family

_NUMBERS: Final = frozenset({"integer", "decimal", "float"})
_BITS: Final = "bit"
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]+)-([0-9]+)(?: ([0-9]+):([0-9]+)(?::([0-9]+)(?:[.]([0-9]*))?)?)?")
_TIME: Final = re.compile(r"(-?)([0-9]+):([0-9]+)(?::([0-9]+)(?:[.]([0-9]*))?)?")
_MOMENTS: Final = {"date": _DATE, "datetime": _DATE, "timestamp": _DATE, "time": _TIME}
_BASES: Final = {"X": 16, "B": 2}
_CONSTANTS: Final = {"TRUE": "1", "FALSE": "0"}

_Value: TypeAlias = tuple[object, ...]
_NULL: Final[_Value] = ("NULL",)


def has_result(sql: str, sql_mode: int, shown: str | None) -> bool:
    """Return True if the table has the columns that an ALTER TABLE adds, with the same values, and the keys it renames.

    `shown`: the table's SHOW CREATE TABLE in a session with this sql_mode (and time zone); None: it does not exist.
    """
    try:
        statement, existing = (parse(text, sql_mode, "any") for text in (sql, shown or ""))
    except Unreadable:
        return False
    if not (isinstance(statement, AlterTable) and isinstance(existing, CreateTable)):
        return False
    return all(_has(spec, existing.definition, sql_mode) for spec in statement.specs)


def _has(spec: Spec, table: TableDefinition, sql_mode: int) -> bool:
    match spec:
        case AddColumn(added):
            same = (column for column in table.columns if column.name.lower() == added.name.lower())
            return any(_is_same(added, one, sql_mode) for one in same)
        case RenameKey(_, to):
            keys = (constraint.name for constraint in table.constraints if isinstance(constraint, KeyDefinition))
            return to.lower() in (str(name).lower() for name in keys)
        case SetKeyVisibility():  # of a key that the target does without
            return True
    return False


def _is_same(added: ColumnDefinition, existing: ColumnDefinition, sql_mode: int) -> bool:
    if added.generated is not None or existing.generated is not None:
        return _code(added.generated, sql_mode) == _code(existing.generated, sql_mode)
    if added.auto_increment or existing.auto_increment:
        return added.auto_increment and existing.auto_increment
    if _nullable(added) != _nullable(existing):
        return False
    defaults = added.default, existing.default
    try:
        if any(default is not None and is_moment(default, sql_mode) for default in defaults):
            return False
    except NotCopyable:
        return False
    kind = added.type.name if added.type.name in _MOMENTS else type_family(added.type.name)
    return _default(added.default, kind, sql_mode) == _default(existing.default, kind, sql_mode)


def _nullable(column: ColumnDefinition) -> bool:
    return column.nullable is not False and column.key is not KeyKind.PRIMARY


def _code(code: Code | None, sql_mode: int) -> _Value | None:
    """Return an expression as its tokens, independent of a server's notation; None if there is none."""
    return None if code is None else tuple(_bare(word, sql_mode) for word in _cut(code, sql_mode))


def _bare(token: Token, sql_mode: int) -> tuple[str, str]:
    if token.kind is TokenKind.STRING:
        return "''", string_value(token.raw, sql_mode)
    return "", token.raw.lower() if token.name is None else token.name.lower()


def _cut(code: Code, sql_mode: int) -> list[Token]:
    """Return the tokens without enclosing parentheses, and without the introducers that a server adds to strings."""
    found = [token for token in tokens(code, sql_mode) if token.raw.lower() != "_utf8mb4"]
    while found and found[0].raw == "(" and _closes_last(found):
        found = found[1:-1]
    return found


def _closes_last(found: list[Token]) -> bool:
    """Return True if the first parenthesis is closed by the last token.

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
    r"""Return the value or the expression of a default. `kind`: the column's family of types.

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
