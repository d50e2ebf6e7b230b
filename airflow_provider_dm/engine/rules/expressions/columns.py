"""The leaves of an expression: columns and constants, as typed parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import Refused
from airflow_provider_dm.engine.rules.expressions import parts
from airflow_provider_dm.engine.rules.expressions.arithmetic import MOST_DECIMALS, MOST_DIGITS, finite
from airflow_provider_dm.engine.rules.expressions.expression_session import ExpressionSession, local_times, zone_of
from airflow_provider_dm.engine.rules.expressions.text import known_order
from airflow_provider_dm.engine.schema.codec import BINARIES, TEXTS, enum_members
from airflow_provider_dm.engine.schema.model import Column

_INTEGERS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_CLOCK: Final = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def type_of(
    table: TableName, column: Column, collation: str | None, session: ExpressionSession
) -> tuple[parts.Type, Callable[[bytes], Any]]:
    """Return a column's type, and the function from its canonical value to a value of that type."""
    name = column.data_type
    if name in TEXTS:
        order = known_order(column.charset, collation or column.collation, session.weights)
        if order is not None and order.name.partition("_")[0] in (order.charset, "utf8"):
            return parts.Text(order), bytes
        chosen = collation or column.collation
        remedy = "; `… COLLATE utf8mb4_bin` and the like compare by code points" if not collation else ""
        return parts.Opaque(f"how {chosen} compares text of {column.charset} is not known here{remedy}"), bytes
    if collation is not None:
        raise Refused(f"COLLATE follows {column.name}, which is {column.column_type}")
    if name in _INTEGERS:
        return parts.WholeNumber(column.unsigned, _INTEGERS[name]), int
    match name:
        case "decimal":
            return parts.Exact(column.numeric_precision or 10, column.numeric_scale or 0), _decimal
        case "float" | "double" if column.numeric_scale is None:
            return parts.Double(), float
        case "date":
            return parts.Moment(day=True), _day
        case "datetime":
            return parts.Moment(day=False), _moment
        case "timestamp":
            zone = zone_of(session.zone)
            if zone is not None:
                return parts.Moment(day=False), local_times(zone)
            why = f"`timezone: {session.zone}` is not known" if session.zone else "the task has no `timezone`"
            return parts.Opaque(f"{column.name} is a TIMESTAMP, and {why}"), bytes
        case "time":
            return parts.Clock(), _clock
        case "year":
            return parts.Year(), int
        case "enum":
            return parts.EnumMember(enum_members(table, column), column.collation or ""), bytes
        case name if name in BINARIES:
            return parts.Binary(), bytes
        case _:
            return parts.Opaque(f"{column.name} is {column.column_type}"), bytes


def _decimal(value: bytes) -> Decimal:
    return Decimal(value.decode("ascii"))


def _day(value: bytes) -> bytes:
    return value + b" 00:00:00.000000"


def _moment(value: bytes) -> bytes:
    return value.ljust(26, b"0") if b"." in value else value + b".000000"


def _clock(value: bytes) -> int:
    match = _CLOCK.fullmatch(value.decode("ascii"))
    if match is None:
        raise ValueError("not a TIME")
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def constant_part(kind: str, text: str) -> parts.Part:
    """Return the part for a constant, given by the lexer's kind and text."""
    match kind:
        case "null":
            return parts.NULL_PART
        case "integer" if len(text.lstrip("0")) <= 20 and int(text) <= parts.UNSIGNED[1]:
            return parts.fixed(parts.WholeNumber(int(text) > parts.SIGNED[1], len(text.lstrip("0"))), int(text))
        case "integer" | "decimal":
            whole, _, fraction = text.partition(".")
            digits = len(whole.lstrip("0")) + len(fraction)
            if digits > MOST_DIGITS or len(fraction) > MOST_DECIMALS:
                raise Refused(f"{text} has too many digits")
            return parts.fixed(parts.Exact(digits, len(fraction)), Decimal(text))
        case "double":
            return parts.fixed(parts.Double(), finite(float(text)))
        case "bytes":
            return parts.fixed(parts.Binary(), bytes.fromhex(text))
        case _:
            return parts.fixed(parts.Quoted(text), text)


def moment_constant(text: str, *, day: bool) -> bytes:
    """Return a string constant as the value of the DATE (`day`) or DATETIME with which it is compared."""
    pattern = _DATE if day else _MOMENT
    if not (pattern.fullmatch(text) or _DATE.fullmatch(text)):
        form = "YYYY-MM-DD" if day else "YYYY-MM-DD or YYYY-MM-DD hh:mm:ss"
        raise Refused(f"{text!r} is not of the form {form}")
    try:
        moment = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text[:19])
    except ValueError:
        raise Refused(f"{text!r} is not a date") from None
    return _day(text.encode()) if type(moment) is date else _moment(text.encode())


def clock_constant(text: str) -> int:
    """Return a string constant as the value of the TIME with which it is compared, in microseconds."""
    match = _CLOCK.fullmatch(text)
    if match is None or int(match[2]) > 838 or int(match[3]) > 59 or int(match[4]) > 59:
        raise Refused(f"{text!r} is not a time of the form hh:mm:ss")
    return _clock(text.encode())
