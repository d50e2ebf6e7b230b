"""Character sets and collations: the default collation of each charset, and the bytes that a character takes.

Releases differ in the default of utf8mb4, and in the name of utf8mb3, which was `utf8` (`capabilities`). In MariaDB
`utf8` can be configured to mean utf8mb4 (old_mode without UTF8_IS_UTF8MB3), which no log shows: it is read as utf8mb3,
the default. A session's own defaults (MySQL's default_collation_for_utf8mb4, MariaDB's character_set_collations) are
logged with the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import Server

_GENERAL: Final = (
    "armscii8 ascii cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 geostd8 greek hebrew keybcs2 koi8r koi8u latin2 "
    "latin7 macce macroman ucs2 utf16 utf16le utf32 utf8mb3 utf8mb4"
)
DEFAULTS: Final = {name: f"{name}_general_ci" for name in _GENERAL.split()} | {
    "big5": "big5_chinese_ci", "binary": "binary", "cp932": "cp932_japanese_ci", "dec8": "dec8_swedish_ci",
    "eucjpms": "eucjpms_japanese_ci", "euckr": "euckr_korean_ci", "gb18030": "gb18030_chinese_ci",
    "gb2312": "gb2312_chinese_ci", "gbk": "gbk_chinese_ci", "hp8": "hp8_english_ci", "latin1": "latin1_swedish_ci",
    "latin5": "latin5_turkish_ci", "sjis": "sjis_japanese_ci", "swe7": "swe7_swedish_ci", "tis620": "tis620_thai_ci",
    "ujis": "ujis_japanese_ci",
}  # fmt: skip
"""Charset -> its built-in default collation (of all servers; that of utf8mb4 differs)."""
_WIDE: Final = {
    "big5": 2, "cp932": 2, "eucjpms": 3, "euckr": 2, "gb18030": 4, "gb2312": 2, "gbk": 2, "sjis": 2, "ucs2": 2,
    "ujis": 3, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "utf8mb4": 4,
}  # fmt: skip
"""Maximum bytes of a character, for charsets where that is more than one."""
BINARY: Final = "binary"


@dataclass(frozen=True, slots=True)
class Collation:
    """A collation and its charset, by their current names (utf8mb3, never utf8)."""

    charset: str
    name: str


def character_bytes(collation: str) -> int:
    """Return the maximum bytes of a character under a collation, given by its current name."""
    return _WIDE.get(collation.partition("_")[0], 1)


def collation_named(server: Server, name: str, charset: str | None = None) -> Collation:
    """Return the collation of this name. `charset`: the charset for MariaDB's `uca1400_ai_ci`, whose name has none.

    Raises CannotTrack.

    >>> from airflow_provider_dm.engine.mysql.endpoint import Flavour
    >>> collation_named(Server(Flavour.MYSQL, (8, 0, 20)), "utf8_bin")
    Collation(charset='utf8mb3', name='utf8mb3_bin')
    """
    name = name.lower()
    own, _, rest = name.partition("_")
    if own == "utf8":
        own, name = "utf8mb3", f"utf8mb3_{rest}"
    if server.mariadb and own == "uca1400" and charset is not None:
        return Collation(charset, f"{charset}_{name}")
    if own not in DEFAULTS:
        raise CannotTrack(f"the collation {name} is not known")
    return Collation(own, name)


def default_collation(server: Server, charset: str, chosen: Mapping[str, str]) -> Collation:
    """Return a charset's default collation. `chosen`: charset -> collation, as the session sets it. Raises CannotTrack.

    >>> from airflow_provider_dm.engine.mysql.endpoint import Flavour
    >>> default_collation(Server(Flavour.MARIADB, (10, 11, 8)), "UTF8", {})
    Collation(charset='utf8mb3', name='utf8mb3_general_ci')
    """
    charset = {"utf8": "utf8mb3"}.get(charset.lower(), charset.lower())
    if charset not in DEFAULTS:
        raise CannotTrack(f"the character set {charset} is not known")
    built_in = server.can.utf8mb4_default if charset == "utf8mb4" else DEFAULTS[charset]
    return collation_named(server, chosen.get(charset, built_in))


def binary_collation(charset: str) -> Collation:
    """Return the collation that the attribute BINARY means for a charset."""
    return Collation(charset, BINARY if charset == BINARY else f"{charset}_bin")


def shown_charset(server: Server, charset: str) -> str:
    """Return how the server's catalogue writes a charset.

    >>> from airflow_provider_dm.engine.mysql.endpoint import Flavour
    >>> shown_charset(Server(Flavour.MYSQL, (5, 7, 44)), "utf8mb3")
    'utf8'
    """
    return server.can.utf8mb3_charset if charset == "utf8mb3" else charset


def shown_collation(server: Server, name: str) -> str:
    """Return how the server's catalogue writes a collation."""
    return name.replace("utf8mb3", server.can.utf8mb3_collations)
