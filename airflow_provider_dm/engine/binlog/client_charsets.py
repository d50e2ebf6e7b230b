"""Text that a client sent, by the id of its connection's collation.

A statement stands in the log as its session sent it, in a charset whose characters may end in a backslash or a quote
(gbk, big5, sjis): it is cut into characters first, and each is read for itself. Where Python and the servers do not
take a character for the same one, or Python has no codec, UNSURE stands for it: enough to tell where names, strings and
comments end, and it says of a name that it is not known.

The ids are those of MySQL 5.7 to 9.7 and of MariaDB 10.2 to 11.8, of which none means two charsets:
`information_schema.COLLATIONS` of the one, `COLLATION_CHARACTER_SET_APPLICABILITY` of the other. An id that is not
here is one of a server to come; of its text only ASCII is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.binlog.charsets import decoder

UNSURE: Final = "\N{REPLACEMENT CHARACTER}"
"""In a text: one character that could not be read with certainty."""

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
"""Where swe7 has letters."""

_ONE_BYTE: Final = rb"[\x80-\xff]"
_TO_FE: Final = rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"
_EUC: Final = rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}"
_SJIS: Final = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"


@dataclass(frozen=True)
class ClientCharset:
    """A charset that clients may speak. `characters`: those of several bytes; `codec`: Python's, "" for none.

    `differs`: the characters that the servers and Python's codec do not take for the same one.
    """

    name: str
    ids: frozenset[int]
    characters: bytes = b""
    codec: str = ""
    differs: frozenset[bytes] = frozenset()

    def text(self, sql: bytes) -> str:
        """Return the text of a statement, with UNSURE for what is not known."""
        read = decoder(self.name) or self._read
        cut = re.compile(self.characters + b"|" + _ONE_BYTE if self.characters else _ONE_BYTE)
        found: list[str] = []
        position = 0
        for match in cut.finditer(sql):
            found += (sql[position : match.start()].decode("ascii"), self._one(match.group(), read))
            position = match.end()
        return "".join((*found, sql[position:].decode("ascii")))

    def _one(self, character: bytes, read: Callable[[bytes], str]) -> str:
        try:
            return UNSURE if character in self.differs else read(character)
        except UnicodeDecodeError:
            return UNSURE

    def _read(self, character: bytes) -> str:
        return character.decode(self.codec or "ascii")


def _charset(
    name: str, *ids: int, characters: bytes = b"", codec: str = "", differs: tuple[str, ...] = ()
) -> ClientCharset:
    return ClientCharset(name, frozenset(ids), characters, codec, frozenset(map(bytes.fromhex, differs)))


CLIENT_CHARSETS: Final = (
    _charset("latin1", 5, 8, 15, 31, 47, 48, 49, 94, 1032, 1071),
    _charset("ascii", 11, 65, 1035, 1089),
    _charset("binary", 63),
    _charset("latin2", 2, 9, 21, 27, 77, 1033, 1101),
    _charset("latin5", 30, 78, 1054, 1102),
    _charset("latin7", 20, 41, 42, 79, 1065, 1103),
    _charset("cp1250", 26, 34, 44, 66, 99, 1050, 1090),
    _charset("cp1251", 14, 23, 50, 51, 52, 1074, 1075),
    _charset("cp1256", 57, 67, 1081, 1091, codec="cp1256", differs=("8a", "8f", "98", "9a", "9f", "aa", "c0", "ff")),
    _charset("cp1257", 29, 58, 59, 1082, 1083),
    _charset("cp850", 4, 80, 1028, 1104),
    _charset("cp852", 40, 81, 1064, 1105),
    _charset("cp866", 36, 68, 1060, 1092, codec="cp866", differs=("fc", "fd")),
    _charset("koi8r", 7, 74, 1031, 1098),
    _charset("koi8u", 22, 75, 1046, 1099, codec="koi8-u", differs=("95",)),
    _charset("macce", 38, 43, 1062, 1067),
    _charset("macroman", 39, 53, 1063, 1077),
    _charset("hp8", 6, 72, 1030, 1096),
    _charset("greek", 25, 70, 1049, 1094, codec="iso8859-7", differs=("a1", "a2", "a4", "a5", "aa")),
    _charset("hebrew", 16, 71, 1040, 1095, codec="iso8859-8", differs=("af",)),
    _charset("tis620", 18, 89, 1042, 1113, codec="tis-620"),
    _charset("armscii8", 32, 64, 1056, 1088),
    _charset("dec8", 3, 69, 1027, 1093),
    _charset("geostd8", 92, 93, 1116, 1117),
    _charset("keybcs2", 37, 73, 1061, 1097),
    _charset("gbk", 28, 87, 1052, 1111, characters=_TO_FE),
    _charset("gb2312", 24, 86, 1048, 1110, characters=rb"[\xa1-\xf7][\xa1-\xfe]"),
    _charset(
        *("gb18030", 248, 249, 250),
        characters=rb"(?:[\x81-\xfe][\x30-\x39]){2}|" + _TO_FE,
        codec="gb18030",
        differs=("a8bc",),
    ),
    _charset(
        *("big5", 1, 84, 1025, 1108),
        characters=rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
        codec="big5",
        differs=("a15a", "a1c3", "a1c5", "a1fe", "a240", "a2cc", "a2ce"),
    ),
    _charset("sjis", 13, 88, 1037, 1112, characters=_SJIS, codec="shift_jis", differs=("815f",)),
    _charset(
        *("cp932", 95, 96, 1119, 1120),
        characters=_SJIS,
        codec="cp932",
        differs=("80", "a0", "fd", "fe", "ff"),
    ),
    _charset(
        *("euckr", 19, 85, 1043, 1109),
        characters=rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]",
        codec="cp949",
    ),
    _charset("ujis", 12, 91, 1036, 1115, characters=_EUC, codec="euc_jp", differs=("a1c0",)),
    _charset(
        *("eucjpms", 97, 98, 1121, 1122),
        characters=_EUC,
        codec="euc_jp",
        differs=("a1c1", "a1c2", "a1dd", "a1f1", "a1f2", "a2cc", "8fa2b7", "8fa2c3"),
    ),
)
_BY_ID: Final = {number: charset for charset in CLIENT_CHARSETS for number in charset.ids}


def charset_name(collation: int) -> str | None:
    """Return the charset of a collation, "utf8" for both of utf8mb3 and utf8mb4; None for what clients do not speak.

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
