r"""SQL expressions rewritten for an empty sql_mode, or with new column names.

    "a" || 'x\y'  (ANSI_QUOTES, NO_BACKSLASH_ESCAPES)  ─▶  `a` || 'x\\y'

Only quotes are rewritten. The meaning of an operator that depends on sql_mode (`||`) is not: the format of rows does
not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import (
    ANSI_QUOTES,
    MSSQL,
    NO_BACKSLASH_ESCAPES,
    Token,
    TokenKind,
    all_tokens,
    string_value,
)
from airflow_provider_dm.engine.ddl.statements import CheckConstraint, Code, Constraint, KeyDefinition, TableDefinition
from airflow_provider_dm.engine.ddl.write import string_sql
from airflow_provider_dm.engine.mysql.identifiers import quote

_OF_QUOTES = ANSI_QUOTES | MSSQL | NO_BACKSLASH_ESCAPES


def without_mode(code: Code, sql_mode: int) -> Code:
    """Return the code with quotes that mean the same in a session with an empty sql_mode.

    >>> without_mode('"a" + 1', ANSI_QUOTES)
    '`a` + 1'
    """
    if not sql_mode & _OF_QUOTES:
        return code
    return "".join(_requoted(piece, sql_mode) for piece in all_tokens(code, sql_mode))


def in_mode(code: Code, sql_mode: int) -> Code:
    r"""Return code for an empty sql_mode with strings that mean the same in a session with this sql_mode.

    >>> print(in_mode(r"concat(`a`, 'x\\y')", NO_BACKSLASH_ESCAPES))
    concat(`a`, 'x\y')
    """
    if not sql_mode & _OF_QUOTES:
        return code
    strings = TokenKind.STRING
    tokens = all_tokens(code, 0)
    return "".join(string_sql(string_value(one.raw, 0), sql_mode) if one.kind is strings else one.raw for one in tokens)


def definition_in_mode(definition: TableDefinition, sql_mode: int) -> TableDefinition:
    """Return a table's definition, whose code is for an empty sql_mode, for a session with this sql_mode."""
    if not sql_mode & _OF_QUOTES:
        return definition

    def coded(code: Code | None) -> Code | None:
        return None if code is None else in_mode(code, sql_mode)

    def check(given: CheckConstraint) -> CheckConstraint:
        return replace(given, expression=in_mode(given.expression, sql_mode))

    def constraint(one: Constraint) -> Constraint:
        match one:
            case CheckConstraint():
                return check(one)
            case KeyDefinition():
                return replace(one, parts=tuple(replace(part, expression=coded(part.expression)) for part in one.parts))
        return one

    columns = tuple(
        replace(
            column,
            default=coded(column.default),
            generated=coded(column.generated),
            checks=tuple(map(check, column.checks)),
        )
        for column in definition.columns
    )
    return replace(definition, columns=columns, constraints=tuple(map(constraint, definition.constraints)))


def with_names(code: Code, names: Mapping[str, str]) -> Code:
    """Return the code with columns renamed. `names`: new names by the old name in lower case.

    >>> with_names("(`a` + length(b))", {"a": "x", "length": "y"})
    '(`x` + length(b))'
    """
    tokens = list(_tokens(code))
    columns = {piece.start for piece in _columns(tokens)}
    changed = [
        quote(names[piece.name.lower()])
        if piece.start in columns and piece.name is not None and piece.name.lower() in names
        else piece.raw
        for piece in tokens
    ]
    return "".join(changed)


def mentions(code: Code, name: str) -> bool:
    """Return True if the code may refer to a column of this name."""
    return any((piece.name or "").lower() == name.lower() for piece in _columns(list(_tokens(code))))


def _tokens(code: Code) -> Iterator[Token]:
    try:
        yield from all_tokens(code, 0)
    except Unreadable:
        return


def _columns(tokens: list[Token]) -> Iterator[Token]:
    """Yield possible column names: quoted names, and words that are not function calls."""
    for piece, following in zip(tokens, [*tokens[1:], None], strict=True):
        calls = following is not None and following.raw in ("(", "'")
        if piece.kind is TokenKind.NAME or (piece.kind is TokenKind.WORD and not calls):
            yield piece


def _requoted(piece: Token, sql_mode: int) -> str:
    if piece.kind is TokenKind.NAME and piece.name is not None:
        return quote(piece.name)
    return string_sql(string_value(piece.raw, sql_mode)) if piece.kind is TokenKind.STRING else piece.raw
