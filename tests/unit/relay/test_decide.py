"""The decision about an event: one case each."""

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


def test_a_fake_rotate_switches_to_its_file() -> None:
    assert decided(fake_rotate("mysql-bin.000003", 777), cursor=4, size=0) == Rotation(FILE, 777)
    assert decided(fake_rotate("mysql-bin.000004"), cursor=500, size=500) == Rotation(FILE.next(), 4)


def test_a_real_rotate_is_written_to_the_file() -> None:
    data = real(ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000004", 500)
    assert decided(data, cursor=500, size=500) == FileAction.APPEND


@pytest.mark.parametrize("name", ["../mysql-bin.000004", "/etc/mysql-bin.000004", "x", "", "a\0b.000004", ".x.000004"])
def test_a_name_with_a_path_is_refused(name: str) -> None:
    with pytest.raises(PacketsBroken, match="names its next binlog"):
        decided(fake_rotate(name), cursor=4, size=0)


@pytest.mark.parametrize("name", ["mysql-bin.000005", "mysql-bin.000002", "other.000004"])
def test_a_file_that_does_not_follow_is_refused(name: str) -> None:
    with pytest.raises(UpstreamLogDiffers):
        decided(fake_rotate(name), cursor=500, size=500)


def test_the_first_format_description_makes_the_file() -> None:
    assert decided(format_description(), cursor=4, size=0) == FileAction.CREATE
    assert decided(format_description(), cursor=4, size=900) == FileAction.COMPARE


def test_a_format_description_in_the_middle_is_dropped() -> None:
    zeroed = event(15, format_description()[19:-4], 0)
    assert decided(zeroed, cursor=900, size=900) == FileAction.DROP
    assert decided(format_description(), cursor=900, size=900) == FileAction.DROP


def test_heartbeats_and_artificial_events_are_dropped() -> None:
    assert decided(event(HEARTBEAT, b"mysql-bin.000003", 500), cursor=500, size=500) == FileAction.DROP
    assert decided(event(163, bytes(4), 0, flags=0x20), cursor=500, size=500) == FileAction.DROP


def test_bytes_that_the_file_already_has_are_compared() -> None:
    assert decided(filler(10, 500), cursor=500, size=900) == FileAction.COMPARE


def test_the_next_event_is_appended_even_without_a_position() -> None:
    assert decided(filler(10, 500), cursor=500, size=500) == FileAction.APPEND
    assert decided(event(160, b"x", 0), cursor=500, size=500) == FileAction.APPEND  # MariaDB from 11.4 on


def test_positions_beyond_4_gib_are_counted() -> None:
    assert decided(filler(10, 9 * GIB), cursor=9 * GIB, size=9 * GIB) == FileAction.APPEND


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
