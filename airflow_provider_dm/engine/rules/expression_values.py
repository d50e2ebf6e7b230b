"""What an expression comes to for a row, as the server has it: types first, then values.

Every part of an expression has a type that follows from the columns and constants in it, and a type decides how two
values are compared and computed with. A pair of types whose rules are not known here to the last digit is refused when
the expression is compiled (ExpressionNotSupported), so a row never meets a guess. Only a result that does not fit its
type is met with a row: the server would stop there, and so does the task (ExpressionOutOfRange).

    whole numbers   Python's, held against the range of BIGINT after each step
    decimals        Python's Decimal, exact: products of too many digits are refused
    doubles         the processor's
    text            `expression_text`
    moments         texts of one form, which sort as they lie in time

Values are None for NULL, and truth has three values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, ClassVar, Final, TypeAlias

from airflow_provider_dm.engine.ddl.lexer import Unreadable
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules import expression_syntax as syntax
from airflow_provider_dm.engine.rules.expression_syntax import Tree, read_expression
from airflow_provider_dm.engine.rules.expression_text import Collation, folded, known
from airflow_provider_dm.engine.schema.codec import Row, enum_members
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

Read: TypeAlias = Callable[[Row], Any]

_CONTEXT: Final = Context(prec=200)
_MOST_DIGITS: Final = 65
_MOST_DECIMALS: Final = 30
_SIGNED: Final = (-(2**63), 2**63 - 1)
_UNSIGNED: Final = (0, 2**64 - 1)
_INTEGERS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BINARIES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_CLOCK: Final = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(eq=False)
class ExpressionNotSupported(DmError):
    """An expression filter whose answer is not known here for every row."""

    expression: str
    table: str
    why: str

    code: ClassVar[str] = "DM-5203"
    what: ClassVar[str] = "the expression filter {expression!r} of {table} is not evaluated: {why}."
    hint: ClassVar[str] = (
        "It would have to be right for every row, so what is not certain is refused; docs/limits.md has what is known. "
        "Write it in another way, or leave the filter out."
    )


@dataclass(eq=False)
class ExpressionOutOfRange(DmError):
    """A row for which an expression filter has no value: the server would stop as well."""

    expression: str
    table: str

    code: ClassVar[str] = "DM-5204"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the expression filter {expression!r} of {table} has met a row for which it is out of range."
    hint: ClassVar[str] = "Nothing of this piece of the log was written. Change the expression, and start again."


class _Refused(Exception):
    """A part of an expression that is not evaluated; the argument says why."""


class OutOfRange(Exception):
    """A value that its type does not hold."""


class UnknownColumn(Exception):
    """A column that the table does not have: such a filter takes nothing away. The argument is its name."""


# Types


@dataclass(frozen=True)
class Null:
    """The literal NULL."""


@dataclass(frozen=True)
class Whole:
    """A whole number of at most 64 bits. `digits`: as many it has at most."""

    unsigned: bool
    digits: int

    def check(self, value: int) -> int:
        low, high = _UNSIGNED if self.unsigned else _SIGNED
        if not low <= value <= high:
            raise OutOfRange
        return value


@dataclass(frozen=True)
class Exact:
    """A decimal."""

    digits: int
    decimals: int


@dataclass(frozen=True)
class Double:
    """A double."""


@dataclass(frozen=True)
class Text:
    """Text of a column under a known collation, as the bytes of its charset."""

    collation: Collation


@dataclass(frozen=True)
class Binary:
    """Bytes."""


@dataclass(frozen=True)
class Member:
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
    """A string constant; what it is depends on what it is compared with."""

    text: str


@dataclass(frozen=True)
class Opaque:
    """A value of which nothing is known but whether it is NULL. `why`: what it is."""

    why: str


Type: TypeAlias = Null | Whole | Exact | Double | Text | Binary | Member | Moment | Clock | Year | Quoted | Opaque
_Number: TypeAlias = Whole | Exact | Double


@dataclass(frozen=True)
class Part:
    """A part of an expression: its type, its value for a row, and the value if it is a constant."""

    type: Type
    read: Read
    constant: object = None


@dataclass(frozen=True)
class Expression:
    """A compiled expression. `columns`: the positions of those that it needs."""

    text: str
    table: TableName
    columns: frozenset[int]
    truth: Read

    def is_true(self, row: Row) -> bool:
        """Tell whether it is true for a row; NULL is not. Raises ExpressionOutOfRange."""
        try:
            return self.truth(row) is True
        except OutOfRange:
            raise ExpressionOutOfRange(self.text, str(self.table)) from None


@lru_cache(maxsize=1024)
def compiled(text: str, table: Table) -> Expression:
    """Return an expression over the rows of a table. Raises ExpressionNotSupported, UnknownColumn."""
    try:
        compiler = _Compiler(table)
        part = compiler.part(read_expression(text))
        return Expression(text, table.name, frozenset(compiler.columns), _truth(part))
    except (Unreadable, _Refused, RecursionError) as error:
        raise ExpressionNotSupported(text, str(table.name), str(error)) from None


class _Compiler:
    """The parts of one expression over one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns: set[int] = set()

    def part(self, tree: Tree) -> Part:
        match tree:
            case syntax.Constant(kind, text):
                return _constant(kind, text)
            case syntax.ColumnRef(name):
                return self._column(name, None)
            case syntax.Collated(syntax.ColumnRef(name), collation):
                return self._column(name, collation)
            case syntax.Collated():
                raise _Refused("COLLATE stands behind something else than a column")
            case syntax.Negative(operand):
                return _negative(self.part(operand))
            case syntax.Arithmetic(sign, left, right):
                return _arithmetic(sign, self.part(left), self.part(right))
            case syntax.Comparison(sign, left, right):
                return _boolean(_comparison(sign, self.part(left), self.part(right)))
            case syntax.Is(operand, "NULL"):
                read = self.part(operand).read
                return _boolean(lambda row: read(row) is None)
            case syntax.Is(operand, what):
                truth, wanted = _truth(self.part(operand)), what == "TRUE"
                return _boolean(lambda row: truth(row) is wanted)
            case syntax.In(operand, items):
                return _boolean(_in(self.part(operand), [self.part(item) for item in items]))
            case syntax.Between(operand, low, high):
                return _boolean(_between(self.part(operand), self.part(low), self.part(high)))
            case syntax.Like(operand, pattern):
                return _boolean(_like(self.part(operand), self.part(pattern)))
            case syntax.Not(operand):
                truth = _truth(self.part(operand))
                return _boolean(lambda row: None if (found := truth(row)) is None else not found)
            case syntax.Logical(sign, left, right):
                return _boolean(_logical(sign, _truth(self.part(left)), _truth(self.part(right))))

    def _column(self, name: str, collation: str | None) -> Part:
        try:
            column = self.table.column(name)
        except KeyError:
            raise UnknownColumn(name) from None
        self.columns.add(column.position)
        kind, convert = _type_of(self.table.name, column, collation)
        at = column.position

        def read(row: Row) -> Any:
            value = row[at]
            return None if value is None else convert(value)

        return Part(kind, read)


# Columns and constants


def _type_of(table: TableName, column: Column, collation: str | None) -> tuple[Type, Callable[[bytes], Any]]:
    """Return a column's type, and the function from its canonical value to that type's."""
    name = column.data_type
    if name in _TEXTS:
        found = known(column.charset, collation or column.collation)
        if found is not None and found.name.partition("_")[0] in (found.charset, "utf8"):
            return Text(found), bytes
        chosen = collation or column.collation
        way_out = "; `… COLLATE utf8mb4_bin` and the like compare by code points" if not collation else ""
        return Opaque(f"how {chosen} compares text of {column.charset} is not known here{way_out}"), bytes
    if collation is not None:
        raise _Refused(f"COLLATE stands behind {column.name}, which is {column.column_type}")
    if name in _INTEGERS:
        return Whole(column.unsigned, _INTEGERS[name]), int
    match name:
        case "decimal":
            return Exact(column.numeric_precision or 10, column.numeric_scale or 0), _decimal
        case "float" | "double" if column.numeric_scale is None:
            return Double(), float
        case "date":
            return Moment(day=True), _day
        case "datetime":
            return Moment(day=False), _moment
        case "time":
            return Clock(), _clock
        case "year":
            return Year(), int
        case "enum":
            return Member(enum_members(table, column), column.collation or ""), bytes
        case name if name in _BINARIES:
            return Binary(), bytes
        case _:
            return Opaque(f"{column.name} is {column.column_type}"), bytes


def _decimal(value: bytes) -> Decimal:
    return Decimal(value.decode("ascii"))


def _day(value: bytes) -> bytes:
    return value + b" 00:00:00.000000"


def _moment(value: bytes) -> bytes:
    return value.ljust(26, b"0") if b"." in value else value + b".000000"


def _clock(value: bytes) -> int:
    match = _CLOCK.fullmatch(value.decode("ascii"))
    if match is None:
        raise ValueError("no TIME")
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _constant(kind: str, text: str) -> Part:
    match kind:
        case "null":
            return Part(Null(), lambda _row: None)
        case "integer" if len(text.lstrip("0")) <= 20 and int(text) <= _UNSIGNED[1]:
            return _fixed(Whole(int(text) > _SIGNED[1], len(text.lstrip("0"))), int(text))
        case "integer" | "decimal":
            whole, _, fraction = text.partition(".")
            digits = len(whole.lstrip("0")) + len(fraction)
            if digits > _MOST_DIGITS or len(fraction) > _MOST_DECIMALS:
                raise _Refused(f"{text} has too many digits")
            return _fixed(Exact(digits, len(fraction)), Decimal(text))
        case "double":
            return _fixed(Double(), _finite(float(text)))
        case "bytes":
            return _fixed(Binary(), bytes.fromhex(text))
        case _:
            return _fixed(Quoted(text), text)


def _fixed(kind: Type, value: object) -> Part:
    return Part(kind, lambda _row: value, value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise OutOfRange
    return value


# Numbers


def _negative(part: Part) -> Part:
    read = part.read
    match part.type:
        case Null():
            return part
        case Whole(digits=digits):
            if part.constant is not None:
                assert isinstance(part.constant, int)
                if -part.constant < _SIGNED[0]:
                    return _fixed(Exact(digits, 0), Decimal(-part.constant))
                return _fixed(Whole(False, digits), -part.constant)
            kind = Whole(False, digits)
            return Part(kind, lambda row: None if (value := read(row)) is None else kind.check(-value))
        case Exact() | Double():
            constant = None if part.constant is None else -part.constant  # type: ignore[operator]
            return Part(part.type, lambda row: None if (value := read(row)) is None else -value, constant)
        case _:
            raise _Refused(f"- stands before {_described(part.type)}")


def _arithmetic(sign: str, left: Part, right: Part) -> Part:
    if sign == "/" and not (isinstance(left.type, Double) or isinstance(right.type, Double)):
        raise _Refused("how many digits a quotient has is the server's choice: multiply the other side")
    for part in (left, right):
        if not isinstance(part.type, Null | Whole | Exact | Double):
            raise _Refused(f"{sign} computes with {_described(part.type)}")
    if isinstance(left.type, Null) or isinstance(right.type, Null):
        return Part(Null(), lambda _row: None)
    kind, compute = _operation(sign, left.type, right.type)  # type: ignore[arg-type]
    if sign == "DIV" and _signs_differ(left, right):
        raise _Refused("DIV divides a signed number and an unsigned one")
    first, second = left.read, right.read

    def read(row: Row) -> Any:
        one = first(row)
        if one is None:  # then the server does not look at the other, which may be out of range
            return None
        other = second(row)
        return None if other is None else compute(one, other)

    return Part(kind, read)


def _signs_differ(left: Part, right: Part) -> bool:
    """Tell whether one number is signed and the other is not, but for a constant that is both."""
    sides = [part for part in (left, right) if isinstance(part.type, Whole)]
    signed = [part for part in sides if isinstance(part.type, Whole) and not part.type.unsigned]
    both = [part for part in signed if isinstance(part.constant, int) and part.constant >= 0]
    return 0 < len(signed) < len(sides) and len(both) < len(signed)


def _operation(sign: str, left: _Number, right: _Number) -> tuple[_Number, Callable[[Any, Any], Any]]:
    if isinstance(left, Double) or isinstance(right, Double):
        return Double(), _of_doubles(sign)
    if isinstance(left, Whole) and isinstance(right, Whole):
        return _of_wholes(sign, left, right)
    return _of_decimals(sign, _as_exact(left), _as_exact(right))


def _of_doubles(sign: str) -> Callable[[Any, Any], Any]:
    match sign:
        case "+":
            return lambda one, other: _finite(float(one) + float(other))
        case "-":
            return lambda one, other: _finite(float(one) - float(other))
        case "*":
            return lambda one, other: _finite(float(one) * float(other))
        case "/":
            return lambda one, other: None if float(other) == 0 else _finite(float(one) / float(other))
        case "%":
            return lambda one, other: None if float(other) == 0 else math.fmod(float(one), float(other))
        case _:
            raise _Refused(f"{sign} computes with doubles")


def _of_wholes(sign: str, left: Whole, right: Whole) -> tuple[Whole, Callable[[Any, Any], Any]]:
    digits = left.digits + right.digits
    either = Whole(left.unsigned or right.unsigned, digits)
    match sign:
        case "+":
            return either, lambda one, other: either.check(one + other)
        case "-":
            return either, lambda one, other: either.check(one - other)
        case "*":
            return either, lambda one, other: either.check(one * other)
        case "%":
            kind = Whole(left.unsigned, left.digits)
            return kind, _remainder
        case "DIV":
            return either, lambda one, other: None if other == 0 else either.check(_quotient(one, other))
        case _:
            raise _Refused(f"{sign} computes with whole numbers")


def _remainder(one: int, other: int) -> int | None:
    if other == 0:
        return None
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def _quotient(one: int, other: int) -> int:
    found = abs(one) // abs(other)
    return -found if (one < 0) != (other < 0) else found


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
            raise _Refused(f"{sign} computes with decimals, which the flavours do in different ways")
    if kind.digits > _MOST_DIGITS or kind.decimals > _MOST_DECIMALS:
        raise _Refused("a result has more digits than a decimal of the server")
    return kind, lambda one, other: compute(Decimal(one), Decimal(other))


def _as_exact(number: _Number) -> Exact:
    assert not isinstance(number, Double)
    return number if isinstance(number, Exact) else Exact(number.digits, 0)


# Truth


def _boolean(truth: Read) -> Part:
    return Part(Whole(False, 1), truth)


def _truth(part: Part) -> Read:
    read = part.read
    match part.type:
        case Null():
            return read
        case Whole() | Exact() | Double():
            return lambda row: None if (value := read(row)) is None else bool(value)
        case _:
            raise _Refused(f"{_described(part.type)} stands where true or false is asked for")


def _logical(sign: str, left: Read, right: Read) -> Read:
    def conjunction(row: Row) -> bool | None:
        one = left(row)
        if one is False:
            return False
        other = right(row)
        return False if other is False else None if one is None or other is None else True

    def disjunction(row: Row) -> bool | None:
        one = left(row)
        if one is True:
            return True
        other = right(row)
        return True if other is True else None if one is None or other is None else False

    def exclusive(row: Row) -> bool | None:
        one = left(row)
        other = None if one is None else right(row)
        return None if other is None else one != other

    return {"AND": conjunction, "OR": disjunction, "XOR": exclusive}[sign]


# Comparisons


def _comparison(sign: str, left: Part, right: Part) -> Read:
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
    """Return both values as they are compared, and how. `ordered`: it matters which is less."""
    if isinstance(left.type, Quoted) and not isinstance(right.type, Quoted):
        second, first, order = _comparable(right, left, ordered=ordered)
        return first, second, lambda one, other: -order(other, one)
    match left.type, right.type:
        case (Whole() | Exact() | Double(), Whole() | Exact() | Double()):
            if isinstance(left.type, Double) or isinstance(right.type, Double):
                return _through(float, left.read), _through(float, right.read), _order
            return left.read, right.read, _order
        case (Year(), Whole()) | (Whole(), Year()):
            constant = left.constant if isinstance(left.type, Whole) else right.constant
            if isinstance(constant, int) and 1901 <= constant <= 2155:
                return left.read, right.read, _order
            raise _Refused("a YEAR is compared with something else than a year from 1901 to 2155")
        case (Year(), Year()) | (Clock(), Clock()) | (Moment(), Moment()) | (Binary(), Binary()):
            return left.read, right.read, _order
        case (Text(one), Text(other)) if one == other:
            return left.read, right.read, one.order
        case (Text(collation), Quoted(text)):
            encoded = collation.encode(text)
            if encoded is None:
                raise _Refused(f"{text!r} has characters that {collation.charset} has not")
            return left.read, lambda _row: encoded, collation.order
        case (Binary(), Quoted(text)):
            constant_bytes = text.encode()
            return left.read, lambda _row: constant_bytes, _order
        case (Member(), Quoted(text)):
            if ordered:
                raise _Refused("an ENUM is compared by < or >")
            return _member_test(left, text)
        case (Moment(day), Quoted(text)):
            moment = _moment_constant(text, day=day)
            return left.read, lambda _row: moment, _order
        case (Clock(), Quoted(text)):
            if not _CLOCK.fullmatch(text) or not _is_clock(text):
                raise _Refused(f"{text!r} is no time of the form hh:mm:ss")
            clock = _clock(text.encode())
            return left.read, lambda _row: clock, _order
        case _:
            raise _Refused(f"{_described(left.type)} is compared with {_described(right.type)}")


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _through(convert: Callable[[Any], Any], read: Read) -> Read:
    return lambda row: None if (value := read(row)) is None else convert(value)


def _member_test(part: Part, text: str) -> tuple[Read, Read, Callable[[Any, Any], int]]:
    """Return how an ENUM is held against a constant: which of its members are equal to that is known beforehand."""
    assert isinstance(part.type, Member)
    collation = part.type.collation
    wanted = folded(text, collation)
    forms = {member: folded(member.decode(), collation) for member in (*part.type.members, b"")}
    if wanted is None or None in forms.values():
        raise _Refused(f"whether {text!r} is a member of an ENUM under {collation} is not known here")
    equal = frozenset(member for member, form in forms.items() if form == wanted)
    if b"" in equal:
        equal |= {INVALID_MEMBER}
    read = part.read
    return (lambda row: None if (value := read(row)) is None else value in equal), (lambda _row: True), _order


def _moment_constant(text: str, *, day: bool) -> bytes:
    pattern = _DATE if day else _MOMENT
    if not (pattern.fullmatch(text) or _DATE.fullmatch(text)):
        form = "YYYY-MM-DD" if day else "YYYY-MM-DD or YYYY-MM-DD hh:mm:ss"
        raise _Refused(f"{text!r} is not of the form {form}")
    try:
        found = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text[:19])
    except ValueError:
        raise _Refused(f"{text!r} is no date") from None
    return _day(text.encode()) if type(found) is date else _moment(text.encode())


def _is_clock(text: str) -> bool:
    hours, minutes, seconds = text.lstrip("-").partition(".")[0].split(":")
    return int(hours) <= 838 and int(minutes) < 60 and int(seconds) < 60


def _in(operand: Part, items: Sequence[Part]) -> Read:
    constants = [item for item in items if not isinstance(item.type, Null)]
    kinds = {type(item.type) for item in (operand, *constants)}
    if Double in kinds and len(kinds) > 1 and not isinstance(operand.type, Double):
        raise _Refused("IN holds a whole number or a decimal against a double")
    if isinstance(operand.type, Moment | Clock | Year | Binary):
        raise _Refused("IN is asked of a date, a time, a year or bytes; = and OR say the same")
    if any(item.constant is None for item in constants):
        raise _Refused("IN has something else than constants in its list")
    if any(_signs_differ(operand, item) for item in constants):
        raise _Refused("IN holds a signed number against an unsigned one")
    tests = [_comparison("=", operand, item) for item in items]

    def among(row: Row) -> bool | None:
        found: bool | None = False
        for test in tests:
            one = test(row)
            if one:
                return True
            found = None if one is None else found
        return found

    return among


def _between(operand: Part, low: Part, high: Part) -> Read:
    kinds = [part.type for part in (operand, low, high)]
    if any(isinstance(one, Double) for one in kinds) and not all(isinstance(one, Double) for one in kinds):
        raise _Refused("BETWEEN mixes doubles with other numbers")
    if isinstance(operand.type, Quoted):
        raise _Refused("BETWEEN is asked of a constant")
    return _logical("AND", _comparison(">=", operand, low), _comparison("<=", operand, high))


def _like(operand: Part, pattern: Part) -> Read:
    if not (isinstance(operand.type, Text) and isinstance(pattern.type, Quoted)):
        raise _Refused(f"{_described(operand.type)} LIKE {_described(pattern.type)}")
    matches = operand.type.collation.matcher(pattern.type.text)
    if matches is None:
        raise _Refused(f"{pattern.type.text!r} has characters that {operand.type.collation.charset} has not")
    read = operand.read
    return lambda row: None if (value := read(row)) is None else matches(value)


def _described(kind: Type) -> str:
    match kind:
        case Opaque(why):
            return f"a value that is not compared here ({why})"
        case Null():
            return "NULL"
        case Whole():
            return "a whole number"
        case Exact():
            return "a decimal"
        case Double():
            return "a double"
        case Text():
            return "text"
        case Binary():
            return "bytes"
        case Member():
            return "an ENUM"
        case Moment(day):
            return "a DATE" if day else "a DATETIME"
        case Clock():
            return "a TIME"
        case Year():
            return "a YEAR"
        case Quoted(text):
            return f"the string {text!r}"
