"""Dates and times come out as the server prints them, whole range, zero parts and signs included."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.schema import temporal
from airflow_provider_dm.engine.schema.errors import MalformedValue

FSP = st.integers(0, 6)


def text_of(moment: datetime, fsp: int) -> bytes:
    return (moment.strftime("%Y").zfill(4) + moment.strftime("-%m-%d %H:%M:%S.%f"))[: 20 + fsp if fsp else 19].encode()


def fraction(microseconds: int, fsp: int) -> bytes:
    """Return it as stored: 1/100, 1/10000 or 1/1000000 of what `fsp` digits keep."""
    size = temporal.fraction_size(fsp)
    kept = microseconds // 10 ** (6 - fsp) * 10 ** (6 - fsp)
    return (kept // 10 ** (6 - 2 * size)).to_bytes(size, "big") if size else b""


@given(st.datetimes(), FSP)
def test_datetimes(moment: datetime, fsp: int) -> None:
    days = (moment.year * 13 + moment.month) << 5 | moment.day
    clock = moment.hour << 12 | moment.minute << 6 | moment.second
    packed = (0x8000000000 + (days << 17 | clock)).to_bytes(5, "big") + fraction(moment.microsecond, fsp)
    assert temporal.datetime2_unpacker(fsp)(packed) == text_of(moment, fsp)


@given(st.integers(1, 2**32 - 1), st.integers(0, 999_999), FSP)
def test_timestamps(seconds: int, microseconds: int, fsp: int) -> None:
    packed = seconds.to_bytes(4, "big") + fraction(microseconds, fsp)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=microseconds)
    assert temporal.timestamp2_unpacker(fsp)(packed) == text_of(moment, fsp)


@given(st.integers(-(838 * 3600 + 59 * 60 + 59), 838 * 3600 + 59 * 60 + 59), st.integers(0, 999_999), FSP)
def test_times(seconds: int, microseconds: int, fsp: int) -> None:
    size = temporal.fraction_size(fsp)
    hour, rest = divmod(abs(seconds), 3600)
    kept = fraction(microseconds, fsp)
    bits = (hour << 12 | rest // 60 << 6 | rest % 60) << 8 * size | int.from_bytes(kept, "big")
    negative = seconds < 0
    packed = ((0x800000 << 8 * size) + (-bits if negative else bits)).to_bytes(3 + size, "big")
    digits = f".{microseconds:06d}"[: fsp + 1] if fsp else ""
    sign = "-" if negative and bits else ""
    assert temporal.time2_unpacker(fsp)(packed) == f"{sign}{hour:02d}:{rest // 60:02d}:{rest % 60:02d}{digits}".encode()


def test_zero_and_partial_dates() -> None:
    assert temporal.datetime2_unpacker(0)(b"\x80\0\0\0\0") == b"0000-00-00 00:00:00"
    assert temporal.timestamp2_unpacker(3)(bytes(6)) == b"0000-00-00 00:00:00.000"
    assert temporal.unpack_old_date(((2020 << 9) | 10).to_bytes(3, "little")) == b"2020-00-10"
    assert temporal.timestamp2_unpacker(1)(b"\0\0\0\0\x32") == b"1970-01-01 00:00:00.5"


def test_a_time_just_below_zero() -> None:
    assert temporal.time2_unpacker(6)(b"\x7f\xff\xff\xff\xff\xff") == b"-00:00:00.000001"
    assert temporal.time2_unpacker(2)(b"\x7f\xff\xff\xff"[:4]) == b"-00:00:00.01"


def test_the_old_forms() -> None:
    assert temporal.unpack_old_time((-8385959).to_bytes(3, "little", signed=True)) == b"-838:59:59"
    assert temporal.unpack_old_datetime((20200010235958).to_bytes(8, "little")) == b"2020-00-10 23:59:58"
    assert temporal.unpack_old_timestamp((0).to_bytes(4, "little")) == b"0000-00-00 00:00:00"


@pytest.mark.parametrize(
    ("unpack", "data"),
    [
        (temporal.datetime2_unpacker(0), b"\x7f\xff\xff\xff\xff"),
        (temporal.datetime2_unpacker(0), b"\xff\xff\xff\xff\xff"),
        (temporal.datetime2_unpacker(2), b"\x80\0\0\0\0\x64"),
        (temporal.time2_unpacker(0), b"\xff\xff\xff"),
        (temporal.unpack_old_date, b"\xff\xff\xff"),
        (temporal.unpack_old_datetime, b"\xff" * 8),
    ],
)
def test_bits_that_no_server_writes_are_refused(unpack: object, data: bytes) -> None:
    with pytest.raises(MalformedValue):
        unpack(data)  # type: ignore[operator]


def test_a_precision_that_no_server_has_is_refused() -> None:
    with pytest.raises(MalformedValue):
        temporal.fraction_size(7)


def test_equal_times_of_any_precision_have_one_key() -> None:
    assert temporal.time_key(b"10:00:00") == temporal.time_key(b"10:00:00.000000") == b"10:00:00"
