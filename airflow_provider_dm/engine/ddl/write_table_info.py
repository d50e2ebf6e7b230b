"""A resolved definition as TiDB's TableInfo, by which DM reads the rows of a table. The reverse is table_info.py.

Only properties that both models express in the same way are written. A table with others (a type, default or key that
TiDB's model lacks, or that it represents in an unknown way) has no TableInfo: DM then uses the target's table, as it
does without any information.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow_provider_dm.engine.ddl.column_types import WIDTHS
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.lexer import string_value
from airflow_provider_dm.engine.ddl.statements import (
    ColumnDefinition,
    ColumnType,
    KeyDefinition,
    KeyKind,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.table_info import (
    BIT,
    BLOBS,
    DATE,
    DECIMAL,
    FLOATS,
    JSON,
    MEMBERS,
    MOMENTS,
    PUBLIC,
    STRING,
    TIDB_INTEGERS,
    UNSPECIFIED,
    VARCHAR,
    YEAR,
    Flag,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName

_NO_DEFAULT: Final = 4096
_FIXED: Final = {"year": (4, 0), "date": (10, 0), "enum": (UNSPECIFIED, UNSPECIFIED), "set": (UNSPECIFIED, UNSPECIFIED)}
"""Flen and Decimal of types whose arguments are not sizes."""
_MOMENT_LENGTHS: Final = {"timestamp": 19, "datetime": 19, "time": 10}
_TYPE_OF: Final = (
    {name: number for number, name in (TIDB_INTEGERS | FLOATS | MOMENTS | MEMBERS).items()}
    | {f"{size}{kind}": number for number, size in BLOBS.items() for kind in ("text", "blob")}
    | {"decimal": DECIMAL, "date": DATE, "year": YEAR, "json": JSON, "bit": BIT}
    | {"varchar": VARCHAR, "varbinary": VARCHAR, "char": STRING, "binary": STRING}
)
_BTREE: Final = 1
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_NOW: Final = re.compile(r"(CURRENT_TIMESTAMP|NOW)(\s*\(\s*\d*\s*\))?", re.IGNORECASE)
_LITERAL_TYPES: Final = frozenset(
    {*TIDB_INTEGERS.values(), "decimal", "date", "year", *MOMENTS.values(), "char", "varchar"}
)
"""Types whose defaults TiDB stores as the same text."""


def table_info(name: TableName, definition: TableDefinition) -> dict[str, Any]:
    """Return the TableInfo of a resolved definition. Raises CannotTrack."""
    if definition.partitioning is not None or not definition.columns:
        raise CannotTrack("it has partitions, or no columns")
    keys = []
    for one in definition.constraints:
        if not isinstance(one, KeyDefinition) or one.kind not in (KeyKind.PRIMARY, KeyKind.UNIQUE, KeyKind.PLAIN):
            raise CannotTrack("it has keys or constraints of another kind")
        keys.append(one)
    options = dict(definition.options)
    columns = [_column(number, column, keys) for number, column in enumerate(definition.columns)]
    return {
        "id": 1,
        "name": _name(name.table),
        "charset": options.get("CHARSET", ""),
        "collate": options.get("COLLATE", ""),
        "cols": columns,
        "index_info": [_index(number, key, definition.columns) for number, key in enumerate(keys)] or None,
        "constraint_info": None,
        "fk_info": None,
        "state": PUBLIC,
        "pk_is_handle": False,
        "is_common_handle": False,
        "comment": options.get("COMMENT", ""),
        "max_col_id": len(columns),
        "max_idx_id": len(keys),
        "version": 5,
    }


def _name(name: str) -> dict[str, str]:
    return {"O": name, "L": name.lower()}


def _column(number: int, column: ColumnDefinition, keys: Sequence[KeyDefinition]) -> dict[str, Any]:
    if column.generated is not None or column.invisible or column.options or column.checks or column.references:
        raise CannotTrack(f"column {column.name} is computed, hidden, or has options")
    default = _default(column)
    flags = _flags(column, keys) | (0 if column.default is not None or column.nullable else _NO_DEFAULT)
    return {
        "id": number + 1,
        "name": _name(column.name),
        "offset": number,
        "origin_default": None,
        "origin_default_bit": None,
        "default": default,
        "default_bit": None,
        "default_is_expr": False,
        "generated_expr_string": "",
        "generated_stored": False,
        "dependences": None,
        "type": _type(column.type, flags),
        "state": PUBLIC,
        "comment": column.comment or "",
        "hidden": False,
        "change_state_info": None,
        "version": 2,
    }


def _flags(column: ColumnDefinition, keys: Sequence[KeyDefinition]) -> int:
    kind, name = column.type, column.name.lower()
    first = [key for key in keys if key.parts and str(key.parts[0].column).lower() == name]
    primary = any(key.kind is KeyKind.PRIMARY and name in _columns_of(key) for key in keys)
    unique = any(key.kind is KeyKind.UNIQUE and len(key.parts) == 1 for key in first)
    flags = {
        Flag.NOT_NULL: not column.nullable,
        Flag.PRIMARY: primary,
        Flag.UNIQUE: unique,
        Flag.UNSIGNED: kind.unsigned,
        Flag.ZEROFILL: kind.zerofill,
        Flag.BINARY: kind.charset is None,
        Flag.AUTO_INCREMENT: column.auto_increment,
        Flag.ON_UPDATE_NOW: column.on_update is not None,
    }
    return sum(int(flag) for flag, holds in flags.items() if holds)


def _columns_of(key: KeyDefinition) -> set[str]:
    return {str(part.column).lower() for part in key.parts}


def _type(kind: ColumnType, flags: int) -> dict[str, Any]:
    if kind.name not in _TYPE_OF:
        raise CannotTrack(f"TiDB has no type {kind.name}")
    length, decimals = _sizes(kind)
    members = kind.name in MEMBERS.values()
    return {
        "Tp": _TYPE_OF[kind.name],
        "Flag": flags,
        "Flen": length,
        "Decimal": decimals,
        "Charset": kind.charset or "binary",
        "Collate": kind.collation or "binary",
        "Elems": list(kind.arguments) if members else None,
        "ElemsIsBinaryLit": [False] * len(kind.arguments) if members else None,
        "Array": False,
    }


def _sizes(kind: ColumnType) -> tuple[int, int]:
    """Return (Flen, Decimal)."""
    if kind.name in _FIXED:
        return _FIXED[kind.name]
    numbers = [int(argument) for argument in kind.arguments]
    if kind.name in WIDTHS:
        return (numbers or WIDTHS[kind.name])[0], 0
    if kind.name in _MOMENT_LENGTHS:
        fraction = (numbers or [0])[0]
        return _MOMENT_LENGTHS[kind.name] + (fraction + 1 if fraction else 0), fraction
    match numbers:
        case [length]:
            return length, UNSPECIFIED
        case [length, decimals]:
            return length, decimals
    return UNSPECIFIED, UNSPECIFIED


def _default(column: ColumnDefinition) -> str | None:
    default = column.default
    if default is None or default.upper() == "NULL":
        return None
    if column.type.name in MOMENTS.values() and _NOW.fullmatch(default):
        return "CURRENT_TIMESTAMP"
    if column.type.name in _LITERAL_TYPES or column.type.name == "enum":
        if _NUMBER.fullmatch(default):
            return default
        if default.startswith("'") and default.endswith("'"):
            return string_value(default, 0)
    raise CannotTrack(f"the default of {column.name} is {default}")


def _index(number: int, key: KeyDefinition, columns: Sequence[ColumnDefinition]) -> dict[str, Any]:
    offsets: Mapping[str, int] = {column.name.lower(): place for place, column in enumerate(columns)}
    if any(part.column is None or part.descending for part in key.parts) or _has_options(key):
        raise CannotTrack(f"key {key.name} has expressions, a direction or options")
    primary = key.kind is KeyKind.PRIMARY
    parts = [
        {
            "name": _name(str(part.column)),
            "offset": offsets[str(part.column).lower()],
            "length": UNSPECIFIED if part.prefix is None else part.prefix,
        }
        for part in key.parts
    ]
    return {
        "id": number + 1,
        "idx_name": _name("PRIMARY" if primary else str(key.name)),
        "tbl_name": _name(""),
        "idx_cols": parts,
        "state": PUBLIC,
        "comment": "",
        "index_type": _BTREE,
        "is_unique": key.kind is not KeyKind.PLAIN,
        "is_primary": primary,
        "is_invisible": False,
        "is_global": False,
    }


def _has_options(key: KeyDefinition) -> bool:
    return any((name, value.upper()) != ("USING", "BTREE") for name, value in key.options)
