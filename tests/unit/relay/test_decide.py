"""The decision about an event."""

import struct

import pytest

from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.decide import Decision, FileAction, Rotation, StreamPosition, decide, header_of
from airflow_provider_dm.engine.relay.errors import PacketsBroken, UpstreamLogDiffers
from tests.unit.relay.events import HEARTBEAT, ROTATE, commit, event, fake_rotate, filler, format_description, real

FILE = BinlogFile("mysql-bin", 3)
GIB = 1 << 30


def decided(data: bytes, *, cursor: int, size: int) -> Decision:
    return decide(header_of(memoryview(data)), data[19:-4], StreamPosition(FILE, cursor, size))


CASES: dict[str, tuple[bytes, int, int, Decision]] = {
    "a fake ROTATE names its file": (fake_rotate("mysql-bin.000003", 777), 4, 0, Rotation(FILE, 777)),
    "or switches to the next one": (fake_rotate("mysql-bin.000004"), 500, 500, Rotation(FILE.next(), 4)),
    "a real ROTATE is written": (
        real(ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000004", 500),
        *(500, 500, FileAction.APPEND),
    ),
    "the first format description makes the file": (format_description(), 4, 0, FileAction.CREATE),
    "or is compared with the file's": (format_description(), 4, 900, FileAction.COMPARE),
    "one in the middle is dropped": (format_description(), 900, 900, FileAction.DROP),
    "also without a position": (event(15, format_description()[19:-4], 0), 900, 900, FileAction.DROP),
    "a heartbeat is dropped": (event(HEARTBEAT, b"mysql-bin.000003", 500), 500, 500, FileAction.DROP),
    "an artificial event is dropped": (event(163, bytes(4), 0, flags=0x20), 500, 500, FileAction.DROP),
    "bytes that the file has are compared": (filler(10, 500), 500, 900, FileAction.COMPARE),
    "the next event is appended": (filler(10, 500), 500, 500, FileAction.APPEND),
    "also without a position (MariaDB from 11.4 on)": (event(160, b"x", 0), 500, 500, FileAction.APPEND),
    "positions beyond 4 GiB are counted": (filler(10, 9 * GIB), 9 * GIB, 9 * GIB, FileAction.APPEND),
}
"""(event, cursor, size of the file, what is decided)"""


@pytest.mark.parametrize(("data", "cursor", "size", "expected"), CASES.values(), ids=CASES)
def test_an_event_is_written_compared_or_dropped(data: bytes, cursor: int, size: int, expected: Decision) -> None:
    assert decided(data, cursor=cursor, size=size) == expected


@pytest.mark.parametrize("name", ["../mysql-bin.000004", "/etc/mysql-bin.000004", "x", "", "a\0b.000004", ".x.000004"])
def test_a_name_with_a_path_is_refused(name: str) -> None:
    with pytest.raises(PacketsBroken, match="names its next binlog"):
        decided(fake_rotate(name), cursor=4, size=0)


@pytest.mark.parametrize("name", ["mysql-bin.000005", "mysql-bin.000002", "other.000004"])
def test_a_file_that_does_not_follow_is_refused(name: str) -> None:
    with pytest.raises(UpstreamLogDiffers):
        decided(fake_rotate(name), cursor=500, size=500)


def test_a_gap_is_an_error() -> None:
    with pytest.raises(PacketsBroken, match="has omitted events"):
        decided(filler(10, 600), cursor=500, size=500)
    with pytest.raises(PacketsBroken, match="has omitted events"):
        decided(commit(4), cursor=4, size=0)


def test_bytes_that_are_no_event_are_refused() -> None:
    with pytest.raises(PacketsBroken):
        header_of(memoryview(b"short"))
    with pytest.raises(PacketsBroken):
        header_of(memoryview(filler(10, 4) + b"more"))
