"""Text and binary strings, ENUM and SET: bytes in the column's own charset, never re-guessed.

Canonical text is the bytes as stored. It travels to the target as a quoted literal when its bytes mean the same in
UTF-8 (the pinned session's charset), else in hexadecimal behind its charset's introducer, so that the server converts
where the target column has another charset and nobody else does.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.mysql.literals import hexadecimal, introduced, quote_utf8

UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})
CHARSETS: Final = UTF8_CHARSETS | {"ascii", "latin1"}
"""Charsets of text columns that are supported; `binary` is not text."""

_MEMBER: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'(?:,|$)", re.DOTALL)
_ESCAPE: Final = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}

_CP1252: Final = "".join(bytes([code]).decode("cp1252", "replace") for code in range(256))
LATIN1: Final = "".join(chr(code) if char == "\ufffd" else char for code, char in enumerate(_CP1252))
"""MySQL's latin1: cp1252, with the five codes that it leaves open as C1 controls."""
_LATIN1_ENCODING: Final = codecs.charmap_build(LATIN1)


class MalformedMembers(ValueError):
    """The catalogue's text of an ENUM or SET type cannot be read."""


def latin1_to_utf8(value: bytes) -> bytes:
    """From MySQL's latin1.

    >>> latin1_to_utf8(b"\\x80\\x81").decode()
    '€\\x81'
    """
    return codecs.charmap_decode(value, "strict", LATIN1)[0].encode("utf-8")


def encode(text: str, charset: str) -> bytes:
    """Text of the catalogue in a column's charset. Raises MalformedMembers where it has no such character."""
    try:
        if charset == "latin1":
            return codecs.charmap_encode(text, "strict", _LATIN1_ENCODING)[0]
        return text.encode("ascii" if charset == "ascii" else "utf-8")
    except UnicodeEncodeError as error:
        raise MalformedMembers(f"{text!r} is not in {charset}") from error


def members(column_type: str, charset: str) -> tuple[bytes, ...]:
    """The members of `enum(...)` or `set(...)`, in order, in `charset`. Raises MalformedMembers.

    The catalogues are in utf8mb3: a member outside of the BMP arrives as `?`, and one that really is `?` cannot be told
    from it. Such a type is refused for utf8mb4 columns.

    >>> members("enum('a','it''s','','x,y')", "utf8mb4")
    (b'a', b"it's", b'', b'x,y')
    """
    start, end = column_type.find("("), column_type.rfind(")")
    body = column_type[start + 1 : end]
    texts, position = [], 0
    while position < len(body):
        match = _MEMBER.match(body, position)
        if match is None:
            raise MalformedMembers(column_type)
        texts.append(_ESCAPE.sub(_unescape, match[1]))
        position = match.end()
    if start < 0 or not texts:
        raise MalformedMembers(column_type)
    if charset == "utf8mb4" and any("?" in text for text in texts):
        raise MalformedMembers(f"a member with ? may stand for a character that the catalogue cannot show: {body}")
    return tuple(encode(text, charset) for text in texts)


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "'"
    return _ESCAPED.get(match[1], match[1])


# Canonical -> literal


def text_literal(charset: str) -> Callable[[bytes], bytes]:
    """Writer of literals for text of a charset."""
    if charset in UTF8_CHARSETS:
        return quote_utf8

    def literal(value: bytes) -> bytes:
        return quote_utf8(value) if value.isascii() else introduced(charset, value)

    return literal


binary_literal = hexadecimal


# Canonical -> key form


def text_key(charset: str | None, collation: str | None) -> Callable[[bytes], bytes] | None:
    """How to write text so that values equal under the column's collation are equal bytes; None: not without tables.

    Only collations that compare code points qualify. Trailing spaces are dropped, as PAD SPACE ignores them.
    """
    if collation is None or not collation.endswith("_bin"):
        return None
    if charset == "latin1":
        return lambda value: latin1_to_utf8(value).rstrip(b" ")
    return lambda value: value.rstrip(b" ")


def binary_key(value: bytes) -> bytes:
    """BINARY(n) pads with zeros, VARBINARY does not."""
    return value.rstrip(b"\0")
