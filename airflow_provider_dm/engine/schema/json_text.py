r"""Converts JSON text to a literal from which a MySQL server makes a document that prints the same text.

A server parses text: numbers become 64-bit integers or DOUBLEs. This reproduces every text that a server prints, except
DECIMAL: `1.50` would become `1.5`, and twenty-five digits would be rounded. A document with such a number is built by
functions instead, with the number as a literal of its own (a DECIMAL), and all other parts as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from airflow_provider_dm.engine.mysql.literals import quote_utf8
from airflow_provider_dm.engine.schema.numbers import short_double_text

_SUSPECT: Final = re.compile(rb"\d\.\d|\d{19}")
"""Without a fraction or very many digits a text has no DECIMAL that a parser would change."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[-0-9][-+.0-9eE]*|true|false|null|[][{}]', re.DOTALL)
_DIGITS: Final = b"-0123456789"
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_ALL_ARE_DOUBLES: Final = 1 << 53
"""Every integer below it is a DOUBLE."""
_CALLS: Final = {b"[": b"JSON_ARRAY", b"{": b"JSON_OBJECT"}


def mysql_literal(text: bytes) -> bytes:
    r"""Return a literal for a JSON column of a MySQL server. `text`: as a server printed it.

    >>> mysql_literal(b'{"a": 1.5}'), mysql_literal(b'{"a": [1.50, "x"], "b": {"c": 2.5}}')
    (b'\'{"a": 1.5}\'', b'JSON_OBJECT(\'a\',JSON_ARRAY(1.50,CAST(\'"x"\' AS JSON)),\'b\',CAST(\'{"c": 2.5}\' AS JSON))')
    """
    if _SUSPECT.search(text) is None:
        return quote_utf8(text)
    tokens = _TOKEN.finditer(text)
    whole = _value(next(tokens), tokens)
    if not whole.exact:
        return quote_utf8(text)
    built = _expression(text, whole)
    return built if whole.call else b"CAST(%b AS JSON)" % built


def as_value(text: bytes) -> bytes:
    """Return the same text for documents of equal value, where numbers that are not 64-bit integers are DOUBLEs.

    Text that is not JSON is returned unchanged.

    >>> as_value(b'{"b": 1.0, "a": [3.0e5, 1.50]}') == as_value(b'{"a": [300000, 1.5], "b": 1}')
    True
    """
    try:
        return json.dumps(
            json.loads(text, parse_float=_number, parse_int=_number, strict=False), ensure_ascii=False, sort_keys=True
        ).encode("utf-8", "surrogatepass")
    except ValueError:
        return text


def _number(token: str) -> int | float:
    """Return an integer only if its digits are not those of a DOUBLE, which TiDB prints like an integer.

    >>> [_number(token) for token in ("4571924835867031600", "4571924835867031552", "4571924835867031600.0", "-0.0")]
    [4.5719248358670316e+18, 4571924835867031552, 4.5719248358670316e+18, 0.0]
    """
    number = float(token)
    if abs(number) < _ALL_ARE_DOUBLES or not token.lstrip("-").isdigit():
        return number + 0.0
    whole = int(token)
    return whole if _LEAST <= whole <= _MOST and whole != int(Decimal(repr(number))) else number


@dataclass
class _Piece:
    """A value of the document: the range of its text, and whether a part of it has to be written as a literal."""

    start: int
    end: int
    exact: bool
    call: bytes = b""
    """The function that builds it; empty for a scalar."""
    keys: tuple[bytes, ...] = ()
    """The keys of an object."""
    values: tuple[_Piece, ...] = ()


def _value(first: re.Match[bytes], tokens: Iterator[re.Match[bytes]]) -> _Piece:
    """Return the value that begins with a token. Commas and colons are not tokens."""
    token = first[0]
    if token not in _CALLS:
        return _Piece(first.start(), first.end(), _is_exact(token))
    keys, values = [], []
    for match in tokens:
        if match[0] in (b"]", b"}"):
            break
        if token == b"{":
            keys.append(match[0])
            match = next(tokens)
        values.append(_value(match, tokens))
    else:
        raise ValueError("JSON text that ends inside a container")
    exact = any(value.exact for value in values)
    return _Piece(first.start(), match.end(), exact, _CALLS[token], tuple(keys), tuple(values))


def _is_exact(token: bytes) -> bool:
    """Return True if a scalar is a number that a parser would change."""
    if token[0] not in _DIGITS:
        return False
    if token.lstrip(b"-").isdigit():
        return not -(1 << 63) <= int(token) < 1 << 64
    return short_double_text(float(token)) != token


def _expression(text: bytes, piece: _Piece) -> bytes:
    if not piece.exact:
        return b"CAST(%b AS JSON)" % quote_utf8(text[piece.start : piece.end])
    if not piece.call:
        return text[piece.start : piece.end]
    arguments = [_expression(text, value) for value in piece.values]
    if piece.keys:
        names = [quote_utf8(json.loads(key, strict=False).encode()) for key in piece.keys]
        arguments = [part for pair in zip(names, arguments, strict=True) for part in pair]
    return piece.call + b"(" + b",".join(arguments) + b")"
