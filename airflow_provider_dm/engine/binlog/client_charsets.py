"""Text that a client sent, by the id of its connection's collation.

A statement stands in the log as its session sent it. Four charsets are read: UTF-8 in both widths, latin1 and ASCII.
In the others (gbk, sjis, cp1251, …) a statement is read as far as it is ASCII, which all of them agree on but swe7.

The ids are those of MySQL 5.7 to 9.7 and of MariaDB 10.2 to 11.8, of which none means two charsets:
`information_schema.COLLATIONS` of the one, `COLLATION_CHARACTER_SET_APPLICABILITY` of the other. An id that is not
here is one of another charset, or of a server to come; the same caution is right for both.
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.schema.strings import latin1_to_utf8

UTF8_IDS: Final = frozenset(
    {
        *(33, 76, 83, *range(192, 216), 223),  # utf8mb3
        *(*range(576, 580), 1057, 1107, 1216, 1238),  # MariaDB: Croatian and Myanmar, NOPAD
        *(*range(2048, 2216), *range(2232, 2248)),  # MariaDB: uca1400
        *(45, 46, *range(224, 248)),  # utf8mb4
        *range(255, 324),  # MySQL 8 and 9: uca0900
        *(*range(608, 612), 1069, 1070, 1248, 1270),
        *(*range(2304, 2472), *range(2488, 2504)),
    }
)
LATIN1_IDS: Final = frozenset({5, 8, 15, 31, 47, 48, 49, 94, 1032, 1071})
ASCII_IDS: Final = frozenset({11, 65, 1035, 1089})
SWE7_IDS: Final = frozenset({10, 82, 1034, 1106})
_UNLIKE_ASCII: Final = frozenset(b"@[\\]^`{|}~")
"""Where swe7 has letters."""


def decoded(sql: bytes, collation: int | None) -> str | None:
    """The text of `sql`, or None where it cannot be read with certainty. `collation` None: a server's own text.

    >>> decoded("é".encode("gbk"), 28), decoded(b"plain", 28), decoded("é".encode(), 45), decoded(b"\\x80", 8)
    (None, 'plain', 'é', '€')
    """
    if collation in SWE7_IDS:
        return sql.decode("ascii") if sql.isascii() and _UNLIKE_ASCII.isdisjoint(sql) else None
    if sql.isascii():
        return sql.decode("ascii")
    if collation in LATIN1_IDS:
        sql = latin1_to_utf8(sql)
    elif collation is not None and collation not in UTF8_IDS:
        return None
    try:
        return sql.decode("utf-8")
    except UnicodeDecodeError:
        return None
