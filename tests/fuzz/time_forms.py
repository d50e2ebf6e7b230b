"""The layout of dates and times in a row image, today's and that of before MySQL 5.6."""

import calendar
import re
import time
from typing import Final

from airflow_provider_dm.engine.schema.model import Column
from tests.fuzz.cell import Bytes, Form, Make, parts_of, refuse, same

_FRACTION: Final = (0, 1, 1, 2, 2, 3, 3)
_YEAR: Final = re.compile(rb"([0-9]{4})")
_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")
_TIME: Final = re.compile(rb"(-?)([0-9]{2,3}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?")


def _year(column: Column, code: int, metadata: bytes) -> Form | None:
    def write(value: bytes) -> bytes:
        (year,) = map(int, parts_of(_YEAR, value, "a year"))
        if year and not 1901 <= year <= 2155:
            refuse(value, "a year")
        return bytes([year - 1900 if year else 0])

    return Form(write, 1) if code == 13 else None


def _date(column: Column, code: int, metadata: bytes) -> Form | None:
    def write(value: bytes) -> bytes:
        year, month, day = map(int, parts_of(_DATE, value, "a date"))
        return _checked(value, month <= 12 and day <= 31, year << 9 | month << 5 | day).to_bytes(3, "little")

    return Form(write, 3) if code in (10, 14) else None


def _checked(value: bytes, fits: bool, number: int) -> int:
    if not fits:
        refuse(value, "a time that a column can hold")
    return number


def _fraction_of(value: bytes, digits: bytes, fsp: int) -> tuple[int, int]:
    """(the fraction as it is stored, its bytes)."""
    if len(digits) != fsp:
        refuse(value, f"a time of {fsp} digits")
    size = _FRACTION[fsp]
    return int(digits.ljust(2 * size, b"0") or b"0"), size


def _without_hidden_digit(fsp: int, whole: int, *, offset: int = 0) -> Bytes:
    """Odd precisions store one digit that is not shown. `offset`: of TIME, whose negative numbers lie below it."""
    if fsp % 2 == 0:
        return same
    shift = 8 * _FRACTION[fsp]

    def normal(cell: bytes) -> bytes:
        number = int.from_bytes(cell, "big") - (offset << shift)
        sign, number = (-1, -number) if number < 0 else (1, number)
        fraction = number & ((1 << shift) - 1)
        number = sign * (number - fraction % 10) + (offset << shift)
        return number.to_bytes(whole + _FRACTION[fsp], "big")

    return normal


def _time(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def clock(value: bytes) -> tuple[int, int, int, int, bytes]:
        sign, *parts, digits = parts_of(_TIME, value, "a time")
        hour, minute, second = map(int, parts)
        if hour > 838 or minute > 59 or second > 59 or len(parts[0]) == 3 > len(str(hour)):
            refuse(value, "a time")
        return (-1 if sign else 1), hour, minute, second, digits

    def write(value: bytes) -> bytes:
        sign, hour, minute, second, digits = clock(value)
        fraction, size = _fraction_of(value, digits, fsp)
        number = sign * ((hour << 12 | minute << 6 | second) << 8 * size | fraction)
        return (number + (0x800000 << 8 * size)).to_bytes(3 + size, "big")

    def write_old(value: bytes) -> bytes:
        sign, hour, minute, second, digits = clock(value)
        number = _checked(value, not digits, sign * (hour * 10_000 + minute * 100 + second))
        return number.to_bytes(3, "little", signed=True)

    if (code, metadata) == (19, bytes([fsp])):
        return Form(write, 3 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 3, offset=0x800000))
    return Form(write_old, 3) if code == 11 and not fsp else None


def _datetime(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def parts(value: bytes) -> tuple[list[int], bytes]:
        *numbers, digits = parts_of(_DATETIME, value, "a datetime")
        found = [int(number) for number in numbers]
        _, month, day, hour, minute, second = found
        if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
            refuse(value, "a datetime")
        return found, digits

    def write(value: bytes) -> bytes:
        (year, month, day, hour, minute, second), digits = parts(value)
        fraction, size = _fraction_of(value, digits, fsp)
        number = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
        return (number + 0x8000000000).to_bytes(5, "big") + fraction.to_bytes(size, "big")

    def write_old(value: bytes) -> bytes:
        numbers, digits = parts(value)
        text = "{:04}{:02}{:02}{:02}{:02}{:02}".format(*numbers)
        return _checked(value, not digits, int(text)).to_bytes(8, "little")

    if (code, metadata) == (18, bytes([fsp])):
        return Form(write, 5 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 5))
    return Form(write_old, 8) if code == 12 and not fsp else None


def _timestamp(column: Column, code: int, metadata: bytes) -> Form | None:
    fsp = column.datetime_precision or 0

    def seconds(value: bytes) -> tuple[int, bytes]:
        *_, digits = parts_of(_DATETIME, value, "a timestamp")
        text = value[:19].decode()
        if text == "0000-00-00 00:00:00":
            return 0, digits
        try:
            number = calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))
        except ValueError:
            refuse(value, "a timestamp")
        return _checked(value, 0 <= number < 1 << 32 and (number > 0 or bool(digits)), number), digits

    def write(value: bytes) -> bytes:
        number, digits = seconds(value)
        fraction, size = _fraction_of(value, digits, fsp)
        return number.to_bytes(4, "big") + fraction.to_bytes(size, "big")

    def write_old(value: bytes) -> bytes:
        number, digits = seconds(value)
        return _checked(value, not digits, number).to_bytes(4, "little")

    if (code, metadata) == (17, bytes([fsp])):
        return Form(write, 4 + _FRACTION[fsp], normal=_without_hidden_digit(fsp, 4))
    return Form(write_old, 4) if code == 7 and not fsp else None


FORMS: Final[dict[str, Make]] = {
    "year": _year,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
}
