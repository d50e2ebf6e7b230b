"""How many bytes a value that is no string takes in a key.

>>> packed_bytes(ColumnType("decimal", ("12", "4"))), packed_bytes(ColumnType("datetime", ("6",)))
(6, 8)
"""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.ddl.statements import ColumnType

_BYTES: Final = {
    "tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "float": 4, "double": 8, "year": 1, "date": 3,
    "time": 3, "datetime": 5, "timestamp": 4, "uuid": 16, "inet4": 4, "inet6": 16,
}  # fmt: skip
_GROUP: Final = 9
"""So many digits of a DECIMAL are 4 bytes; fewer are:"""
_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4)
_SMALL_ENUM: Final = 255
_SET_BYTES: Final = (1, 2, 3, 4, 8)


def packed_bytes(kind: ColumnType) -> int:
    """Return the bytes of a number, a moment, an ENUM or the like."""
    sizes = [int(one) for one in kind.arguments if one.isdecimal()]
    match kind.name:
        case "decimal":
            precision, scale = sizes
            return _digits(precision - scale) + _digits(scale)
        case "bit":
            return (sizes[0] + 7) // 8
        case "enum":
            return 1 if len(kind.arguments) <= _SMALL_ENUM else 2
        case "set":
            return next(size for size in _SET_BYTES if len(kind.arguments) <= size * 8)
        case "time" | "datetime" | "timestamp":
            return _BYTES[kind.name] + (sum(sizes) + 1) // 2
    return _BYTES.get(kind.name, 0)


def _digits(count: int) -> int:
    return count // _GROUP * 4 + _OF_DIGITS[count % _GROUP]
