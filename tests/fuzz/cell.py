"""Forms of cells, and the code that all forms share: refusing a value, and parsing its text.

A `Form` turns a canonical value into the bytes of its cell. It takes canonical text only: "05" is not a number here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from airflow_provider_dm.engine.schema.model import Column

Bytes = Callable[[bytes], bytes]


class NotSo(ValueError):
    """A value that this column cannot hold, or text that is not its canonical form."""


def same(cell: bytes) -> bytes:
    return cell


@dataclass(frozen=True)
class Form:
    """One column's cells: `size` bytes, or `prefix` bytes of a little-endian length and as many bytes."""

    write: Bytes
    """Canonical value -> cell, without its prefix. Raises NotSo."""
    size: int = 0
    prefix: int = 0
    normal: Bytes = same
    """Cell -> the cell that a server would have written for the same value."""
    says: Callable[[bytes, bytes], bool] | None = None
    """(cell, value) -> whether it is that, where many cells mean one value and none is the normal one."""

    def extent(self, data: bytes, position: int) -> tuple[int, int]:
        """(start, end) of the cell that begins there; the end may lie after the data."""
        start = position + self.prefix
        return start, start + (int.from_bytes(data[position:start], "little") if self.prefix else self.size)

    def agrees(self, cell: bytes, value: bytes) -> bool:
        """Return True if `cell` is an encoding of `value`."""
        try:
            if self.says is not None:
                return self.says(cell, value)
            return self.normal(cell) == self.write(value)
        except NotSo:
            return False


Make = Callable[[Column, int, bytes], Form | None]
"""(column, type code, metadata) -> how its cells lie; None: the table map means another type."""


def refuse(value: bytes, what: str) -> NoReturn:
    raise NotSo(f"{value[:80]!r} is not {what}")


def parts_of(pattern: re.Pattern[bytes], value: bytes, what: str) -> tuple[bytes, ...]:
    match = pattern.fullmatch(value)
    if match is None:
        refuse(value, what)
    return tuple(group or b"" for group in match.groups())
