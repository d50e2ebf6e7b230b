"""Arithmetic of an expression, with the server's results.

    whole numbers   Python integers, checked against the range of BIGINT after each step
    decimals        Python's Decimal, exact: products with too many digits are refused
    doubles         the processor's

`price * 3` of a DECIMAL(10,2) and an INT is a decimal of at most 20 digits, two of them after the point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from operator import add, mul, sub
from typing import Any, Final

from airflow_provider_dm.engine.rules.errors import OutOfRange, Refused
from airflow_provider_dm.engine.rules.expressions.parts import (
    NULL_PART,
    SIGNED,
    Double,
    Exact,
    Null,
    Number,
    Part,
    WholeNumber,
    described,
    fixed,
)
from airflow_provider_dm.engine.schema.codec import Row

_CONTEXT: Final = Context(prec=200)
_SIMPLE: Final[dict[str, Callable[[Any, Any], Any]]] = {"+": add, "-": sub, "*": mul}
MOST_DIGITS: Final = 65
MOST_DECIMALS: Final = 30


def negative(part: Part) -> Part:
    """Return `-part`. Raises Refused."""
    read = part.read
    match part.type:
        case Null():
            return part
        case WholeNumber(digits=digits):
            if part.constant is not None:
                assert isinstance(part.constant, int)
                if -part.constant < SIGNED[0]:
                    return fixed(Exact(digits, 0), Decimal(-part.constant))
                return fixed(WholeNumber(False, digits), -part.constant)
            kind = WholeNumber(False, digits)
            return Part(kind, lambda row: None if (value := read(row)) is None else kind.check(-value))
        case Exact() | Double():
            constant = None if part.constant is None else -part.constant  # type: ignore[operator]
            return Part(part.type, lambda row: None if (value := read(row)) is None else -value, constant)
        case _:
            raise Refused(f"- is applied to {described(part.type)}")


def arithmetic(sign: str, left: Part, right: Part) -> Part:
    """Return `left + right` and the like. Raises Refused."""
    if sign == "/" and not (isinstance(left.type, Double) or isinstance(right.type, Double)):
        raise Refused("the server chooses the digits of a quotient: multiply the other side instead")
    for part in (left, right):
        if not isinstance(part.type, Null | WholeNumber | Exact | Double):
            raise Refused(f"{sign} is applied to {described(part.type)}")
    if isinstance(left.type, Null) or isinstance(right.type, Null):
        return NULL_PART
    kind, compute = _operation(sign, left.type, right.type)  # type: ignore[arg-type]
    if sign == "DIV" and signs_differ(left, right):
        raise Refused("DIV divides a signed number and an unsigned one")
    first, second = left.read, right.read

    def read(row: Row) -> Any:
        one = first(row)
        if one is None:  # the server does not evaluate the other side, which may be out of range
            return None
        other = second(row)
        return None if other is None else compute(one, other)

    return Part(kind, read)


def signs_differ(left: Part, right: Part) -> bool:
    """Return True if one number is signed and the other unsigned, unless a constant can be either."""
    sides = [part for part in (left, right) if isinstance(part.type, WholeNumber)]
    signed = [part for part in sides if isinstance(part.type, WholeNumber) and not part.type.unsigned]
    both = [part for part in signed if isinstance(part.constant, int) and part.constant >= 0]
    return 0 < len(signed) < len(sides) and len(both) < len(signed)


def _operation(sign: str, left: Number, right: Number) -> tuple[Number, Callable[[Any, Any], Any]]:
    if isinstance(left, Double) or isinstance(right, Double):
        return Double(), _of_doubles(sign)
    if isinstance(left, WholeNumber) and isinstance(right, WholeNumber):
        return _of_wholes(sign, left, right)
    return _of_decimals(sign, _as_exact(left), _as_exact(right))


def _of_doubles(sign: str) -> Callable[[Any, Any], Any]:
    match sign:
        case "+" | "-" | "*":
            compute = _SIMPLE[sign]
            return lambda one, other: finite(compute(float(one), float(other)))
        case "/":
            return lambda one, other: None if float(other) == 0 else finite(float(one) / float(other))
        case "%":
            return lambda one, other: None if float(other) == 0 else math.fmod(float(one), float(other))
        case _:
            raise Refused(f"{sign} is applied to doubles")


def _of_wholes(sign: str, left: WholeNumber, right: WholeNumber) -> tuple[WholeNumber, Callable[[Any, Any], Any]]:
    digits = left.digits + right.digits
    either = WholeNumber(left.unsigned or right.unsigned, digits)
    match sign:
        case "+" | "-" | "*":
            compute = _SIMPLE[sign]
            return either, lambda one, other: either.check(compute(one, other))
        case "%":
            return WholeNumber(left.unsigned, left.digits), _remainder
        case "DIV":
            return either, lambda one, other: None if other == 0 else either.check(_quotient(one, other))
        case _:
            raise Refused(f"{sign} is applied to whole numbers")


def _remainder(one: int, other: int) -> int | None:
    if other == 0:
        return None
    remainder = abs(one) % abs(other)
    return -remainder if one < 0 else remainder


def _quotient(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return -quotient if (one < 0) != (other < 0) else quotient


def _of_decimals(sign: str, left: Exact, right: Exact) -> tuple[Exact, Callable[[Any, Any], Any]]:
    decimals = max(left.decimals, right.decimals)
    wholes = max(left.digits - left.decimals, right.digits - right.decimals)
    match sign:
        case "+" | "-":
            kind = Exact(wholes + decimals + 1, decimals)
            compute: Callable[[Any, Any], Any] = _CONTEXT.add if sign == "+" else _CONTEXT.subtract
        case "*":
            kind = Exact(left.digits + right.digits, left.decimals + right.decimals)
            compute = _CONTEXT.multiply
        case _:
            raise Refused(f"{sign} is applied to decimals, for which the flavours give different results")
    if kind.digits > MOST_DIGITS or kind.decimals > MOST_DECIMALS:
        raise Refused("a result has more digits than the server's decimals")
    return kind, lambda one, other: compute(Decimal(one), Decimal(other))


def _as_exact(number: Number) -> Exact:
    assert not isinstance(number, Double)
    return number if isinstance(number, Exact) else Exact(number.digits, 0)


def finite(value: float) -> float:
    """Return a finite double. Raises OutOfRange for any other."""
    if not math.isfinite(value):
        raise OutOfRange
    return value
