"""Text and binary strings, ENUM and SET: bytes in the column's own charset, never guessed.

Canonical text is the stored bytes. It is written to the target as a quoted literal if its bytes mean the same in UTF-8
(the pinned session's charset), otherwise in hexadecimal with an introducer for its charset. So only the server converts
text, if the target column has another charset.

A member of ENUM or SET is UTF-8 for any charset of the column, as in the catalogue.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.schema.errors import MalformedValue

UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_ASCII: Final = (
    "armscii8 ascii big5 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 eucjpms euckr gb18030 gb2312 gbk "
    "geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman tis620 ujis"
)
ASCII_CHARSETS: Final = frozenset(_ASCII.split())
"""Charsets in which bytes below 128 are ASCII, in both directions, on both servers (verified for each byte)."""
OTHER_CHARSETS: Final = frozenset({"sjis", "swe7", "ucs2", "utf16", "utf16le", "utf32"})
CHARSETS: Final = UTF8_CHARSETS | ASCII_CHARSETS | OTHER_CHARSETS
"""Charsets of text columns: all of MySQL 9.7 and MariaDB 10.11. `binary` is not text."""

INVALID_MEMBER: Final = b"\xff"
"""The canonical value of an ENUM's index 0, which is shown as the empty string: not UTF-8, so never a member."""
_ALL_IN_CATALOGUE: Final = frozenset({"ascii", "latin1", "ucs2", "utf8", "utf8mb3"})
"""Charsets whose characters the catalogue can all show."""

_MEMBER: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'(?:,|$)", re.DOTALL)
_ESCAPE: Final = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}

_CP1252: Final = "".join(bytes([code]).decode("cp1252", "replace") for code in range(256))
LATIN1: Final = "".join(chr(code) if char == "\ufffd" else char for code, char in enumerate(_CP1252))
"""MySQL's latin1: cp1252, with the five undefined codes as C1 controls."""


def latin1_text(value: bytes) -> str:
    """Decode MySQL's latin1.

    >>> latin1_text(b"\\x80\\x81")
    '€\\x81'
    """
    return codecs.charmap_decode(value, "strict", LATIN1)[0]


def charset_bytes(text: str, charset: str | None) -> bytes | None:
    """Return text in a column's charset; None if the charset lacks a character, or is not supported here.

    >>> charset_bytes("é€", "latin1"), charset_bytes("é", "ascii"), charset_bytes("é", "koi8r")
    (b'\\xe9\\x80', None, None)
    """
    try:
        if charset == "latin1":
            return bytes(map(LATIN1.index, text))
        if charset in UTF8_CHARSETS:
            narrow = charset == "utf8mb4" or all(ord(character) < 0x10000 for character in text)
            return text.encode("utf-8") if narrow else None
        return text.encode("ascii") if charset in ASCII_CHARSETS else None
    except ValueError:
        return None


def members(column_type: str, charset: str) -> tuple[bytes, ...]:
    """Return the members of `enum(...)` or `set(...)`, in order, in UTF-8. Raises MalformedValue.

    The catalogue is in utf8mb3 and shows a character that it lacks as `?`, like a real `?`. Such a type is refused if
    the column's charset has characters that the catalogue lacks.

    >>> [member.decode() for member in members("enum('a','it''s','','x,y','é')", "latin1")]
    ['a', "it's", '', 'x,y', 'é']
    """
    start, end = column_type.find("("), column_type.rfind(")")
    body = column_type[start + 1 : end]
    texts, position = [], 0
    while position < len(body):
        match = _MEMBER.match(body, position)
        if match is None:
            raise MalformedValue(column_type)
        texts.append(_ESCAPE.sub(_unescape, match[1]))
        position = match.end()
    if start < 0 or not texts:
        raise MalformedValue(column_type)
    if charset not in _ALL_IN_CATALOGUE and any("?" in text for text in texts):
        raise MalformedValue(f"a member with ? may be one with a character that the catalogue cannot show: {body}")
    return tuple(text.encode("utf-8") for text in texts)


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "'"
    return _ESCAPED.get(match[1], match[1])


# Canonical -> key form


def text_key(charset: str | None, collation: str | None) -> Callable[[bytes], bytes] | None:
    """Return a function that maps text that is equal under the column's collation to equal bytes; None if that needs
    the collation's weights.

    Supported are collations that compare code points, of charsets that this module can write in UTF-8. Trailing spaces
    are dropped, as PAD SPACE ignores them.
    """
    if collation is None or not collation.endswith("_bin"):
        return None
    if charset == "latin1":
        return lambda value: latin1_text(value).encode("utf-8").rstrip(b" ")
    return member_key if charset in UTF8_CHARSETS or charset == "ascii" else None


def member_key(value: bytes) -> bytes:
    """Drop trailing spaces of UTF-8 text that is compared by code points."""
    return value.rstrip(b" ")


def binary_key(value: bytes) -> bytes:
    """Drop trailing zero bytes: BINARY(n) pads with zeros, VARBINARY does not."""
    return value.rstrip(b"\0")
