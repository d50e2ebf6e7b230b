"""Text in a client's charset, given by the id of its connection's collation.

The log has a statement as its session sent it, in a charset whose characters may end in a backslash or a quote (gbk,
big5, sjis): it is split into characters first, and each is decoded separately. If Python and the servers decode a
character differently, or Python has no codec, it becomes UNSURE: that suffices to find the ends of names, strings and
comments, and marks a name as unknown.

The ids are those of MySQL 5.7 to 9.7 and of MariaDB 10.2 to 11.8, none of which has two charsets:
`information_schema.COLLATIONS` of the one, `COLLATION_CHARACTER_SET_APPLICABILITY` of the other. A missing id is of a
future server; only ASCII is decoded then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.schema.charsets import text_with_gaps

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
SWE7_IDS: Final = frozenset({10, 82, 1034, 1106})
_UNLIKE_ASCII: Final = frozenset(b"@[\\]^`{|}~")
"""The characters that swe7 replaces by letters."""


@dataclass(frozen=True)
class ClientCharset:
    """A charset that clients may use."""

    name: str
    ids: frozenset[int]

    def text(self, sql: bytes) -> str:
        """Return the text of a statement, with UNSURE for each unknown character."""
        return text_with_gaps(self.name, sql)


def _charset(name: str, *ids: int) -> ClientCharset:
    return ClientCharset(name, frozenset(ids))


CLIENT_CHARSETS: Final = (
    _charset("latin1", 5, 8, 15, 31, 47, 48, 49, 94, 1032, 1071),
    _charset("ascii", 11, 65, 1035, 1089),
    _charset("binary", 63),
    _charset("latin2", 2, 9, 21, 27, 77, 1033, 1101),
    _charset("latin5", 30, 78, 1054, 1102),
    _charset("latin7", 20, 41, 42, 79, 1065, 1103),
    _charset("cp1250", 26, 34, 44, 66, 99, 1050, 1090),
    _charset("cp1251", 14, 23, 50, 51, 52, 1074, 1075),
    _charset("cp1256", 57, 67, 1081, 1091),
    _charset("cp1257", 29, 58, 59, 1082, 1083),
    _charset("cp850", 4, 80, 1028, 1104),
    _charset("cp852", 40, 81, 1064, 1105),
    _charset("cp866", 36, 68, 1060, 1092),
    _charset("koi8r", 7, 74, 1031, 1098),
    _charset("koi8u", 22, 75, 1046, 1099),
    _charset("macce", 38, 43, 1062, 1067),
    _charset("macroman", 39, 53, 1063, 1077),
    _charset("hp8", 6, 72, 1030, 1096),
    _charset("greek", 25, 70, 1049, 1094),
    _charset("hebrew", 16, 71, 1040, 1095),
    _charset("tis620", 18, 89, 1042, 1113),
    _charset("armscii8", 32, 64, 1056, 1088),
    _charset("dec8", 3, 69, 1027, 1093),
    _charset("geostd8", 92, 93, 1116, 1117),
    _charset("keybcs2", 37, 73, 1061, 1097),
    _charset("gbk", 28, 87, 1052, 1111),
    _charset("gb2312", 24, 86, 1048, 1110),
    _charset("gb18030", 248, 249, 250),
    _charset("big5", 1, 84, 1025, 1108),
    _charset("sjis", 13, 88, 1037, 1112),
    _charset("cp932", 95, 96, 1119, 1120),
    _charset("euckr", 19, 85, 1043, 1109),
    _charset("ujis", 12, 91, 1036, 1115),
    _charset("eucjpms", 97, 98, 1121, 1122),
)
_BY_ID: Final = {number: charset for charset in CLIENT_CHARSETS for number in charset.ids}


def charset_name(collation: int) -> str | None:
    """Return the charset of a collation, "utf8" for utf8mb3 and utf8mb4; None for a charset that clients cannot use.

    >>> charset_name(255), charset_name(33), charset_name(8), charset_name(63), charset_name(35)
    ('utf8', 'utf8', 'latin1', 'binary', None)
    """
    if collation in UTF8_IDS:
        return "utf8"
    charset = _BY_ID.get(collation)
    return None if charset is None else charset.name


def decoded(sql: bytes, collation: int | None) -> str | None:
    """Return the text of `sql`, or None where not even its characters are known. `collation` None: a server's own text.

    >>> decoded("表é".encode("gbk"), 28), decoded(b"plain", 9999), decoded(b"\\x80", 8), decoded(b"\\x80", 9999)
    ('表é', 'plain', '€', None)
    """
    if collation in SWE7_IDS:
        return sql.decode("ascii") if sql.isascii() and _UNLIKE_ASCII.isdisjoint(sql) else None
    if sql.isascii():
        return sql.decode("ascii")
    if collation is None or collation in UTF8_IDS:
        return sql.decode("utf-8", "replace")
    charset = _BY_ID.get(collation)
    return None if charset is None else charset.text(sql)
