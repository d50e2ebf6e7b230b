"""Differences between the dialects of two flavours: collations, columns and keys.

Within a flavour nothing changes. Between flavours a column or key gets the other flavour's equivalent. A feature that
rows do not depend on is left out with a note; a feature that rows depend on, without an equivalent, raises NotCopyable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.column_types import CHARACTER_TYPES
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, KeyDefinition, KeyKind
from airflow_provider_dm.engine.ddl.write import key_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.codec import BINARIES, RAW

MYSQL_TO_MARIADB: Final = {
    "utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_nopad_ci",
    "utf8mb4_0900_as_ci": "utf8mb4_uca1400_nopad_as_ci",
    "utf8mb4_0900_as_cs": "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}
MARIADB_TO_MYSQL: Final = {
    "utf8mb4_uca1400_ai_ci": "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_nopad_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_nopad_as_ci": "utf8mb4_0900_as_ci",
    "utf8mb4_uca1400_nopad_as_cs": "utf8mb4_0900_as_cs",
    "utf8mb4_unicode_520_nopad_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
_UNICODE: Final = "utf8mb4_0900_ai_ci"
MYSQL_TO_TIDB: Final = {"utf8mb4_unicode_520_ci": _UNICODE, "utf8mb4_0900_as_cs": "utf8mb4_0900_bin"}
MARIADB_TO_TIDB: Final = {
    "utf8mb4_uca1400_ai_ci": _UNICODE,
    "utf8mb4_uca1400_nopad_ai_ci": _UNICODE,
    "utf8mb4_uca1400_nopad_as_cs": "utf8mb4_0900_bin",
    "utf8mb4_unicode_520_ci": _UNICODE,
    "utf8mb4_unicode_520_nopad_ci": _UNICODE,
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
"""No replacement treats more characters as equal, so that two different rows of the source never become equal: trailing
spaces are significant in all of them. utf8mb4_unicode_ci, although closer, treats all characters beyond the BMP as
equal."""
COLLATIONS: Final[dict[tuple[Flavour, Flavour], dict[str, str]]] = {
    (Flavour.MYSQL, Flavour.MARIADB): MYSQL_TO_MARIADB,
    (Flavour.MARIADB, Flavour.MYSQL): MARIADB_TO_MYSQL,
    (Flavour.MYSQL, Flavour.TIDB): MYSQL_TO_TIDB,
    (Flavour.MARIADB, Flavour.TIDB): MARIADB_TO_TIDB,
}

_NOPAD: Final = re.compile(r"_nopad_|_0900_")
"""Collations in which trailing spaces are significant."""
_TEXT: Final = re.compile(r"(?:_binary\s*)?'[ -&(-\[\]-~]*'|NULL|-?[0-9.]+", re.IGNORECASE)
"""A default in ASCII without escapes."""
_ENCODED: Final = re.compile("[bx]'|0[bx]", re.IGNORECASE)
"""A default in binary or hexadecimal: bytes in the charset of the column."""
_ONLY_MARIADB: Final = frozenset({"uuid", "inet4", "inet6"})


# Collations


def charset_of(collation: str) -> str:
    """Return the charset with which a collation's name begins.

    >>> charset_of("utf8mb4_0900_ai_ci"), charset_of("binary")
    ('utf8mb4', 'binary')
    """
    return collation.partition("_")[0]


def collation_for(collation: str, source: Flavour, target: Flavour) -> str:
    """Return the collation for the target's family: the same one, or its replacement.

    Without a close replacement it is a collation by code points, in which no two values that the source distinguishes
    are equal. It belongs to another charset if the target lacks the charset.

    >>> collation_for("latin1_swedish_ci", Flavour.MARIADB, Flavour.TIDB)
    'latin1_bin'
    >>> collation_for("sjis_bin", Flavour.MYSQL, Flavour.TIDB)
    'utf8mb4_bin'
    >>> collation_for("utf8mb4_de_pb_0900_ai_ci", Flavour.MYSQL, Flavour.TIDB)
    'utf8mb4_0900_bin'
    """
    becomes = COLLATIONS.get((source, target), {}).get(collation.lower(), collation)
    known = CAPABILITIES[target].collations
    if known is None or becomes.lower() in known:
        return becomes
    if _NOPAD.search(becomes):
        return "utf8mb4_0900_bin"
    by_code_points = f"{charset_of(becomes).lower()}_bin"
    return by_code_points if by_code_points in known else "utf8mb4_bin"


def replaced(collation: str, becomes: str) -> str:
    """Return the description of a replacement.

    >>> replaced("latin1_swedish_ci", "latin1_bin")
    'collation latin1_swedish_ci becomes latin1_bin, which distinguishes upper and lower case and accents'
    """
    distinguishes = becomes.endswith("_bin") and not re.search("_(bin|as_cs)", collation)
    more = ", which distinguishes upper and lower case and accents" if distinguishes else ""
    return f"collation {collation} becomes {becomes}{more}"


def missing_collation(collation: str) -> str:
    """Return the description of a collation for which `collation_compatible: strict` forbids a replacement."""
    return f"the collation {collation}, which the target's family does not have (collation_compatible is strict)"


# Columns and keys


def column_for(
    column: ColumnDefinition, source: Flavour, target: Capabilities, note: Callable[[str], None]
) -> ColumnDefinition:
    """Return the column for the target's flavour; `note` receives differences, for users. Raises NotCopyable."""
    name, kind, options = quote(column.name), column.type, dict(column.options)
    if column.invisible and not target.invisible_columns:
        note(f"{name} is visible")
        column = replace(column, invisible=False)
    if kind.name in RAW and not target.raw_types:
        raise NotCopyable(f"a type that {target.title} lacks: {name} {kind.name}")
    check_default(column, target)
    if _is_one_family(source, target):
        return column
    if column.generated is not None and target.computes_as_sources:
        raise NotCopyable(f"the generated column {name}, whose expression the other flavour may evaluate differently")
    if kind.charset == "gb18030" and not target.gb18030:
        raise NotCopyable(f"the character set {kind.charset}")
    if kind.name == "vector":
        raise NotCopyable(f"a type that only some versions have: {name} {kind.name}")
    if kind.name in _ONLY_MARIADB:
        raise NotCopyable(f"a type that only MariaDB has: {name} {kind.name}")
    if kind.name == "json":
        note(f"{name} json becomes longtext")
        kind = replace(kind, name="longtext", charset="utf8mb4", collation="utf8mb4_bin")
    if options.pop("SRID", None) is not None:
        note(f"{name} accepts any SRID")
    if options.pop("COMPRESSED", None) is not None:
        note(f"{name} is not compressed")
    return replace(column, type=kind, options=tuple(options.items()))


def check_default(column: ColumnDefinition, target: Capabilities) -> None:
    """Raise NotCopyable if the target would read the bytes of a default as other text."""
    default, kind = column.default or "NULL", column.type
    is_bytes = kind.name in BINARIES or kind.charset == "binary"
    in_hex = kind.name in CHARACTER_TYPES and _ENCODED.match(default)
    if target.text_is_utf8 and (in_hex or (is_bytes and not _TEXT.fullmatch(default))):
        raise NotCopyable(f"the default {default} of {quote(column.name)}, which {target.title} reads as text")


def key_for(
    key: KeyDefinition, source: Flavour, target: Capabilities, note: Callable[[str], None]
) -> KeyDefinition | None:
    """Return the key for the target's flavour; None if it is left out. Raises NotCopyable."""
    if key.kind is KeyKind.FULLTEXT and not target.fulltext_keys:
        note(f"the FULLTEXT key {key.name} is left out")
        return None
    if _is_one_family(source, target):
        return key
    if any(part.expression is not None for part in key.parts):
        raise NotCopyable("a key over an expression")
    if key.kind is KeyKind.VECTOR:
        raise NotCopyable(f"a key that only MariaDB has: {key.name}")
    if source is Flavour.MARIADB:
        if ("USING", "HASH") in key.options:
            raise NotCopyable(f"the unique key {key_sql(key)}, which is longer than an index of MySQL can be")
    elif ("INVISIBLE", "") in key.options:
        note(f"the key {key.name} is visible")
        return replace(key, options=tuple(option for option in key.options if option[0] != "INVISIBLE"))
    return key


def _is_one_family(source: Flavour, target: Capabilities) -> bool:
    return CAPABILITIES[source].family is target.family
