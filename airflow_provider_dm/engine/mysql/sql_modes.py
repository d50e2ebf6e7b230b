"""The bits of sql_mode in a binlog, and their names.

Source: MySQL `sql/system_variables.h`, MariaDB `sql/sql_class.h`; checked by `SET sql_mode = <number>` on MySQL 9.7
and MariaDB 10.11 (tests/integration/mysql).
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.mysql.endpoint import Flavour

_COMMON: Final = {
    0: "REAL_AS_FLOAT", 1: "PIPES_AS_CONCAT", 2: "ANSI_QUOTES", 3: "IGNORE_SPACE", 5: "ONLY_FULL_GROUP_BY",
    6: "NO_UNSIGNED_SUBTRACTION", 7: "NO_DIR_IN_CREATE", 18: "ANSI", 19: "NO_AUTO_VALUE_ON_ZERO",
    20: "NO_BACKSLASH_ESCAPES", 21: "STRICT_TRANS_TABLES", 22: "STRICT_ALL_TABLES", 23: "NO_ZERO_IN_DATE",
    24: "NO_ZERO_DATE", 25: "ALLOW_INVALID_DATES", 26: "ERROR_FOR_DIVISION_BY_ZERO", 27: "TRADITIONAL",
    29: "HIGH_NOT_PRECEDENCE", 30: "NO_ENGINE_SUBSTITUTION", 31: "PAD_CHAR_TO_FULL_LENGTH",
}  # fmt: skip
_MYSQL_TIME_TRUNCATE: Final = 1 << 32
_MARIADB_TIME_ROUND: Final = 1 << 34
_SETS_OTHERS: Final = {"ANSI", "TRADITIONAL"}
"""Names that imply other modes, each of which has a bit of its own."""


def mode_names(bits: int) -> tuple[str, ...]:
    """Return the names of the modes in `bits` that every family has.

    Modes of one family (MariaDB's MSSQL and ORACLE) are left out: statements are parsed with them, and written without
    them. `mode_text` handles the modes for fractions of seconds.

    >>> mode_names(1 << 22 | 1 << 2)
    ('ANSI_QUOTES', 'STRICT_ALL_TABLES')
    """
    return tuple(name for bit, name in _COMMON.items() if bits >> bit & 1 and name not in _SETS_OTHERS)


def mode_bits(text: str) -> int:
    """Return the bits of the named modes; modes that not every family has are ignored.

    >>> mode_names(mode_bits("ANSI_QUOTES,TIME_TRUNCATE_FRACTIONAL"))
    ('ANSI_QUOTES',)
    """
    names = text.split(",")
    return sum(1 << bit for bit, name in _COMMON.items() if name in names)


def mode_text(bits: int, source: Flavour, target: Flavour) -> str:
    """Return the sql_mode in which a statement has the same effect in a session on the target as it had at the source.

    If a column has fewer decimals of a second than the value, MariaDB truncates and MySQL rounds; each has a mode for
    the other's behaviour.

    >>> mode_text(1 << 22, Flavour.MARIADB, Flavour.MYSQL)
    'STRICT_ALL_TABLES,TIME_TRUNCATE_FRACTIONAL'
    """
    names = mode_names(bits)
    rounds = bool(bits & _MARIADB_TIME_ROUND) if source is Flavour.MARIADB else not bits & _MYSQL_TIME_TRUNCATE
    if target is Flavour.TIDB:
        names = tuple(name for name in names if name != "PAD_CHAR_TO_FULL_LENGTH")
    elif target is Flavour.MARIADB and rounds:
        names += ("TIME_ROUND_FRACTIONAL",)
    elif target is Flavour.MYSQL and not rounds:
        names += ("TIME_TRUNCATE_FRACTIONAL",)
    return ",".join(names)
