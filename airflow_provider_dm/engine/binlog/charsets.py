"""Text of a column's charset as Python's text, for the charsets where both mean the same.

For every charset here the servers' own conversion to UTF-8 and Python's agree on every sequence of bytes that Python
reads (tests/integration/binlog/test_charsets.py asks them); what Python does not read raises. A charset that is missing
(big5, sjis, euckr, greek …) is one where they differ, or where the server knows characters that Python does not.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from airflow_provider_dm.engine.schema.strings import LATIN1

Decoder: TypeAlias = Callable[[bytes], str]
"""Raises UnicodeDecodeError."""

CODECS: Final = {
    **dict.fromkeys(("utf8mb4", "utf8mb3", "utf8"), "utf-8"),
    "ascii": "ascii",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "koi8r": "koi8-r",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "hp8": "hp-roman8",
    "gbk": "gbk",
    "gb2312": "gb2312",
}
"""Charset -> Python's codec."""


def _latin1(value: bytes) -> str:
    return codecs.charmap_decode(value, "strict", LATIN1)[0]


def _ucs2(value: bytes) -> str:
    text = value.decode("utf-16-be")
    if len(text) * 2 != len(value):  # two halves of a character that ucs2 does not have
        raise UnicodeDecodeError("ucs2", value, 0, len(value), "surrogates")
    return text


_OWN: Final[dict[str, Decoder]] = {"latin1": _latin1, "ucs2": _ucs2}


def decoder(charset: str) -> Decoder | None:
    """Return the function that decodes text of this charset; None: it can only be shown as bytes.

    >>> decoder("latin1")(b"\\x80")
    '€'
    """
    if charset in _OWN:
        return _OWN[charset]
    name = CODECS.get(charset)
    return None if name is None else partial(_decode, codecs.getdecoder(name))


def _decode(decode: Callable[[bytes], tuple[str, int]], value: bytes) -> str:
    return decode(value)[0]
