"""The parser of expression filters: text to a tree, which `compiled` interprets.

    expression := and/or/xor/not of tests         a = 1 AND NOT (b IN (2, 3) OR c IS NULL)
    test       := sum [comparison sum] | sum IS [NOT] NULL|TRUE|FALSE|UNKNOWN | sum [NOT] IN|BETWEEN|LIKE …
    sum        := the usual arithmetic of columns, constants, function calls, CASE … END, and whole expressions in
                  parentheses

Operators have MySQL's precedence. A text that the two flavours, or two sql_modes, read differently (`||`, `!`,
`a = b = c`) is refused: parentheses make it unambiguous. Anything unknown is refused as well.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import TokenKind
from airflow_provider_dm.engine.ddl.token_reader import Reader
from airflow_provider_dm.engine.rules.expressions.functions import FUNCTIONS


@dataclass(frozen=True)
class Constant:
    """A literal as written: `null`, `integer`, `decimal`, `double`, `text` or `bytes` (hexadecimal digits)."""

    kind: str
    text: str


@dataclass(frozen=True)
class ColumnRef:
    name: str


@dataclass(frozen=True)
class Collated:
    """`… COLLATE name`."""

    operand: Tree
    collation: str


@dataclass(frozen=True)
class _Binary:
    """Two operands and the operator between them."""

    sign: str
    left: Tree
    right: Tree


class Arithmetic(_Binary):
    """`+`, `-`, `*`, `/`, `%` or DIV."""


@dataclass(frozen=True)
class Negative:
    operand: Tree


class Comparison(_Binary):
    """`=`, `<=>`, `<>`, `<`, `<=`, `>` or `>=`."""


@dataclass(frozen=True)
class Is:
    """`IS NULL`, `IS TRUE` or `IS FALSE`; UNKNOWN is NULL."""

    operand: Tree
    what: str


@dataclass(frozen=True)
class In:
    operand: Tree
    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Between:
    operand: Tree
    low: Tree
    high: Tree


@dataclass(frozen=True)
class Like:
    operand: Tree
    pattern: Tree


@dataclass(frozen=True)
class Not:
    operand: Tree


class Logical(_Binary):
    """AND, OR or XOR."""


@dataclass(frozen=True)
class Call:
    """A function by its name in capitals, and its arguments."""

    name: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True)
class Case:
    """`CASE [operand] WHEN … THEN … [ELSE …] END`; `branches` are pairs of WHEN and THEN."""

    operand: Tree | None
    branches: tuple[tuple[Tree, Tree], ...]
    otherwise: Tree


Tree: TypeAlias = (
    Constant
    | ColumnRef
    | Collated
    | Arithmetic
    | Negative
    | Comparison
    | Is
    | In
    | Between
    | Like
    | Not
    | Logical
    | Call
    | Case
)

_COMPARISONS: Final = ("<=>", "<>", "!=", "<=", ">=", "=", "<", ">")
_LOGICAL: Final[tuple[dict[str, str], ...]] = ({"OR": "OR"}, {"XOR": "XOR"}, {"AND": "AND", "&&": "AND"})
"""Operators and their meaning, by increasing precedence."""
_RESERVED: Final = frozenset(
    {
        *("AND", "OR", "XOR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "NULL", "TRUE", "FALSE", "DIV", "MOD", "CASE"),
        *("BINARY", "INTERVAL", "EXISTS", "SELECT", "REGEXP", "RLIKE", "COLLATE", "DEFAULT", "MATCH", "CONVERT", "IF"),
        *("VALUES", "WHEN", "THEN", "ELSE"),
        *("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME", "LOCALTIMESTAMP"),
        *("UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"),
    }
)
"""Words that can be something else than a column name unless they are quoted."""
_BEFORE_STRINGS: Final = frozenset({"DATE", "TIME", "TIMESTAMP", "X", "B", "N"})
"""Words that decide the meaning of a string after them; alone they are ordinary names."""


def read_expression(text: str) -> Tree:
    """Parse an expression as a session with an empty sql_mode would. Raises Unreadable."""
    reader = Reader(text, 0, "")
    tree = _logical(reader, 0)
    if reader.peek():
        raise Unreadable(f"unexpected {reader.token().raw}")
    return tree


def _logical(reader: Reader, level: int) -> Tree:
    if level == len(_LOGICAL):
        return _negated(reader)
    tree = _logical(reader, level + 1)
    while sign := _sign(reader, _LOGICAL[level]):
        tree = Logical(_LOGICAL[level][sign], tree, _logical(reader, level + 1))
    return tree


def _negated(reader: Reader) -> Tree:
    if reader.skip("NOT"):
        return Not(_negated(reader))
    return _test(reader)


def _test(reader: Reader) -> Tree:
    left = _predicate(reader)
    if sign := _sign(reader, _COMPARISONS):
        tree: Tree = Comparison("<>" if sign == "!=" else sign, left, _predicate(reader))
        if reader.peek() == "IS" or _operator(reader) in _COMPARISONS:
            raise Unreadable("one comparison follows another: put the first one in parentheses")
        return tree
    if not reader.skip("IS"):
        return left
    negated = reader.skip("NOT")
    what = reader.skip_any(("NULL", "UNKNOWN", "TRUE", "FALSE"))
    if not what or reader.peek() == "IS":
        raise Unreadable("IS is followed by something other than NULL, TRUE, FALSE or UNKNOWN")
    test = Is(left, "NULL" if what == "UNKNOWN" else what)
    return Not(test) if negated else test


def _predicate(reader: Reader) -> Tree:
    left = _sum(reader)
    negated = reader.peek() == "NOT" and reader.peek(1) in ("IN", "BETWEEN", "LIKE")
    if negated:
        reader.expect("NOT")
    tree: Tree
    if reader.skip("IN"):
        tree = In(left, reader.in_parentheses(lambda: _sum(reader)))
    elif reader.skip("BETWEEN"):
        low = _sum(reader)
        reader.expect("AND")
        tree = Between(left, low, _sum(reader))
    elif reader.skip("LIKE"):
        tree = Like(left, _sum(reader))
        if reader.peek() == "ESCAPE":
            raise Unreadable("LIKE … ESCAPE is not supported")
    else:
        return left
    return Not(tree) if negated else tree


def _sum(reader: Reader) -> Tree:
    tree = _product(reader)
    while sign := _sign(reader, ("+", "-")):
        tree = Arithmetic(sign, tree, _product(reader))
    return tree


def _product(reader: Reader) -> Tree:
    tree = _factor(reader)
    while sign := _sign(reader, ("*", "/", "%", "DIV", "MOD")):
        tree = Arithmetic("%" if sign == "MOD" else sign, tree, _factor(reader))
    return tree


def _factor(reader: Reader) -> Tree:
    if _sign(reader, ("-",)):
        return Negative(_factor(reader))
    if _sign(reader, ("+",)):
        return _factor(reader)
    tree = _primary(reader)
    while reader.skip("COLLATE"):
        tree = Collated(tree, reader.value().lower())
    return tree


def _primary(reader: Reader) -> Tree:
    if reader.skip("("):
        tree = _logical(reader, 0)
        reader.expect(")")
        return tree
    token, follows = reader.token(), reader.peek(1)
    match token.kind:
        case TokenKind.NUMBER if follows != ".":
            reader.word()
            kind = "double" if "e" in token.raw.lower() else "decimal" if "." in token.raw else "integer"
            if token.raw.lower().startswith(("0x", "0b")):
                raise Unreadable(f"{token.raw} is not understood")
            return Constant(kind, token.raw)
        case TokenKind.STRING:
            text = reader.string()
            if reader.peek() == "''":
                raise Unreadable("two strings are adjacent")
            return Constant("text", text)
        case TokenKind.NAME:
            reader.word()
            return _column(reader, token.name or "")
        case TokenKind.WORD:
            return _word(reader, token.text, token.raw, follows)
        case _:
            raise Unreadable(f"unexpected {token.raw}")


def _word(reader: Reader, text: str, raw: str, follows: str) -> Tree:
    if text in ("NULL", "TRUE", "FALSE"):
        reader.word()
        return Constant("null", raw) if text == "NULL" else Constant("integer", "1" if text == "TRUE" else "0")
    if text == "X" and follows == "''":
        reader.word()
        return _hexadecimal(reader.string())
    if text.startswith("0X") and len(text) > 2:
        reader.word()
        return _hexadecimal(raw[2:])
    if text == "CASE":
        return _case(reader)
    if follows == "(":
        if text not in FUNCTIONS:
            raise Unreadable(f"the function {raw} is not supported")
        reader.word()
        return Call(text, reader.in_parentheses(lambda: _logical(reader, 0)))
    if text in _RESERVED or (follows == "''" and (text.startswith("_") or text in _BEFORE_STRINGS)):
        raise Unreadable(f"unexpected {raw} (a column of that name needs `quotes`)")
    reader.word()
    return _column(reader, raw)


def _case(reader: Reader) -> Case:
    reader.expect("CASE")
    operand = None if reader.peek() == "WHEN" else _logical(reader, 0)
    branches = []
    while reader.skip("WHEN"):
        test = _logical(reader, 0)
        reader.expect("THEN")
        branches.append((test, _logical(reader, 0)))
    if not branches:
        raise Unreadable("CASE has no WHEN")
    otherwise = _logical(reader, 0) if reader.skip("ELSE") else Constant("null", "NULL")
    reader.expect("END")
    return Case(operand, tuple(branches), otherwise)


def _column(reader: Reader, name: str) -> Tree:
    if reader.peek() in (".", "("):
        raise Unreadable(f"{name} is followed by {reader.peek()}: a column has no qualifier")
    return ColumnRef(name)


def _hexadecimal(digits: str) -> Constant:
    try:
        bytes.fromhex(digits)
    except ValueError:
        raise Unreadable(f"{digits} is not an even number of hexadecimal digits") from None
    return Constant("bytes", digits)


def _sign(reader: Reader, signs: Collection[str]) -> str:
    """Consume the next operator if it is one of these, and return it; otherwise return ""."""
    if not reader.peek():
        return ""
    if reader.token().kind is TokenKind.WORD:
        return reader.skip_any(signs)
    sign = _operator(reader)
    if sign not in signs:
        return ""
    reader.at += len(sign)
    return sign


def _operator(reader: Reader) -> str:
    """Return the next operator, of one or more characters: the lexer returns each character separately."""
    operator = reader.peek()
    if operator not in _OPERATOR_CHARACTERS:
        return operator
    while (follows := reader.peek(len(operator))) in _OPERATOR_CHARACTERS:
        if reader.token(len(operator)).start != reader.token(len(operator) - 1).end:
            break
        operator += follows
    return operator


_OPERATOR_CHARACTERS: Final = frozenset("<>=!&|")
