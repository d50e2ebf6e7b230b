"""The formats of all supported servers, with and without checksums, are read alike; others are refused."""

import struct
import zlib
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.boundary import read_format
from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, UnsupportedFormat
from airflow_provider_dm.engine.binlog.events import TABLE_MAP
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.binlog.window import MemoryWindow
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import ORDERS, SERVERS, Log, order

EVERY_SERVER = pytest.mark.parametrize("server", SERVERS)
CHECKSUMS = pytest.mark.parametrize("checksum", [True, False], ids=["CRC32", "no checksum"])


def format_event(log: Log) -> bytes:
    return bytes(log.data[4:])


def parsed(event: bytes) -> BinlogFormat:
    return BinlogFormat.parse(event, "f:4")


@EVERY_SERVER
@CHECKSUMS
def test_the_log_of_every_server_is_planned_and_decoded(server: str, checksum: bool, tmp_path: Path) -> None:
    log = Log(server=server, checksum=checksum)
    rows = [order(number) for number in range(3)]
    log.transaction(("insert", rows), ("update", [rows[0], order(7)]), ("delete", [rows[1]]))
    log.ddl("ALTER TABLE t COMMENT ''")
    log.rotate("mysql-bin.000002")
    files, here, found = [log.file(tmp_path)], Location(log.name, 4), []
    while not isinstance(planned := plan_epoch(files, here), UpToDate):
        found.append(planned)
        here = planned.end if isinstance(planned, DdlStatement) else planned.hi
    epoch, ddl = found
    assert isinstance(epoch, Epoch)
    assert isinstance(ddl, DdlStatement)
    changes = list(decode_range(epoch.ranges[0], WantedTables.whole([ORDERS])))
    assert [(one.before and one.before[0], one.after and one.after[0]) for one in changes] == [
        (None, b"0"),
        (None, b"1"),
        (None, b"2"),
        (b"0", b"7"),
        (b"1", None),
    ]
    assert planned.at.position == log.position


@CHECKSUMS
def test_every_flipped_bit_is_found(checksum: bool) -> None:
    event = format_event(Log(checksum=checksum))
    for index in range(len(event) * 8):
        if index == 17 * 8:
            continue  # in use
        flipped = bytearray(event)
        flipped[index // 8] ^= 1 << index % 8
        with pytest.raises((ChecksumMismatch, UnsupportedFormat)):
            parsed(bytes(flipped))


def test_a_format_description_for_a_later_start_may_have_a_stale_checksum() -> None:
    def sent(log: Log) -> bytes:
        event = bytearray(format_event(log))
        event[13:17] = bytes(4)  # its own position, which the server clears
        return bytes(event)

    assert parsed(sent(Log(checksum=False))).checksum is False
    with pytest.raises(ChecksumMismatch):
        parsed(sent(Log()))


def with_crc(event: bytes) -> bytes:
    return event[:-4] + struct.pack("<I", zlib.crc32(event[:-4]))


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (4, b"\x10", "does not begin"),
        (19, b"\3\0", "version 3"),
        (21, b"5.5.62\0", "5.5.62"),
        (21, b"5.2.14-MariaDB\0", "5.2.14"),
        (21, b"who knows\0", "who knows"),
        (75, b"\x0d", "headers of 13 bytes"),
        (76 + TABLE_MAP - 1, b"\x06", "another event format"),
        (-5, b"\x02", "algorithm 2"),
    ],
)
def test_a_foreign_format_is_refused(offset: int, value: bytes, reason: str) -> None:
    event = bytearray(format_event(Log()))
    offset %= len(event)
    event[offset : offset + len(value)] = value
    with pytest.raises(UnsupportedFormat, match=reason):
        parsed(with_crc(bytes(event)))


def test_a_format_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    event = format_event(Log())
    for size in (19, 70, 79, 80):
        cut = struct.pack("<IBIIIH", 0, 15, 1, size, size + 4, 0) + event[19:size]
        with pytest.raises((UnsupportedFormat, ChecksumMismatch)):
            parsed(cut)


def test_an_encrypted_file_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        read_format(MemoryWindow(b"\xfdbin" + bytes(512), 0), "f")  # MySQL's magic for encrypted files
