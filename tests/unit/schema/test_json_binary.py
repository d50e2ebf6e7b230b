"""Binary JSON becomes the server's text; damage becomes an error."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.schema import json_binary, numbers
from airflow_provider_dm.engine.schema.errors import MalformedValue
from airflow_provider_dm.engine.schema.json_binary import MAX_DEPTH, json_text
from tests.fuzz.json_text import DATE, DATETIME, DECIMAL, TIME, tells
from tests.fuzz.json_value import Document, Opaque, read, written

NUMBERS = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES: st.SearchStrategy[Document] = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STRINGS, inner, max_size=5),
    max_leaves=20,
)


def opaque(code: int, data: bytes) -> bytes:
    return written(Opaque(code, data))


@given(VALUES, st.booleans())
def test_a_document_has_the_servers_text(value: Document, large: bool) -> None:
    data = written(value, large=large)
    assert tells(json_text(data), read(data))


@given(VALUES, st.booleans(), st.data())
def test_damage_is_an_error_or_another_document_of_no_greater_size(
    value: Document, large: bool, choose: st.DataObject
) -> None:
    damaged = bytearray(written(value, large=large))
    for _ in range(choose.draw(st.integers(1, 4))):
        damaged[choose.draw(st.integers(0, len(damaged) - 1))] = choose.draw(st.integers(0, 255))
    data = bytes(damaged[: choose.draw(st.integers(0, len(damaged)))])
    try:
        text = json_text(data)
    except MalformedValue:
        return
    # A byte is at most six (\u0001), and a double of eight bytes some 25 characters.
    assert len(text) <= 10 * len(data) + 10


@pytest.mark.parametrize(
    ("data", "text"),
    [
        # As MySQL 9.7 wrote them: json_array(1.50), -0.50, a date, a time, a moment, x'00ff', b'101'
        (opaque(DECIMAL, bytes.fromhex("03028132")), b"1.50"),
        (opaque(DECIMAL, bytes.fromhex("03027fcd")), b"-0.50"),
        (opaque(DATE, struct.pack("<q", ((2020 * 13 + 2) << 5 | 29) << 41)), b'"2020-02-29"'),
        (opaque(TIME, struct.pack("<q", -((838 << 12 | 59 << 6 | 59) << 24))), b'"-838:59:59.000000"'),
        (opaque(DATETIME, struct.pack("<q", 0)), b'"0000-00-00 00:00:00.000000"'),
        (opaque(15, b"\x00\xff"), b'"base64:type15:AP8="'),
        (opaque(16, b"\x05"), b'"base64:type16:BQ=="'),
        (opaque(252, bytes(60)), b'"base64:type252:' + b"A" * 76 + rb"\n" + b"A" * 4 + b'"'),
    ],
)
def test_values_that_json_does_not_have(data: bytes, text: bytes) -> None:
    assert json_text(data) == text


def test_a_decimal_may_have_more_digits_than_a_column() -> None:
    size = numbers.decimal_size(71, 1, numbers.OF_VALUES)
    data = bytearray(size)
    data[0], data[-1] = 0x80, 5
    assert json_text(opaque(DECIMAL, bytes([71, 1]) + data)) == b"0.5"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",  # no header
        b"\x02\x01\x00\x07\x00\x0c\xff\x00",  # a string far away
        b"\x02\xff\xff\x08\x00",  # more elements than bytes
        b"\x04\x07",  # no such literal
        b"\x0d",  # no such type
        b"\x0c\x85\x80\x80\x80\x80\x01abc",  # a length of six bytes
        b"\x0c\x01\xff",  # not UTF-8
        b"\x0b" + struct.pack("<d", float("nan")),
        b"\x00\x02\x00\x16\x00\x12\x00\x01\x00\x12\x00\x01\x00\x05\x01\x00\x05\x01\x00aa",  # one key twice
        opaque(DECIMAL, b"\x03\x02\x81"),
        opaque(DATETIME, b"\x00" * 7),
        opaque(TIME, struct.pack("<q", 900 << 36)),
    ],
)
def test_bytes_that_no_server_writes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedValue):
        json_text(data)


def test_depth_is_bounded() -> None:
    deep: Document = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert json_text(written(deep)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(MalformedValue):
        json_text(written([deep]))


def test_shared_json_values_are_not_multiplied() -> None:
    """Each array has a hundred elements, all of which are the next array: 100**8 empty arrays in some kilobytes."""
    count, levels = 100, 8
    size = 4 + 3 * count
    data = b"\x02"
    for level in range(levels):
        inner = size if level < levels - 1 else 4 + 3 * count
        data += struct.pack("<HH", count, size * (levels - level)) + count * (b"\x02" + struct.pack("<H", inner))
    with pytest.raises(MalformedValue):
        json_text(data + b"\x00\x00\x04\x00")


def test_sizes_of_strings() -> None:
    for size in (0, 1, 127, 128, 16383, 16384):
        assert json_text(written("x" * size)) == b'"' + b"x" * size + b'"'
    assert json_binary.quoted(b"/\x7f\xc2\x80") == b'"/\x7f\xc2\x80"'
