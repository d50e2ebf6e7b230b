"""Numbers come out digit for digit."""

import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.schema import numbers
from airflow_provider_dm.engine.schema.errors import MalformedValue


def packed(value: Decimal, precision: int, scale: int) -> bytes:
    """MySQL's decimal2bin, written from its description."""
    digits = f"{value.copy_abs():.{scale}f}".replace(".", "").zfill(precision)[-precision:]
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    groups = []
    if first := len(whole) % 9:
        groups.append(whole[:first])
    groups += [whole[start : start + 9] for start in range(first, len(whole), 9)]
    groups += [fraction[start : start + 9] for start in range(0, len(fraction), 9)]
    data = bytearray(b"".join(int(group).to_bytes(numbers.BYTES_FOR_DIGITS[len(group)], "big") for group in groups))
    if value < 0:
        data = bytearray(byte ^ 0xFF for byte in data)
    data[0] ^= 0x80
    return bytes(data)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[Decimal, int, int]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 30)))
    unscaled = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return Decimal((unscaled < 0, [int(digit) for digit in str(abs(unscaled))], -scale)), precision, scale


@given(decimals())
def test_decimals(made: tuple[Decimal, int, int]) -> None:
    value, precision, scale = made
    data = packed(value, precision, scale)
    assert len(data) == numbers.decimal_size(precision, scale)
    text = numbers.decimal_unpacker(precision, scale)(data)
    assert text == f"{value:.{scale}f}".encode()


def test_a_decimal_with_impossible_digits_is_refused() -> None:
    unpack = numbers.decimal_unpacker(9, 0)
    assert unpack((999_999_999 | 0x80000000).to_bytes(4, "big")) == b"999999999"
    with pytest.raises(MalformedValue):
        unpack((1_000_000_000 | 0x80000000).to_bytes(4, "big"))


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (66, 0), (5, 6), (65, 39)])
def test_an_impossible_decimal_type_is_refused(precision: int, scale: int) -> None:
    with pytest.raises(MalformedValue):
        numbers.decimal_size(precision, scale)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_keep_every_bit_through_text(value: float) -> None:
    text = numbers.unpack_double(struct.pack("<d", value))
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)
    assert numbers.float_from_text(text) == text
    assert struct.pack("<d", float(numbers.float_literal(text))) == struct.pack("<d", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_no_column_can_hold_is_refused(value: float) -> None:
    with pytest.raises(MalformedValue):
        numbers.unpack_double(struct.pack("<d", value))


@given(decimals(), st.integers(0, 5))
def test_equal_decimals_of_any_scale_have_one_key(made: tuple[Decimal, int, int], zeros: int) -> None:
    value, _, scale = made
    short = f"{value:.{scale}f}".encode()
    long = f"{value:.{scale + zeros}f}".encode()
    assert numbers.decimal_key(short) == numbers.decimal_key(long) or scale == 0


@pytest.mark.parametrize(
    ("sent", "canonical"), [(b"00042", b"42"), (b"00000", b"0"), (b"001.20", b"1.20"), (b"000.00", b"0.00")]
)
def test_zerofill_is_dropped(sent: bytes, canonical: bytes) -> None:
    convert = numbers.decimal_from_text if b"." in sent else numbers.integer_from_text
    assert convert(sent) == canonical
