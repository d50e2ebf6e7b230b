"""Columns as a catalogue would describe them, what a table map says of them, and random canonical values for them."""

import re
import struct
from ipaddress import IPv4Address
from random import Random
from typing import Final
from uuid import UUID

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from tests.fuzz import json_seeds
from tests.fuzz.number_forms import INTEGERS
from tests.fuzz.string_forms import GEOMETRIES, INVALID_MEMBER, LOBS, members_of

_TYPE: Final = re.compile(r"(\w+)(?:\((.*?)\)(?= |$))?", re.DOTALL)
_WIDTHS: Final = {"utf8mb4": 4, "utf8mb3": 3, "latin1": 1, "ascii": 1, "swe7": 1, "gbk": 2, "sjis": 2, "utf16": 4}
_OLD: Final = {"time": 11, "datetime": 12, "timestamp": 7}
_NEW: Final = {"time": 19, "datetime": 18, "timestamp": 17}
NUMERIC_CODES: Final = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 246})
"""Types with a bit in a map's list of unsigned columns."""


def column(position: int, name: str, column_type: str, charset: str | None = None) -> Column:
    """A nullable column from its type as the catalogue writes it, e.g. `decimal(10,2) unsigned`."""
    match = _TYPE.match(column_type)
    assert match is not None
    data_type, arguments = match[1], match[2] or ""
    numbers = [int(number) for number in re.findall(r"\d+", arguments)] if arguments[:1].isdigit() else []
    facts: dict[str, object] = {}
    if data_type == "decimal":
        facts = {"numeric_precision": numbers[0], "numeric_scale": numbers[1]}
    elif data_type == "bit":
        facts = {"numeric_precision": numbers[0]}
    elif data_type in _NEW:
        facts = {"datetime_precision": numbers[0] if numbers else 0}
    elif data_type in ("char", "varchar"):
        charset = charset or "utf8mb4"
        facts = {"octet_length": numbers[0] * _WIDTHS[charset]}
    elif data_type in ("binary", "varbinary") or (data_type == "vector" and arguments.endswith("bytes")):
        facts = {"octet_length": numbers[0]}
    elif data_type in LOBS:
        charset = charset or ("utf8mb4" if data_type.endswith("text") else None)
        facts = {"octet_length": (1 << 8 * LOBS[data_type]) - 1}
    elif data_type in ("enum", "set"):
        charset = charset or "utf8mb4"
    collation = f"{charset}_bin" if charset else None
    return Column(name, position, data_type, column_type, True, charset, collation, **facts)  # type: ignore[arg-type]


def table(name: str, *types: str, schema: str = "shop", charsets: dict[str, str] | None = None) -> Table:
    """A table of columns c0, c1, … of these types; c0 is its key."""
    columns = [column(i, f"c{i}", kind, (charsets or {}).get(kind)) for i, kind in enumerate(types)]
    return Table(TableName(schema, name), tuple(columns), (Index("PRIMARY", ("c0",), prefixes=(None,)),))


def declared(column: Column, *, old_times: bool = False) -> tuple[int, bytes]:
    """(type code, metadata) that a server's table map has for a column."""
    kind = column.data_type
    if "COMPRESSED" in column.column_type:
        plain = (column.octet_length or 0) + 1
        return (140, bytes([LOBS[kind]])) if kind in LOBS else (141, struct.pack("<H", plain))
    if kind in INTEGERS:
        return INTEGERS[kind][0], b""
    if kind in _NEW:
        if old_times:
            return _OLD[kind], b""
        return _NEW[kind], bytes([column.datetime_precision or 0])
    if kind in LOBS:
        return 252, bytes([LOBS[kind]])
    if kind in GEOMETRIES:
        return 255, b"\4"
    length = column.octet_length or 0
    match kind:
        case "decimal":
            return 246, bytes([column.numeric_precision or 0, column.numeric_scale or 0])
        case "float":
            return 4, b"\4"
        case "double":
            return 5, b"\x08"
        case "bit":
            bits = column.numeric_precision or 0
            return 16, bytes([bits % 8, bits // 8])
        case "year":
            return 13, b""
        case "date":
            return 10, b""
        case "varchar" | "varbinary":
            return 15, struct.pack("<H", length)
        case "char" | "binary":
            return 254, bytes([254 ^ (length >> 4 & 0x30), length & 255])
        case "enum":
            return 254, bytes([247, 1 if len(members_of(column)) < 256 else 2])
        case "set":
            size = (len(members_of(column)) + 7) // 8
            return 254, bytes([248, size if size <= 4 else 8])
        case "vector":
            return (242, b"\4") if not length else (15, struct.pack("<H", length))
        case "json":
            return 245, b"\4"
        case "uuid" | "inet6":
            return 254, bytes([254, 16])
        case "inet4":
            return 254, bytes([254, 4])
    raise AssertionError(column)


_WORDS: Final = (b"", b"a", b"NULL", b'it\'s \\ "x"\0\n', "é€😀".encode(), b"0" * 60, b" trailing  ")
_DOUBLES: Final = (0.0, -0.0, 0.1, 1.5, -1e300, 5e-324, 1.7976931348623157e308, 9007199254740993.0)


def value(column: Column, dice: Random) -> bytes | None:
    """A random value, often an edge one, sometimes NULL."""
    return None if dice.random() < 0.12 else some_value(column, dice)


def some_value(column: Column, dice: Random) -> bytes:
    """The same, never NULL."""
    kind, pick = column.data_type, dice.randint
    if kind in INTEGERS:
        bits = 8 * INTEGERS[kind][1]
        low, high = (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return b"%d" % dice.choice((low, high, 0, high // 2 + 1, pick(low, high), pick(max(low, -9), 9)))
    if kind in LOBS or kind in ("char", "varchar", "binary", "varbinary"):
        return _string(column, dice)
    match kind:
        case "decimal":
            return _decimal(column.numeric_precision or 0, column.numeric_scale or 0, dice)
        case "double":
            return repr(dice.choice((*_DOUBLES, dice.uniform(-1, 1) * 10.0 ** pick(-300, 300)))).encode()
        case "float":
            number = dice.choice((0.0, -0.0, 0.1, 1.5, 3.4028234663852886e38, dice.uniform(-1e6, 1e6)))
            return repr(struct.unpack("<f", struct.pack("<f", number))[0]).encode()
        case "bit":
            bits = column.numeric_precision or 0
            return dice.choice((0, 1, (1 << bits) - 1, dice.getrandbits(bits))).to_bytes((bits + 7) // 8, "big")
        case "year":
            return dice.choice((b"0000", b"1901", b"2155", b"%d" % pick(1901, 2155)))
        case "date":
            return dice.choice((b"0000-00-00", b"2020-00-10", b"9999-12-31", _day(dice)))
        case "datetime":
            text = dice.choice((b"0000-00-00 00:00:00", b"9999-12-31 23:59:59", _day(dice) + b" " + _clock(dice)))
            return text + _fraction(column, dice)
        case "timestamp":
            return _timestamp(column, dice)
        case "time":
            hour = dice.choice((0, 23, 838, pick(0, 837)))
            fraction = _fraction(column, dice)
            text = b"%02d:%02d:%02d" % (hour, pick(0, 59), pick(0, 59)) + fraction
            return b"-" + text if dice.random() < 0.4 and text.strip(b"0:.") else text
        case "enum":
            return dice.choice((INVALID_MEMBER, *members_of(column)))
        case "set":
            return b",".join(member for member in members_of(column) if dice.random() < 0.4)
    if kind in GEOMETRIES:
        return struct.pack("<IBIdd", pick(0, 1) * 4326, 1, 1, dice.uniform(-90, 90), dice.uniform(-90, 90))
    if kind == "vector":
        return struct.pack("<3f", *(dice.uniform(-1, 1) for _ in range(3)))
    if kind == "json":
        return json_seeds.some_text(dice)
    if kind == "uuid":
        return str(UUID(int=dice.choice((0, 1, dice.getrandbits(128), dice.getrandbits(120) << 8)))).encode()
    if kind == "inet4":
        return str(IPv4Address(dice.choice((0, dice.getrandbits(32), dice.getrandbits(16) << 16)))).encode()
    if kind == "inet6":  # texts that all servers write alike
        groups = [dice.randint(1, 65535) for _ in range(8)]
        return dice.choice((b"::", b"2001:db8::1", b"::ffff:1.2.3.4", b":".join(b"%x" % group for group in groups)))
    raise AssertionError(column)


def _decimal(precision: int, scale: int, dice: Random) -> bytes:
    digits = dice.choice(
        (0, 1, 10**precision - 1, dice.randrange(10**precision), dice.randrange(10 ** (precision // 2)))
    )
    text = b"%0*d" % (scale + 1, digits)
    if scale:
        text = text[:-scale] + b"." + text[-scale:]
    return b"-" + text if digits and dice.random() < 0.5 else text


def _day(dice: Random) -> bytes:
    return b"%04d-%02d-%02d" % (dice.randint(0, 9999), dice.randint(0, 12), dice.randint(0, 31))


def _clock(dice: Random) -> bytes:
    return b"%02d:%02d:%02d" % (dice.randint(0, 23), dice.randint(0, 59), dice.randint(0, 59))


def _fraction(column: Column, dice: Random) -> bytes:
    fsp = column.datetime_precision or 0
    return b".%0*d" % (fsp, dice.choice((0, 1, 10**fsp - 1, dice.randrange(10**fsp)))) if fsp else b""


def _timestamp(column: Column, dice: Random) -> bytes:
    fsp = column.datetime_precision or 0
    if dice.random() < 0.2:
        return b"0000-00-00 00:00:00" + (b"." + b"0" * fsp if fsp else b"")
    year, month, day = dice.randint(1971, 2037), dice.randint(1, 12), dice.randint(1, 28)
    return b"%04d-%02d-%02d " % (year, month, day) + _clock(dice) + _fraction(column, dice)


def _string(column: Column, dice: Random) -> bytes:
    most = min(column.octet_length or 0, 300)
    text = dice.choice((*_WORDS, dice.randbytes(dice.randint(0, 30)), b"x" * dice.randint(0, 80)))[:most]
    if column.charset is not None:
        text = text.decode("utf-8", "ignore").encode()
        if column.charset == "utf16":
            text = bytes(byte for char in text[: most // 2] for byte in (0, char))
        elif not column.charset.startswith("utf8"):
            text = bytes(byte & 0x7F for byte in text)
    if column.data_type == "binary":
        return text.ljust(most, b"\0")
    return text.rstrip(b" ") if column.data_type == "char" else text
