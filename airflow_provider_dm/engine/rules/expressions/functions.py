"""The functions and CASE of an expression: a table of functions, and the common type of alternative results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from airflow_provider_dm.engine.rules.errors import OutOfRange, Refused
from airflow_provider_dm.engine.rules.expressions.arithmetic import MOST_DECIMALS, MOST_DIGITS, arithmetic
from airflow_provider_dm.engine.rules.expressions.comparisons import comparison, truth_of
from airflow_provider_dm.engine.rules.expressions.parts import (
    NULL_PART,
    Binary,
    Clock,
    Double,
    Exact,
    Moment,
    Null,
    Part,
    Quoted,
    Read,
    Text,
    Type,
    WholeNumber,
    Year,
    described,
)
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import UTF8_CHARSETS

_NUMBERS: Final = (WholeNumber, Exact, Double)
_STRINGS: Final = (Text, Binary)
_LONGEST: Final = 1 << 24
"""Bytes; a longer string may be NULL in the server, which limits it by max_allowed_packet."""


@dataclass(frozen=True)
class Function:
    """The constructor of a call's part, and its minimum and maximum number of arguments."""

    least: int
    most: int
    make: Callable[..., Part]


def call(name: str, arguments: Sequence[Part]) -> Part:
    """Return the part for a call of a function. Raises Refused."""
    function = FUNCTIONS[name]
    if not function.least <= len(arguments) <= function.most:
        raise Refused(f"{name} has {len(arguments)} arguments")
    return function.make(*arguments)


def choice(branches: Sequence[tuple[Read, Part]], otherwise: Part) -> Part:
    """Return the part for the first branch whose condition is true. Raises Refused."""
    kind, reads = _common([*(part for _, part in branches), otherwise])
    conditions = [(condition, read) for (condition, _), read in zip(branches, reads, strict=False)]
    last = reads[-1]

    def read(row: Row) -> Any:
        for condition, chosen in conditions:
            if condition(row):
                return chosen(row)
        return last(row)

    return Part(kind, read)


def _common(parts: Sequence[Part]) -> tuple[Type, list[Read]]:
    """Return the common type of alternative parts, and the reader of each converted to that type."""
    kinds = {type(part.type): part.type for part in parts if not isinstance(part.type, Null)}
    types = frozenset(kinds)
    numbers = [part for part in parts if isinstance(part.type, _NUMBERS)]
    convert: Callable[[Any], Any] | None = None
    kind: Type
    if not types:
        kind = Null()
    elif (
        types == {WholeNumber}
        and len({part.type.unsigned for part in numbers if isinstance(part.type, WholeNumber)}) == 1
    ):
        kind = max((part.type for part in numbers if isinstance(part.type, WholeNumber)), key=lambda one: one.digits)
    elif types <= {WholeNumber, Exact}:  # includes signed and unsigned: a decimal holds both
        exact = [part.type if isinstance(part.type, Exact) else Exact(part.type.digits, 0) for part in numbers]  # type: ignore[union-attr]
        decimals = max(number.decimals for number in exact)
        kind = Exact(max(number.digits - number.decimals for number in exact) + decimals, decimals)
        if kind.digits > MOST_DIGITS or decimals > MOST_DECIMALS:
            raise Refused("a result has more digits than the server's decimals")
        convert = Decimal
    elif types <= set(_NUMBERS):
        kind, convert = Double(), float
    elif types <= {Text, Quoted} and Text in types:
        if len({part.type for part in parts if isinstance(part.type, Text)}) > 1:
            raise Refused("texts of different collations are alternatives")
        kind = kinds[Text]
    elif types <= {Binary, Quoted} and Binary in types:
        kind = Binary()
    elif types == {Moment}:
        kind = Moment(day=all(part.type.day for part in parts if isinstance(part.type, Moment)))
    elif types == {Year}:
        kind = Year()
    else:
        raise Refused(f"{' and '.join(sorted(map(described, kinds.values())))} are alternatives")
    return kind, [_as(kind, part, convert) for part in parts]


def _as(kind: Type, part: Part, convert: Callable[[Any], Any] | None) -> Read:
    read = part.read
    if isinstance(part.type, Quoted):
        encoded = kind.collation.encode(part.type.text) if isinstance(kind, Text) else part.type.text.encode()
        if encoded is None:
            raise Refused(f"{part.type.text!r} has characters that the column's charset lacks")
        return lambda _row: encoded
    if convert is None:
        return read
    return lambda row: None if (value := read(row)) is None else convert(value)


def _coalesce(*arguments: Part) -> Part:
    kind, reads = _common(arguments)
    return Part(kind, lambda row: next((value for read in reads if (value := read(row)) is not None), None))


def _if(condition: Part, then: Part, otherwise: Part) -> Part:
    return choice([(truth_of(condition), then)], otherwise)


def _nullif(one: Part, other: Part) -> Part:
    return choice([(comparison("=", one, other), NULL_PART)], one)


def _null_propagating(reads: Sequence[Read], kind: Type, compute: Callable[..., Any]) -> Part:
    """Return a part that is NULL if one of its arguments is; the arguments after a NULL are not evaluated."""

    def read(row: Row) -> Any:
        values = []
        for one in reads:
            value = one(row)
            if value is None:
                return None
            values.append(value)
        return compute(*values)

    return Part(kind, read)


def _of(*kinds: tuple[type, ...], to: Callable[[Any], tuple[Type, Callable[..., Any]]]) -> Callable[..., Part]:
    """Return a constructor for a function of these types: `to` maps the first type to the result's type and value."""

    def make(*arguments: Part) -> Part:
        for part, expected in zip(arguments, kinds, strict=False):
            if not isinstance(part.type, (*expected, Null)):
                raise Refused(f"a function is called with {described(part.type)}")
        if any(isinstance(part.type, Null) for part in arguments):
            return NULL_PART
        return _null_propagating([part.read for part in arguments], *to(arguments[0].type))

    return make


def _one_type(expected: tuple[type, ...], compute: Callable[..., Any]) -> Callable[..., Part]:
    """Return a constructor for a function whose arguments and result have one type."""

    def make(*arguments: Part) -> Part:
        if any(isinstance(part.type, Null) for part in arguments):
            return NULL_PART
        kind, reads = _common(arguments)
        if not isinstance(kind, expected):
            raise Refused(f"a function is called with {described(kind)}")
        return _null_propagating(reads, kind, compute)

    return make


def _absolute(kind: Type) -> tuple[Type, Callable[..., Any]]:
    return kind, (lambda value: kind.check(abs(value))) if isinstance(kind, WholeNumber) else abs


def _sign(_kind: Type) -> tuple[Type, Callable[..., Any]]:
    return WholeNumber(False, 1), lambda value: (value > 0) - (value < 0)


def _joined(*values: bytes) -> bytes:
    if sum(map(len, values)) > _LONGEST:
        raise OutOfRange
    return b"".join(values)


def _codec(kind: Type) -> str:
    """Return the codec that splits a string into characters; any single-byte codec works for single-byte charsets."""
    return "utf-8" if isinstance(kind, Text) and kind.collation.charset in UTF8_CHARSETS else "latin-1"


def _cut(compute: Callable[..., str]) -> Callable[[Type], tuple[Type, Callable[..., Any]]]:
    """Return a function on the characters of a string."""

    def to(kind: Type) -> tuple[Type, Callable[..., Any]]:
        codec = _codec(kind)
        return kind, lambda value, *numbers: compute(value.decode(codec), *numbers).encode(codec)

    return to


def _length(_kind: Type) -> tuple[Type, Callable[..., Any]]:
    return WholeNumber(False, 10), len


def _characters(kind: Type) -> tuple[Type, Callable[..., Any]]:
    codec = _codec(kind)
    return WholeNumber(False, 10), lambda value: len(value.decode(codec))


def _substring(text: str, position: int, length: int | None = None) -> str:
    """Return a substring as SUBSTRING does: 1 is the first character, -1 the last; 0 returns an empty text.

    >>> [_substring("abcd", *numbers) for numbers in ((2,), (-3, 2), (0,), (-5,), (2, -1), (3, 9))]
    ['bcd', 'bc', '', '', '', 'cd']
    """
    start = position - 1 if position > 0 else len(text) + position
    if position == 0 or start < 0 or (length is not None and length <= 0):
        return ""
    return text[start:] if length is None else text[start : start + length]


def _piece(start: int, end: int) -> Callable[[Type], tuple[Type, Callable[..., Any]]]:
    """Return the constructor for a part of a moment, which is a number in `YYYY-MM-DD hh:mm:ss.ffffff`."""
    return lambda _kind: (WholeNumber(False, end - start), lambda value: int(value[start:end]))


def _clock_piece(start: int, unit: int) -> Callable[[Type], tuple[Type, Callable[..., Any]]]:
    """Return the constructor for a part of a moment or a TIME; `unit`: its length in microseconds."""

    def to(kind: Type) -> tuple[Type, Callable[..., Any]]:
        if isinstance(kind, Moment):
            return _piece(start, start + 2)(kind)
        whole = 1000 if unit == 3_600_000_000 else 60
        return WholeNumber(False, 3), lambda value: abs(value) // unit % whole

    return to


def _day_of(_kind: Type) -> tuple[Type, Callable[..., Any]]:
    return Moment(day=True), lambda value: value[:10] + b" 00:00:00.000000"


_ANY: Final = 1000
_PART: Final = Function(2, 2, _of(_STRINGS, (WholeNumber,), to=_cut(lambda text, count: text[: max(count, 0)])))
_SUBSTRING: Final = Function(2, 3, _of(_STRINGS, (WholeNumber,), (WholeNumber,), to=_cut(_substring)))
_IDENTITY: Final = Function(1, 1, _of((WholeNumber,), to=lambda kind: (kind, lambda value: value)))
_DAY: Final = Function(1, 1, _of((Moment,), to=_piece(8, 10)))
_TIMED: Final = (Moment, Clock)
FUNCTIONS: Final[dict[str, Function]] = {
    "IF": Function(3, 3, _if),
    "IFNULL": Function(2, 2, _coalesce),
    "COALESCE": Function(1, _ANY, _coalesce),
    "NULLIF": Function(2, 2, _nullif),
    "ABS": Function(1, 1, _of(_NUMBERS, to=_absolute)),
    "SIGN": Function(1, 1, _of(_NUMBERS, to=_sign)),
    "MOD": Function(2, 2, lambda one, other: arithmetic("%", one, other)),
    "FLOOR": _IDENTITY,
    "CEIL": _IDENTITY,
    "CEILING": _IDENTITY,
    "GREATEST": Function(2, _ANY, _one_type(_NUMBERS, max)),
    "LEAST": Function(2, _ANY, _one_type(_NUMBERS, min)),
    "LENGTH": Function(1, 1, _of(_STRINGS, to=_length)),
    "OCTET_LENGTH": Function(1, 1, _of(_STRINGS, to=_length)),
    "CHAR_LENGTH": Function(1, 1, _of(_STRINGS, to=_characters)),
    "CHARACTER_LENGTH": Function(1, 1, _of(_STRINGS, to=_characters)),
    "CONCAT": Function(1, _ANY, _one_type(_STRINGS, _joined)),
    "LEFT": _PART,
    "RIGHT": Function(
        2, 2, _of(_STRINGS, (WholeNumber,), to=_cut(lambda text, count: text[-count:] if count > 0 else ""))
    ),
    "SUBSTRING": _SUBSTRING,
    "SUBSTR": _SUBSTRING,
    "MID": Function(3, 3, _SUBSTRING.make),
    "LTRIM": Function(1, 1, _of(_STRINGS, to=_cut(lambda text: text.lstrip(" ")))),
    "RTRIM": Function(1, 1, _of(_STRINGS, to=_cut(lambda text: text.rstrip(" ")))),
    "TRIM": Function(1, 1, _of(_STRINGS, to=_cut(lambda text: text.strip(" ")))),
    "YEAR": Function(1, 1, _of((Moment,), to=_piece(0, 4))),
    "MONTH": Function(1, 1, _of((Moment,), to=_piece(5, 7))),
    "DAY": _DAY,
    "DAYOFMONTH": _DAY,
    "HOUR": Function(1, 1, _of(_TIMED, to=_clock_piece(11, 3_600_000_000))),
    "MINUTE": Function(1, 1, _of(_TIMED, to=_clock_piece(14, 60_000_000))),
    "SECOND": Function(1, 1, _of(_TIMED, to=_clock_piece(17, 1_000_000))),
    "DATE": Function(1, 1, _of((Moment,), to=_day_of)),
}
