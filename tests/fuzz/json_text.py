"""The text of a JSON document on a server: `text` makes it, `tells` compares a text with a document byte for byte.

A DOUBLE alone is compared as a number: how a server writes its digits is not the oracle's business.
"""

import base64
import json
import re
import struct
from decimal import Decimal
from typing import Final

from tests.fuzz.json_value import BadJson, Document, Opaque

DATE, TIME, DATETIME, TIMESTAMP, DECIMAL = 10, 11, 12, 7, 246
"""Type codes of opaque values that are printed as what they mean."""


def tells(text: bytes, document: Document) -> bool:
    """Return True if a server would print `document` as `text`."""
    try:
        return _match(text.decode(), 0, document) == len(text.decode())
    except (BadJson, UnicodeDecodeError):
        return False


_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e-?[1-9]\d*)?")


def _match(text: str, at: int, document: Document) -> int:
    """Return where the document's text that begins at `at` ends. Raises BadJson where it is not that."""
    if isinstance(document, float):
        number = _NUMBER.match(text, at)
        if number is None or not (number[2] or number[3]) or repr(float(number[0])) != repr(document):
            raise BadJson(f"{document} is not at {at}")
        return number.end()
    if isinstance(document, list | dict):
        opened, closed = "[]" if isinstance(document, list) else "{}"
        at = _literally(text, at, opened)
        for index, key in enumerate(document):
            if index:
                at = _literally(text, at, ", ")
            if isinstance(document, dict):
                at = _literally(text, at, json.dumps(key, ensure_ascii=False) + ": ")
                at = _match(text, at, document[str(key)])
            else:
                at = _match(text, at, document[index])
        return _literally(text, at, closed)
    if isinstance(document, Opaque):
        return _literally(text, at, _opaque_text(document))
    return _literally(text, at, json.dumps(document, ensure_ascii=False))


def _literally(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        raise BadJson(f"{expected!r} is not at {at}")
    return at + len(expected)


def _opaque_text(value: Opaque) -> str:
    if value.code == DECIMAL:
        return _decimal_text(value.data)
    if value.code in (DATE, TIME, DATETIME, TIMESTAMP):
        if len(value.data) != 8:
            raise BadJson("a time of another size")
        return f'"{_time_text(value.code, struct.unpack("<q", value.data)[0])}"'
    encoded = base64.b64encode(value.data).decode()
    lines = "\\n".join(encoded[start : start + 76] for start in range(0, len(encoded), 76))
    return f'"base64:type{value.code}:{lines}"'


def _decimal_text(data: bytes) -> str:
    """Precision, scale, and groups of nine digits in four bytes, the sign in the first bit."""
    precision, scale = data[0], data[1]
    cell = bytearray(data[2:])
    if not cell or not 0 < precision <= 81 or scale > min(precision, 38):
        raise BadJson("no decimal")
    negative = not cell[0] & 0x80
    cell[0] ^= 0x80
    if negative:
        cell = bytearray(byte ^ 0xFF for byte in cell)
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    digits, at = "", 0
    for group in groups:
        number = int.from_bytes(cell[at : at + sizes[group]], "big")
        at += sizes[group]
        if len(str(number)) > group and number:
            raise BadJson("no decimal")
        digits += str(number).rjust(group, "0") if group else ""
    if at != len(cell):
        raise BadJson("a decimal of another size")
    text = digits[:whole].lstrip("0") or "0"
    text += "." + digits[whole:] if scale else ""
    return "-" + text if negative and digits.strip("0") else text


def _time_text(code: int, packed: int) -> str:
    """Microseconds in 24 bits, then what a TIME or DATETIME packs."""
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micro, rest = packed & 0xFFFFFF, packed >> 24
    clock, month = rest & 0x1FFFF, rest >> 22
    hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
    if code == TIME:
        hour = rest >> 12 & 0x3FF
        if rest >> 22 or hour > 838 or minute > 59 or second > 59 or micro > 999_999:
            raise BadJson("no time")
        return f"{sign}{hour:02}:{minute:02}:{second:02}.{micro:06}"
    day = f"{month // 13:04}-{month % 13:02}-{rest >> 17 & 31:02}"
    if sign or month // 13 > 9999 or (code != DATE and (hour > 23 or minute > 59 or second > 59 or micro > 999_999)):
        raise BadJson("no date")
    return day if code == DATE else f"{day} {hour:02}:{minute:02}:{second:02}.{micro:06}"


def packed_time(year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int) -> bytes:
    """The bytes of a DATETIME in a document (of a TIME: without year, month and day)."""
    rest = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
    return struct.pack("<q", rest << 24 | micro)


# To text


def text(document: Document) -> bytes:
    """Return it as a server prints it, for documents whose doubles Python prints alike (`some` makes no others)."""
    match document:
        case float():
            return _double(document).encode()
        case list():
            return b"[" + b", ".join(map(text, document)) + b"]"
        case dict():
            pairs = (json.dumps(key, ensure_ascii=False).encode() + b": " + text(document[key]) for key in document)
            return b"{" + b", ".join(pairs) + b"}"
        case Opaque():
            return _opaque_text(document).encode()
    return json.dumps(document, ensure_ascii=False).encode()


def _double(number: float) -> str:
    """Plain between 1e-15 and 1e15; with an exponent beyond."""
    if number == 0 or 1e-15 <= abs(number) < 1e15:
        plain = format(Decimal(repr(number)), "f")
        return plain if "." in plain else plain + ".0"
    digits, exponent = repr(number).split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"
