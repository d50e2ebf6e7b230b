"""The layout of numbers in a row image: integers, DECIMAL, FLOAT and DOUBLE, BIT."""

import math
import re
import struct
from itertools import pairwise
from typing import Final

from airflow_provider_dm.engine.schema.model import Column
from tests.fuzz.cell import Bytes, Form, Make, parts_of, refuse

INTEGERS: Final = {"tinyint": (1, 1), "smallint": (2, 2), "mediumint": (9, 3), "int": (3, 4), "bigint": (8, 8)}
"""data type -> (type code, bytes)"""
_GROUP: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_INTEGER: Final = re.compile(rb"(0|-?[1-9][0-9]*)")
_DECIMAL: Final = re.compile(rb"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")


def _integer(column: Column, code: int, metadata: bytes) -> Form | None:
    expected, size = INTEGERS[column.data_type]
    signed = not column.unsigned

    def write(value: bytes) -> bytes:
        (digits,) = parts_of(_INTEGER, value, "an integer")
        try:
            return int(digits).to_bytes(size, "little", signed=signed)
        except OverflowError:
            refuse(value, column.column_type)

    return Form(write, size) if code == expected else None


def _decimal(column: Column, code: int, metadata: bytes) -> Form | None:
    precision, scale = column.numeric_precision or 0, column.numeric_scale or 0
    if code != 246 or tuple(metadata) != (precision, scale):
        return None

    def write(value: bytes) -> bytes:
        sign, whole, fraction = parts_of(_DECIMAL, value, column.column_type)
        if len(fraction) != scale or len(whole.lstrip(b"0")) > precision - scale:
            refuse(value, column.column_type)
        if sign and not (whole + fraction).strip(b"0"):
            refuse(value, "a zero")
        whole = whole.lstrip(b"0").rjust(precision - scale, b"0")
        groups = [*_pieces(whole, len(whole) % 9), *_pieces(fraction, 9)]
        packed = b"".join(int(group).to_bytes(_GROUP[len(group)], "big") for group in groups)
        if sign:
            packed = bytes(byte ^ 0xFF for byte in packed)
        return bytes([packed[0] ^ 0x80]) + packed[1:]

    zero = write(b"0" + (b"." + b"0" * scale if scale else b""))
    minus_zero = bytes(byte ^ 0xFF for byte in zero)

    def normal(cell: bytes) -> bytes:
        return zero if cell == minus_zero else cell

    return Form(write, len(zero), normal=normal)


def _pieces(digits: bytes, first: int) -> list[bytes]:
    """Cut into a first piece and then nine digits each; none is empty."""
    cuts = [0, *range(first, len(digits), 9), len(digits)]
    return [digits[a:b] for a, b in pairwise(cuts) if b > a]


def _float(column: Column, code: int, metadata: bytes) -> Form | None:
    layout, expected, size = ("<f", 4, 4) if column.data_type == "float" else ("<d", 5, 8)

    def write(value: bytes) -> bytes:
        try:
            number = float(value)
            packed = struct.pack(layout, number)
        except (ValueError, OverflowError):
            refuse(value, "a float")
        if not math.isfinite(number) or repr(number).encode() != value or struct.unpack(layout, packed)[0] != number:
            refuse(value, column.data_type)
        return packed

    return Form(write, size) if (code, metadata) == (expected, bytes([size])) else None


def _bit(column: Column, code: int, metadata: bytes) -> Form | None:
    bits = column.numeric_precision or 0
    size = (bits + 7) // 8
    if code != 16 or tuple(metadata) != (bits % 8, bits // 8):
        return None
    return Form(_exactly(size), size)


def _exactly(size: int) -> Bytes:
    def write(value: bytes) -> bytes:
        if len(value) != size:
            refuse(value, f"{size} bytes")
        return value

    return write


FORMS: Final[dict[str, Make]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(("float", "double"), _float),
    "decimal": _decimal,
    "bit": _bit,
}
