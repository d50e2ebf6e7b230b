"""The parts of a relay directory that an audit reads: a whole range, or an error that names the missing part."""

import struct
from pathlib import Path

import pytest

from airflow_provider_dm.engine.audit.arrow import OneTable, record_batches
from airflow_provider_dm.engine.audit.pieces import LogPiece, audit_pieces
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.errors import InvalidSubDir, RelayDirectoryUnusable, RelayFileGone
from tests.unit.binlog.building import ORDERS, UUID_OF_SOURCE, Log, order

FIRST, SECOND = "uuid-a.000001", "uuid-b.000002"


def relay(tmp_path: Path, *logs: Log, sub_dir: str = FIRST) -> Path:
    """A relay directory with these files."""
    root = tmp_path / "relay"
    uuid, _, number = sub_dir.rpartition(".")
    made = RelayDirectory(root)
    made.prepare()
    added = made.add(uuid)
    assert str(added) == f"{uuid}.{number}"
    for log in logs:
        log.file(made.folder(added))
    return root


def ids(pieces: list[LogPiece]) -> list[int]:
    """The keys of all rows, in order."""
    found = []
    for piece in pieces:
        for change in decode_range(piece.range, WantedTables.whole([ORDERS])):
            row = change.after or change.before
            assert row is not None
            found.append(int(row[0] or b""))
    return found


def transaction(log: Log, number: int) -> tuple[int, int]:
    return log.transaction(("insert", [order(number)]))


def test_an_audit_reads_all_files_and_continues_after_ddl(tmp_path: Path) -> None:
    one, two = Log(), Log(name="mysql-bin.000002")
    transaction(one, 1)
    one.gtid()
    one.query("ALTER TABLE other ADD c INT")
    transaction(one, 2)
    one.rotate(two.name)
    transaction(two, 3)
    root = relay(tmp_path, one, two)
    assert ids(audit_pieces(root)) == [1, 2, 3]


def test_small_stretches_between_ddl_are_one_piece_and_large_ones_are_cut(tmp_path: Path) -> None:
    log = Log()
    for number in range(6):
        transaction(log, number)
        log.gtid()
        log.query(f"CREATE TABLE t{number} (a INT)")
    root = relay(tmp_path, log)
    assert len(audit_pieces(root)) == 1
    assert len(audit_pieces(root, piece_bytes=1)) == 6
    assert ids(audit_pieces(root)) == ids(audit_pieces(root, piece_bytes=1)) == list(range(6))


def test_an_audit_has_a_start_and_an_end(tmp_path: Path) -> None:
    log = Log()
    places = [transaction(log, number) for number in range(4)]
    root = relay(tmp_path, log)
    start, end = places[1][0], places[2][1]
    assert ids(audit_pieces(root, start=f"{log.name}:{start}", end=f"{log.name}:{end}")) == [1, 2]
    assert ids(audit_pieces(root, start=f"{FIRST}/{log.name}:{start}")) == [1, 2, 3]
    assert ids(audit_pieces(root, end=f"{log.name}:{places[1][0] + 1}")) == [0, 1]  # a transaction is whole
    assert audit_pieces(root, start=f"{log.name}:{len(log.data)}") == []


def test_a_piece_that_begins_inside_a_transaction_knows_its_id(tmp_path: Path) -> None:
    log = Log()
    transaction(log, 0)
    log.begin()
    for number in range(1, 5):
        log.change(None, order(number, b"x" * 100))
    log.xid()
    transaction(log, 5)
    pieces = audit_pieces(relay(tmp_path, log), piece_bytes=300)
    gtids = [
        gtid
        for piece in pieces
        for batch in record_batches(piece.range, WantedTables.whole([ORDERS]), OneTable(ORDERS), gtid=piece.gtid)
        for gtid in batch.column("gtid").to_pylist()
    ]
    assert ids(pieces) == [0, 1, 2, 3, 4, 5]
    assert any(piece.range.inside for piece in pieces)
    assert gtids == [f"{UUID_OF_SOURCE}:{number}" for number in (1, 2, 2, 2, 2, 3)]


def test_sub_directories_are_ordered_and_distinguish_equal_names(tmp_path: Path) -> None:
    one, two = Log(), Log()
    transaction(one, 1)
    two.before("")
    transaction(two, 1)  # it has it from the first server, so it is shown once
    place = transaction(two, 2)
    root = relay(tmp_path, one)
    relay(tmp_path, two, sub_dir=SECOND)
    pieces = audit_pieces(root)
    assert ids(pieces) == [1, 2]
    assert [piece.sub_dir for piece in pieces] == [FIRST, SECOND]
    assert ids(audit_pieces(root, start=f"{SECOND}/{two.name}:{place[0]}")) == [2]
    with pytest.raises(InvalidInput, match=f"{FIRST}, {SECOND}"):
        audit_pieces(root, start=f"{two.name}:4")


def test_a_missing_file_is_an_error_and_no_shorter_answer(tmp_path: Path) -> None:
    one, three = Log(), Log(name="mysql-bin.000003")
    transaction(one, 1)
    root = relay(tmp_path, one)
    with pytest.raises(InvalidInput, match=f"{one.name}:{len(one.data)}"):
        audit_pieces(root, end=f"{one.name}:{len(one.data) + 1}")
    for wrong in (f"{three.name}:4", f"{three.name}"):
        with pytest.raises((InvalidInput, InvalidLocation)):
            audit_pieces(root, start=wrong)
    for wrong in (f"{SECOND}/{one.name}:4", f"../{one.name}:4"):
        with pytest.raises((InvalidLocation, InvalidSubDir)):
            audit_pieces(root, start=wrong)
    three.file(root / FIRST)
    with pytest.raises(RelayFileGone, match=r"mysql-bin\.000002"):
        audit_pieces(root)
    with pytest.raises(RelayDirectoryUnusable, match="contains no binlog"):
        audit_pieces(tmp_path / "nowhere")


def test_an_event_that_cannot_be_read_stops_the_audit(tmp_path: Path) -> None:
    log = Log()
    transaction(log, 1)
    at = log.add(26, struct.pack("<H", 1))  # INCIDENT
    transaction(log, 2)
    with pytest.raises(Exception, match=f"{log.name}:{at}"):
        audit_pieces(relay(tmp_path, log))
