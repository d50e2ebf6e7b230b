"""Every status variable that a server writes is read to its end, and none that is not known is."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.session_variables import Session, read_session

PASSED = Session()
"""Its contents are not needed."""
EXAMPLES: dict[int, tuple[bytes, Session]] = {
    0: (b"\0\0\0\x0c", Session(flags=0x0C000000)),
    1: (b"\x20\0\xa0\x45\0\0\0\0", Session(sql_mode=0x45A00020)),
    2: (b"\x03std\0", PASSED),
    3: (b"\3\0\2\0", Session(auto_increment=(3, 2))),
    4: (b"\x1c\0\x00\x09\x2f\0", Session(charsets=(28, 2304, 47))),
    5: (b"\x06+02:00", Session(time_zone=b"+02:00")),
    6: (b"\x03std", PASSED),
    7: (b"\4\0", PASSED),
    8: (b"\x2f\0", PASSED),
    9: (b"\x01\0\0\0\0\0\0\0", PASSED),
    10: (b"\x10\0\0\0", PASSED),
    11: (b"\x04root\x09127.0.0.1", PASSED),
    12: (b"\x02shop\0e\0", PASSED),
    13: (b"\x40\xe2\x01", Session(microseconds=123456)),
    16: (b"\x01", Session(explicit_timestamp_defaults=True)),
    17: (b"\x5b\0\0\0\0\0\0\0", PASSED),
    18: (b"\xff\0", Session(utf8mb4_collation=255)),
    19: (b"\0", PASSED),
    20: (b"\x01", PASSED),
    128: (b"\x40\xe2\x01", Session(microseconds=123456)),
    129: (b"\x4a\0\0\0\0\0\0\0", PASSED),
    130: (b"\x04\x19\0\0\0\0\0\0\0", PASSED),
    131: (b"\x02\x08\0\x2f\0\x2d\0\x2e\0", Session(default_collations=((8, 47), (45, 46)))),
}
IDS = [f"variable {code}" for code in EXAMPLES]


@pytest.mark.parametrize("code", EXAMPLES, ids=IDS)
def test_a_session_variable_is_read_completely(code: int) -> None:
    value, expected = EXAMPLES[code]
    assert read_session(bytes([code]) + value, "f:4") == expected
    followed = bytes([code]) + value + b"\x03\x05\x00\x06\x00"
    assert read_session(followed, "f:4") == replace(expected, auto_increment=(5, 6))


@pytest.mark.parametrize("code", EXAMPLES, ids=IDS)
def test_a_truncated_variable_is_malformed(code: int) -> None:
    value, _ = EXAMPLES[code]
    for size in range(len(value)):
        with pytest.raises(MalformedEvent, match=f"variable {code} "):
            read_session(bytes([code]) + value[:size], "f:4")


def test_an_unknown_variable_ends_the_reading_and_is_named() -> None:
    for code in {*range(256)} - EXAMPLES.keys():
        session = read_session(b"\x03\x05\x00\x06\x00" + bytes([code]) + b"\x04\x1c\x00\x1c\x00\x1c\x00", "f:4")
        assert session == Session(auto_increment=(5, 6), unknown=code)


@pytest.mark.parametrize(
    "value",
    [
        b"\x0c\x00",
        b"\x0c\xfe",  # more than 16: the log has only this number
        b"\x0c\x11",
        b"\x82\x02",  # the first phase names no other
        b"\x82\x08\x07\0\0\0\0\0\0\0",
        b"\x83\x00",
    ],
)
def test_lengths_that_depend_on_the_value(value: bytes) -> None:
    session = read_session(value + b"\x03\x05\x00\x06\x00", "f:4")
    assert session.auto_increment == (5, 6)
