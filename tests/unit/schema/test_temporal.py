"""Dates and times come out as the server prints them, whole range, zero parts and signs included."""

import pytest

from airflow_provider_dm.engine.schema import temporal
from airflow_provider_dm.engine.schema.errors import MalformedValue


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


def test_the_first_half_second_of_1970_is_not_the_zero_date() -> None:
    unpack = temporal.timestamp2_unpacker(1)
    assert [unpack(bytes(4) + fraction) for fraction in (b"\x32", b"\x00")] == [
        b"1970-01-01 00:00:00.5",
        b"0000-00-00 00:00:00.0",
    ]
