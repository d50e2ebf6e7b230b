"""Boolean values and comparisons of an expression: True, False, and None for NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from airflow_provider_dm.engine.rules.errors import Refused
from airflow_provider_dm.engine.rules.expressions.arithmetic import signs_differ
from airflow_provider_dm.engine.rules.expressions.columns import clock_constant, moment_constant
from airflow_provider_dm.engine.rules.expressions.parts import (
    Binary,
    Clock,
    Double,
    EnumMember,
    Exact,
    Moment,
    Null,
    Part,
    Quoted,
    Read,
    Text,
    WholeNumber,
    Year,
    described,
)
from airflow_provider_dm.engine.rules.expressions.text import folded
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def boolean(truth: Read) -> Part:
    """Return a boolean as a part; to the server it is a number."""
    return Part(WholeNumber(False, 1), truth)


def truth_of(part: Part) -> Read:
    """Return whether a part is true, which means not zero."""
    read = part.read
    match part.type:
        case Null():
            return read
        case WholeNumber() | Exact() | Double():
            return lambda row: None if (value := read(row)) is None else bool(value)
        case _:
            raise Refused(f"{described(part.type)} is used as a boolean")


def logical(sign: str, left: Read, right: Read) -> Read:
    """Return `left AND right`, OR, XOR: the right side is evaluated only if the server evaluates it."""
    decides = sign == "OR"  # for any value of the other side

    def either(row: Row) -> bool | None:
        one: bool | None = left(row)
        if one is decides:
            return decides
        other: bool | None = right(row)
        return decides if other is decides else None if one is None or other is None else not decides

    def exclusive(row: Row) -> bool | None:
        one = left(row)
        other = None if one is None else right(row)
        return None if other is None else one is not other

    return exclusive if sign == "XOR" else either


def comparison(sign: str, left: Part, right: Part) -> Read:
    """Return `left = right` and the like. Raises Refused."""
    if isinstance(left.type, Null) or isinstance(right.type, Null):
        if sign != "<=>":
            return lambda _row: None
        reads = (left.read, right.read)
        return lambda row: all(read(row) is None for read in reads)
    first, second, order = _comparable(left, right, ordered=sign not in ("=", "<>", "<=>"))
    if sign == "<=>":

        def same(row: Row) -> bool:
            one, other = first(row), second(row)
            return one is other if one is None or other is None else order(one, other) == 0

        return same
    test = _TESTS[sign]

    def compare(row: Row) -> bool | None:
        one = first(row)
        other = None if one is None else second(row)
        return None if other is None else test(order(one, other), 0)

    return compare


def _comparable(left: Part, right: Part, *, ordered: bool) -> tuple[Read, Read, Callable[[Any, Any], int]]:
    """Return both values in comparable form, and the comparison. `ordered`: the order matters, not only equality."""
    if isinstance(left.type, Quoted) and not isinstance(right.type, Quoted):
        second, first, order = _comparable(right, left, ordered=ordered)
        return first, second, lambda one, other: -order(other, one)
    match left.type, right.type:
        case (WholeNumber() | Exact() | Double(), WholeNumber() | Exact() | Double()):
            if isinstance(left.type, Double) or isinstance(right.type, Double):
                pair = (left, right)
                if any(isinstance(part.type, WholeNumber) for part in pair) and any(map(_is_coarse, pair)):
                    raise Refused("a whole number is compared with a double of 9007199254740992 or more")
                return _through(float, left.read), _through(float, right.read), _order
            return left.read, right.read, _order
        case (Year(), WholeNumber()) | (WholeNumber(), Year()):
            constant = left.constant if isinstance(left.type, WholeNumber) else right.constant
            if isinstance(constant, int) and 1901 <= constant <= 2155:
                return left.read, right.read, _order
            raise Refused("a YEAR is compared with something other than a year from 1901 to 2155")
        case (Year(), Year()) | (Clock(), Clock()) | (Moment(), Moment()) | (Binary(), Binary()):
            return left.read, right.read, _order
        case (Text(one), Text(other)) if one == other:
            return left.read, right.read, one.order
        case (Text(collation), Quoted(text)):
            encoded = collation.encode(text)
            if encoded is None:
                raise Refused(f"{text!r} has characters that {collation.charset} lacks")
            return left.read, lambda _row: encoded, collation.order
        case (Binary(), Quoted(text)):
            constant_bytes = text.encode()
            return left.read, lambda _row: constant_bytes, _order
        case (EnumMember(), Quoted(text)):
            if ordered:
                raise Refused("an ENUM is compared by < or >")
            return _member_test(left, text)
        case (Moment(day), Quoted(text)):
            moment = moment_constant(text, day=day)
            return left.read, lambda _row: moment, _order
        case (Clock(), Quoted(text)):
            clock = clock_constant(text)
            return left.read, lambda _row: clock, _order
        case _:
            raise Refused(f"{described(left.type)} is compared with {described(right.type)}")


def _is_coarse(part: Part) -> bool:
    """Return True if a part is a constant double so large that integers near it are not representable."""
    return isinstance(part.constant, float) and abs(part.constant) >= 1 << 53


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _through(convert: Callable[[Any], Any], read: Read) -> Read:
    return lambda row: None if (value := read(row)) is None else convert(value)


def _member_test(part: Part, text: str) -> tuple[Read, Read, Callable[[Any, Any], int]]:
    """Return the comparison of an ENUM with a constant: the members that are equal to it are known at compile time."""
    assert isinstance(part.type, EnumMember)
    collation = part.type.collation
    wanted = folded(text, collation)
    forms = {member: folded(member.decode(), collation) for member in (*part.type.members, b"")}
    if wanted is None or None in forms.values():
        raise Refused(f"whether {text!r} is a member of an ENUM under {collation} is not known")
    equal = frozenset(member for member, form in forms.items() if form == wanted)
    if b"" in equal:
        equal |= {INVALID_MEMBER}
    read = part.read
    return (lambda row: None if (value := read(row)) is None else value in equal), (lambda _row: True), _order


def among(operand: Part, items: Sequence[Part]) -> Read:
    """Return `operand IN (items)`. Raises Refused."""
    constants = [item for item in items if not isinstance(item.type, Null)]
    kinds = {type(item.type) for item in (operand, *constants)}
    if Double in kinds and len(kinds) > 1 and not isinstance(operand.type, Double):
        raise Refused("IN compares a whole number or a decimal with a double")
    if any(item.constant is None for item in constants):
        raise Refused("IN has something other than constants in its list")
    if any(signs_differ(operand, item) for item in constants):
        raise Refused("IN compares a signed number with an unsigned one")
    tests = [comparison("=", operand, item) for item in items]

    def one_of(row: Row) -> bool | None:
        truth: bool | None = False
        for test in tests:
            one = test(row)
            if one:
                return True
            truth = None if one is None else truth
        return truth

    return one_of


def between(operand: Part, low: Part, high: Part) -> Read:
    """Return `operand BETWEEN low AND high`. Raises Refused."""
    kinds = [part.type for part in (operand, low, high)]
    if any(isinstance(one, Double) for one in kinds) and not all(isinstance(one, Double) for one in kinds):
        raise Refused("BETWEEN mixes doubles with other numbers")
    if isinstance(operand.type, Quoted):
        raise Refused("BETWEEN has a constant as its operand")
    return logical("AND", comparison(">=", operand, low), comparison("<=", operand, high))


def like(operand: Part, pattern: Part) -> Read:
    """Return `operand LIKE pattern`. Raises Refused."""
    if not (isinstance(operand.type, Text) and isinstance(pattern.type, Quoted)):
        raise Refused(f"{described(operand.type)} LIKE {described(pattern.type)}")
    matches = operand.type.collation.matcher(pattern.type.text)
    if matches is None:
        raise Refused(f"{pattern.type.text!r} has characters that {operand.type.collation.charset} lacks")
    read = operand.read
    return lambda row: None if (value := read(row)) is None else matches(value)
