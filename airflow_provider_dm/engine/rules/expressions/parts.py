"""Types and values of the parts of an expression.

WholeNumber   a whole number of at most 64 bits      1, `id`
Exact         a decimal                              1.5, `price`
Double        a double                               1e3
Quoted        a string constant, whose type is that of the other operand: `born` > '2024-02-29'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.rules.errors import OutOfRange
from airflow_provider_dm.engine.rules.expressions.text import TextOrder
from airflow_provider_dm.engine.schema.codec import Row

Read: TypeAlias = Callable[[Row], Any]
"""A function from a row to the value of a part."""

SIGNED: Final = (-(2**63), 2**63 - 1)
UNSIGNED: Final = (0, 2**64 - 1)


@dataclass(frozen=True)
class Null:
    """The literal NULL."""


@dataclass(frozen=True)
class WholeNumber:
    """A whole number of at most 64 bits. `digits`: the maximum number of its digits."""

    unsigned: bool
    digits: int

    def check(self, value: int) -> int:
        low, high = UNSIGNED if self.unsigned else SIGNED
        if not low <= value <= high:
            raise OutOfRange
        return value


@dataclass(frozen=True)
class Exact:
    digits: int
    decimals: int


@dataclass(frozen=True)
class Double:
    """A double."""


@dataclass(frozen=True)
class Text:
    """Text of a column under a known collation, as the bytes of its charset."""

    collation: TextOrder


@dataclass(frozen=True)
class Binary:
    """Bytes."""


@dataclass(frozen=True)
class EnumMember:
    """A member of an ENUM, in UTF-8."""

    members: tuple[bytes, ...]
    collation: str


@dataclass(frozen=True)
class Moment:
    """A DATE (`day`) or a DATETIME, as `YYYY-MM-DD hh:mm:ss.ffffff`."""

    day: bool


@dataclass(frozen=True)
class Clock:
    """A TIME, in microseconds."""


@dataclass(frozen=True)
class Year:
    """A YEAR, as a number."""


@dataclass(frozen=True)
class Quoted:
    """A string constant; its type is that of the operand with which it is compared."""

    text: str


@dataclass(frozen=True)
class Opaque:
    """A value of which only NULL is known. `why`: the reason."""

    why: str


Type: TypeAlias = (
    Null | WholeNumber | Exact | Double | Text | Binary | EnumMember | Moment | Clock | Year | Quoted | Opaque
)
Number: TypeAlias = WholeNumber | Exact | Double


@dataclass(frozen=True)
class Part:
    """A part of an expression: its type, its value for a row, and the value if it is a constant."""

    type: Type
    read: Read
    constant: object = None


NULL_PART: Final = Part(Null(), lambda _row: None)


def fixed(kind: Type, value: object) -> Part:
    """Return the part for a constant."""
    return Part(kind, lambda _row: value, value)


_CALLED: Final[dict[type, str]] = {
    Null: "NULL",
    WholeNumber: "a whole number",
    Exact: "a decimal",
    Double: "a double",
    Text: "text",
    Binary: "bytes",
    EnumMember: "an ENUM",
    Clock: "a TIME",
    Year: "a YEAR",
}


def described(kind: Type) -> str:
    """Return a user-facing name of a type."""
    match kind:
        case Opaque(why):
            return f"a value whose comparison is not supported ({why})"
        case Moment(day):
            return "a DATE" if day else "a DATETIME"
        case Quoted(text):
            return f"the string {text!r}"
        case _:
            return _CALLED[type(kind)]
