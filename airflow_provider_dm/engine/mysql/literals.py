"""SQL literals of bytes, for the session that `connection.connect` pins.

The pinned session has `SET NAMES utf8mb4` and a sql_mode without NO_BACKSLASH_ESCAPES and ANSI_QUOTES, so a literal
is safe if backslash and single quote are escaped. Text in another charset is sent in hexadecimal digits with an
introducer, so nothing is converted, and no byte of a character (gbk's 0x5c) is read as a backslash.
"""

from __future__ import annotations

from typing import Final

NULL: Final = b"NULL"


def quote_utf8(value: bytes) -> bytes:
    r"""Return valid UTF-8 bytes as a quoted literal.

    >>> quote_utf8(b"it's")
    b"'it\\'s'"
    """
    return b"'" + escaped(value) + b"'"


def escaped(value: bytes) -> bytes:
    """Put a backslash before each backslash and quote."""
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b"'" in value:
        value = value.replace(b"'", b"\\'")
    return value


def hexadecimal(value: bytes) -> bytes:
    """Return bytes as a binary literal x'…': the empty string has no form with 0x.

    >>> hexadecimal(b"\\x00\\xff")
    b"x'00ff'"
    """
    return b"x'" + value.hex().encode("ascii") + b"'"


def introduced(charset: bytes, value: bytes) -> bytes:
    """Return bytes of a non-UTF-8 charset as `_charset x'..'`, which the server does not convert."""
    return b"_" + charset + b" " + hexadecimal(value)
