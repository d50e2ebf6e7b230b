"""Every byte of a finished file is under a checksum that the planner or the decoder verifies."""

import struct
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.binlog.header import START
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import ORDERS, UUID_OF_SOURCE, Log, order

PREVIOUS = struct.pack("<Q16sQQQ", 1, UUID_OF_SOURCE.bytes, 1, 1, 100)


def everything() -> Log:
    """A file with one of each that the planner uses or passes by itself."""
    log = Log()
    log.add(35, PREVIOUS)
    log.add(29, b"between transactions")
    log.transaction(("insert", [order(1)]))
    log.gtid()
    log.query("ALTER TABLE t ADD c INT")
    log.gtid()
    log.query("BEGIN")
    log.query("CREATE TABLE c (id INT) START TRANSACTION")
    log.change(None, order(2))
    log.xid()
    inner = Log.inner()
    inner.query("BEGIN")
    inner.change(None, order(3))
    inner.xid()
    log.gtid()
    log.payload(inner)
    log.begin()
    log.query("SAVEPOINT `s`")
    log.query("COMMIT")
    log.begin()
    log.table_map()
    log.rows("insert", [order(4)])  # never completed
    return log


def read(data: bytes, folder: Path) -> int:
    """Plan and decode a finished file, the rows beside DDL as well; the number of rows."""
    first, second = Log(), Log(name="mysql-bin.000002")
    first.data = bytearray(data)
    files = [first.file(folder, last=False), second.file(folder)]
    here, count = Location(first.name, 4), 0
    while not isinstance(planned := plan_epoch(files, here, EpochLimits(max_bytes=1, range_bytes=1)), UpToDate):
        here = planned.end if isinstance(planned, DdlStatement) else planned.hi
        epoch = planned.rows_epoch() if isinstance(planned, DdlStatement) else planned
        for one in epoch.ranges if isinstance(epoch, Epoch) else ():
            count += len(list(decode_range(one, WantedTables.whole([ORDERS]))))
    assert planned.at.file == second.name
    return count


def test_the_file_is_right_as_it_is(tmp_path: Path) -> None:
    assert read(bytes(everything().data), tmp_path) == 3


def test_a_file_that_its_source_did_not_close_is_right_too(tmp_path: Path) -> None:
    data = everything().data
    data[4 + 17] |= 1
    assert read(bytes(data), tmp_path) == 3

    empty = Log()
    empty.begin()  # the first transaction is dropped: verified from the format event on
    empty.data[4 + 17] |= 1
    assert read(bytes(empty.data), tmp_path) == 0


def test_every_damaged_event_is_found(tmp_path: Path) -> None:
    data = bytes(everything().data)
    position = len(Log().data)  # every bit of the format is in test_formats
    while position < len(data):
        size = START.unpack_from(data, position)[3]
        for offset in (0, 5, 14, 17, 19, size // 2, size - 5, size - 1):  # all but kind and size, which are below
            damaged = bytearray(data)
            damaged[position + offset] ^= 0x40
            with pytest.raises(ChecksumMismatch):
                read(bytes(damaged), tmp_path)
        position += size


def test_an_event_that_became_another_kind_is_found(tmp_path: Path) -> None:
    data = bytes(everything().data)
    position = 4
    while position < len(data):
        size = START.unpack_from(data, position)[3]
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position + 4] ^= 1 << bit
            with pytest.raises(DmError):
                read(bytes(damaged), tmp_path)
        position += size


def test_a_dropped_transaction_was_checked(tmp_path: Path) -> None:
    """Its last event could be the damaged end of a transaction that was committed."""
    first, second = Log(), Log(name="mysql-bin.000002")
    start, _ = first.transaction()
    xid = first.position - 31
    first.data[xid + 4] = 29
    files: list[LogFile] = [first.file(tmp_path, last=False), second.file(tmp_path)]
    with pytest.raises(ChecksumMismatch) as raised:
        plan_epoch(files, Location(first.name, start), EpochLimits(max_bytes=1, range_bytes=1))
    assert raised.value.at == f"{first.name}:{xid}"
