"""The changes of a column's type that convert values in the same way on every server.

A statement that changes the type of a column converts the existing rows, once on the source and again on the target.
Two servers of one family and release compute the same values. For other pairs only these conversions are known to be
the same (tests/integration/ddl/test_conversions.py runs each on MariaDB, MySQL and TiDB with boundary values; TiDB
refuses some charsets and NULL → NOT NULL, which stops the task):

    integer → integer, DECIMAL        all values fit
    integer → CHAR, VARCHAR, TEXT     likewise, without ZEROFILL
    DECIMAL → DECIMAL                 at least as many digits before the point; one more with fewer after it, as all
                                      servers round halves away from zero
    FLOAT → DOUBLE                    both without digits
    CHAR, VARCHAR, TEXT → the same    at least as long, or from CHAR to VARCHAR and TEXT; also from ascii, latin1 or
                                      utf8mb3 to utf8mb4, and to any other collation
    BINARY, VARBINARY, BLOB           likewise, also from BINARY to VARBINARY and BLOB
    ENUM → ENUM                       all members stay, also in another order, and none is the empty text
    ENUM → ENUM, SET → SET            members are appended
    DATE → DATETIME
    DATETIME, TIMESTAMP, TIME → the same, and TIMESTAMP → DATETIME      at least as many fractional digits
    BIT → BIT                         at least as many bits
    NULL → NOT NULL                   for all these types; for other types in a strict session, where no row is NULL

In a strict session the source's server has already verified that all values fit. So a shorter text, a smaller integer,
and the reverse conversions between those charsets are the same as well. A new column is filled with its default, for
which two servers compute the same value, except for the defaults that `_filled` lists. A new generated column is the
same on servers of one family, and on all servers if it is a sum or a product of integers and decimals.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.collations import character_bytes
from airflow_provider_dm.engine.ddl.column_types import CHARACTER_TYPES, MEMBERS, TEXT_SIZES, WIDTHS, octets
from airflow_provider_dm.engine.ddl.lexer import tokens
from airflow_provider_dm.engine.ddl.statements import (
    ChangeColumn,
    Code,
    ColumnDefinition,
    ColumnType,
    DropColumn,
    DropPartitions,
    RenameColumn,
    Spec,
    TableDefinition,
    TruncatePartitions,
)
from airflow_provider_dm.engine.mysql.capabilities import Version, capabilities_of
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.codec import BINARIES, TEXTS
from airflow_provider_dm.engine.schema.strings import UTF8_CHARSETS

Pair: TypeAlias = tuple[ColumnDefinition | None, ColumnDefinition]
"""A column before and after a statement; None before if the statement adds it."""

_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
"""Maximum digits of an integer, signed or unsigned."""
_CHARSETS: Final = UTF8_CHARSETS | {"ascii", "latin1"}
_CLOCKS: Final = frozenset({"datetime", "timestamp", "time"})
_LOCAL: Final = {"timestamp": "datetime"}
_USUAL: Final = frozenset(
    {*WIDTHS, "decimal", "float", "double", *TEXTS, *BINARIES, *MEMBERS, *_CLOCKS, "date", "year", "bit"}
)
"""Types for which every server makes the same value of a NULL in a column that becomes NOT NULL."""
_NUMBER: Final = re.compile(r"[-+.0-9].*|TRUE|FALSE", re.IGNORECASE)
_DAY: Final = re.compile(r"'[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}'")


def unlike(source: tuple[Flavour, Version], target: tuple[Flavour, Version]) -> str:
    """Return the names of two servers that may compute a conversion differently; "" if they compute the same.

    >>> unlike((Flavour.MARIADB, (10, 11, 19)), (Flavour.MYSQL, (9, 7, 0)))
    'MariaDB 10.11 at the source and MySQL 9.7 in the target'
    >>> unlike((Flavour.MYSQL, (8, 0, 36)), (Flavour.MYSQL, (8, 0, 42)))
    ''
    """
    if source[0] is target[0] and source[1][:2] == target[1][:2]:
        return ""
    names = (f"{capabilities_of(*server).title} {'.'.join(map(str, server[1][:2]))}" for server in (source, target))
    return "{} at the source and {} in the target".format(*names)


def column_pairs(before: TableDefinition, after: TableDefinition, specs: Sequence[Spec]) -> Iterator[Pair]:
    """Yield each column after an ALTER TABLE with these clauses, paired with the same column before it."""
    named = {one.name.lower(): one for one in before.columns}
    new_names = {name: name for name in named}
    for spec in specs:
        match spec:
            case DropColumn(name):
                new_names.pop(name.lower(), None)
            case ChangeColumn(name, column) if name.lower() in new_names:
                new_names[name.lower()] = column.name.lower()
            case RenameColumn(name, to) if name.lower() in new_names:
                new_names[name.lower()] = to.lower()
    old_names = {new: old for old, new in new_names.items()}
    for column in after.columns:
        old = old_names.get(column.name.lower())
        yield None if old is None else named[old], column


def computed(pair: Pair, *, strict: bool, numbers: Collection[str] | None = None) -> str | None:
    """Describe the column's values that servers may compute differently; None if all compute the same.

    `strict`: the session rejects values that do not fit. `numbers`: the lower-case names of the table's integer and
    decimal columns; None if the target computes expressions, and rounds fractions of a second, as its sources do.
    """
    old, new = pair
    if old is None:
        return _filled(new) or (None if numbers is None else _filled_in_its_own_way(new, numbers))
    name = quote(new.name)
    if new.generated is not None and (old.generated, old.type) != (new.generated, new.type):
        return f"{name} is computed again"
    if not keeps_values(old.type, new.type, strict=strict):
        return f"{name} becomes {type_text(new.type)}, and was {type_text(old.type)}"
    to_not_null = old.nullable is not False and new.nullable is False
    if to_not_null and not strict and new.type.name not in _USUAL:
        return f"{name} becomes NOT NULL"
    return None


def _filled_in_its_own_way(column: ColumnDefinition, numbers: Collection[str]) -> str | None:
    """Describe the values of a new column that a target computes otherwise than all sources; None if there are none."""
    name, default, kind = quote(column.name), column.default or "", column.type
    if column.generated is not None and not _is_sum(column.generated, numbers):
        return f"{name} is computed for existing rows"
    fraction = default.strip("'").partition(".")[2].rstrip("0") if default.startswith("'") else ""
    if kind.name in _CLOCKS and len(fraction) > _size(kind):
        return f"the default {default} of {name} has more decimals than the column"
    return None


def _is_sum(code: Code, numbers: Collection[str]) -> bool:
    """Return True if an expression has only integers, these columns, + - * and parentheses."""
    for token in tokens(code, 0):
        name = token.raw.strip("`").lower()
        if not (name.isdecimal() or token.raw in ("+", "-", "*", "(", ")") or name in numbers):
            return False
    return True


def numbers_of(table: TableDefinition) -> frozenset[str]:
    """Return the lower-case names of a table's integer and decimal columns."""
    return frozenset(column.name.lower() for column in table.columns if column.type.name in (*WIDTHS, "decimal"))


def _filled(column: ColumnDefinition) -> str | None:
    """Describe the values that servers fill into a new column differently; None if all fill in the same."""
    kind, default = column.type.name, column.default
    if kind == "json" and column.nullable is False and default is None:
        return f"{quote(column.name)} is JSON NOT NULL without a default"
    if kind in MEMBERS and default is not None and _NUMBER.fullmatch(default):
        return f"the default {default} of {quote(column.name)} is a number, which is a member's text or its place"
    if kind == "date" and default is not None and default.startswith("'") and not _DAY.fullmatch(default):
        return f"the default {default} of {quote(column.name)} is not a plain date"
    return None


def chosen_otherwise(table: TableDefinition, specs: Sequence[Spec]) -> str | None:
    """Describe the rows that partitions have on a target that computes in its own way, and not at the source.

    KEY chooses a partition by a hash of the server's own, and text belongs to a range by its collation.
    """
    if table.partitioning is None or not any(isinstance(spec, DropPartitions | TruncatePartitions) for spec in specs):
        return None
    texts = {column.name.lower() for column in table.columns if column.type.name in CHARACTER_TYPES}
    for token in tokens(table.partitioning, 0):
        if token.text == "KEY" or token.raw.strip("`").lower() in texts:
            return f"partitions chosen by {token.raw} lose their rows"
    return None


def type_text(kind: ColumnType) -> str:
    """Return a type for messages.

    >>> type_text(ColumnType("int", ("10",), unsigned=True)), type_text(ColumnType("varchar", ("9",), charset="latin1"))
    ('int unsigned', 'varchar(9) of latin1')
    """
    arguments = "" if kind.name in WIDTHS or not kind.arguments else f"({','.join(kind.arguments)})"
    return f"{kind.name}{arguments}" + " unsigned" * kind.unsigned + (f" of {kind.charset}" if kind.charset else "")


def keeps_values(old: ColumnType, new: ColumnType, *, strict: bool) -> bool:
    """Return True if every server makes the same values of the rows. Both types are resolved (`column_types`)."""
    if old.name in WIDTHS:
        return _keeps_integers(old, new, strict=strict)
    if replace(old, charset=None, collation=None) == replace(new, charset=None, collation=None) and (
        old.charset == new.charset
    ):
        return True
    if old.name in TEXTS:
        return _keeps_text(old, new, strict=strict)
    if old.name in BINARIES:
        return _keeps_bytes(old, new, strict=strict)
    sizes = (_size(old), _size(new))
    match old.name, new.name:
        case ("decimal", "decimal"):
            (precision, scale), (new_precision, new_scale) = _decimal(old), _decimal(new)
            carry = new_scale < scale  # 9.99 becomes 10.0
            fits = new_precision - new_scale >= precision - scale + carry and old.unsigned >= new.unsigned
            return strict or fits
        case ("float", "double"):
            return not old.arguments and not new.arguments and (strict or old.unsigned >= new.unsigned)
        case ("enum", "enum") if "" not in new.arguments:
            return set(old.arguments) <= set(new.arguments) and _keeps_characters(old, new, strict=strict)
        case ("enum", "enum") | ("set", "set"):
            appended = new.arguments[: len(old.arguments)] == old.arguments
            return appended and _keeps_characters(old, new, strict=strict)
        case ("date", "datetime"):
            return True
        case (clock, other) if clock in _CLOCKS:
            return other in (clock, _LOCAL.get(clock)) and sizes[0] <= sizes[1]
        case ("bit", "bit"):
            return sizes[0] <= sizes[1]
    return False


def _keeps_integers(old: ColumnType, new: ColumnType, *, strict: bool) -> bool:
    if new.name == "decimal":
        precision, scale = _decimal(new)
        return strict or (precision - scale >= _DIGITS[old.name] and _is_unsigned(old) >= _is_unsigned(new))
    if new.name in TEXTS:
        room = _size(new) if new.name in ("char", "varchar") else octets(new)
        fits = _DIGITS[old.name] + 1 <= int(room or 0)
        return not old.zerofill and new.charset in _CHARSETS and (strict or fits)
    if new.name not in WIDTHS:
        return False
    (low, high), (new_low, new_high) = _range(old), _range(new)
    return strict or (new_low <= low and high <= new_high)


def _range(kind: ColumnType) -> tuple[int, int]:
    bits = _BITS[kind.name]
    return (0, (1 << bits) - 1) if _is_unsigned(kind) else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _is_unsigned(kind: ColumnType) -> bool:
    return kind.unsigned or kind.zerofill


def _decimal(kind: ColumnType) -> tuple[int, int]:
    return int(kind.arguments[0]), int(kind.arguments[1])


def _size(kind: ColumnType) -> int:
    return int(kind.arguments[0]) if kind.arguments and kind.arguments[0].isdecimal() else 0


def _keeps_text(old: ColumnType, new: ColumnType, *, strict: bool) -> bool:
    if new.name not in TEXTS or not _keeps_characters(old, new, strict=strict):
        return False
    if new.name == "char" and old.name != "char":
        return False  # CHAR drops trailing spaces
    most = _size(old) if old.name in ("char", "varchar") else int(octets(old) or 0)
    if new.name in ("char", "varchar"):
        return strict or most <= _size(new)
    in_utf8 = {old.charset, new.charset} <= UTF8_CHARSETS
    bytes_alike = old.name in TEXT_SIZES and (in_utf8 or old.charset == new.charset)
    needed = most if bytes_alike else most * character_bytes(str(new.collation))
    return strict or needed <= int(octets(new) or 0)


def _keeps_characters(old: ColumnType, new: ColumnType, *, strict: bool) -> bool:
    """Return True if every server converts a text to the same characters in another charset."""
    if old.charset == new.charset:
        return True
    return {old.charset, new.charset} <= _CHARSETS and (strict or new.charset == "utf8mb4")


def _keeps_bytes(old: ColumnType, new: ColumnType, *, strict: bool) -> bool:
    if new.name not in BINARIES:
        return False
    most, room = int(octets(old) or 0), int(octets(new) or 0)
    if new.name == "binary":
        return old.name == "binary" and most <= room
    return most <= room or (strict and old.name != "binary")
