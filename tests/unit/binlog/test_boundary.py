"""Transactions are found whole or not at all."""

import struct
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.boundary import last_boundary, opened_log, scan_log
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, MalformedEvent, UnsupportedFormat
from airflow_provider_dm.engine.binlog.transaction import ScanEnd, ScannedRange
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from tests.unit.binlog.building import FLAVOURS, UUID_OF_SOURCE, Log, order


def scanned(log: Log, folder: Path, start: int, *, size: int | None = None, apply: bool = True) -> ScannedRange:
    file = log.file(folder)
    with opened_log(file.path, file.size if size is None else size, file.name) as found:
        assert found is not None
        return scan_log(found, start, cut=1 << 62, apply=apply)


@FLAVOURS
def test_only_complete_transactions_count_at_any_end_of_the_bytes(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    start = log.position
    ends = [log.transaction(("insert", [order(number)]))[1] for number in range(3)]
    log.file(tmp_path)
    for size in range(start, log.position + 1):
        found = scanned(log, tmp_path, start, size=size)
        whole = [end for end in ends if end <= size]
        assert (found.end, found.transactions) == (whole[-1] if whole else start, len(whole))
        expected = ScanEnd.FILE if size in (start, *ends) else found.ended
        assert found.ended is expected
        assert (found.ended is ScanEnd.FILE) == (size in (start, *ends))


def test_a_rollback_without_rows_is_a_boundary(tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    log.query("ROLLBACK")
    assert scanned(log, tmp_path, start).end == log.position


@pytest.mark.parametrize(("rollback", "after"), [("ROLLBACK", ""), ("ROLLBACK TO `s`", " after")])
def test_a_rollback_after_rows_stops(rollback: str, after: str, tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    log.query("SAVEPOINT `s`")
    log.change(None, order(1))
    log.query(rollback)
    with pytest.raises(ChangeNotInLog, match=rf"the transaction at {log.name}:{start} was rolled back{after}"):
        scanned(log, tmp_path, start)


def test_a_rollback_to_a_savepoint_outside_does_not_undo_the_transaction_before(tmp_path: Path) -> None:
    log = Log()
    start, _ = log.transaction()
    log.query("ROLLBACK TO `s`")
    _, end = log.transaction()
    found = scanned(log, tmp_path, start)
    assert (found.end, found.transactions) == (end, 2)


@pytest.mark.parametrize(
    ("statement", "head"),
    [
        ("INSERT INTO t VALUES ('s3cret')", "INSERT INTO t …"),
        ("/* x */ update `a`.`t` set a = 's3cret'", "update `a`.`t` …"),
        ("LOAD DATA INFILE 's3cret'", "LOAD DATA INFILE …"),
        ("INSERT INTO t(a)VALUES('s3cret')", "INSERT INTO t …"),
        ("DO 's3cret'", "DO …"),
    ],
)
def test_a_row_change_as_text_stops_and_only_its_head_is_quoted(statement: str, head: str, tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    position = log.query(statement)
    log.xid()
    with pytest.raises(ChangeNotInLog) as raised:
        scanned(log, tmp_path, start)
    assert (
        raised.value.happened() == f"the change at {log.name}:{position} is logged as a statement, not as rows: {head}."
    )
    assert "s3cret" not in str(raised.value)


START_ALTER, COMMIT_ALTER, ROLLBACK_ALTER = 2, 4, 8


def alter_in_phases(log: Log, phase: int, *, grouped: bool = False) -> int:
    """One part of an ALTER that MariaDB logs in two; `grouped`: of a group commit, whose number is in the way."""
    log.sequence += 1
    head = struct.pack("<QIB", log.sequence, 0, 1 | 32 | 2 * grouped) + (b"\xff" * 8 if grouped else b"")
    start = log.add(162, head + bytes([phase]) + bytes(8))
    log.query(
        "ALTER TABLE t ADD c INT", variables=b"\x82" + bytes([phase]) + (b"" if phase == START_ALTER else bytes(8))
    )
    return start


@pytest.mark.parametrize("grouped", [False, True])
def test_an_alter_in_two_phases_counts_where_it_is_committed(grouped: bool, tmp_path: Path) -> None:
    log = Log("mariadb")
    start = alter_in_phases(log, START_ALTER, grouped=grouped)
    log.transaction()
    committed = alter_in_phases(log, COMMIT_ALTER, grouped=grouped)
    end = log.position
    log.transaction()
    before = scanned(log, tmp_path, start)
    assert (before.end, before.transactions, before.ended) == (committed, 2, ScanEnd.DDL)
    assert before.trail.added_to("", Flavour.MARIADB) == "0-7-2"
    found = scanned(log, tmp_path, committed)
    assert found.ddl is not None
    assert (found.ddl.start, found.ddl.end, found.ddl.query.sql) == (committed, end, b"ALTER TABLE t ADD c INT")
    assert found.ddl_trail.added_to("", Flavour.MARIADB) == "0-7-3"


def test_an_alter_that_was_rolled_back_or_never_ended_is_ignored(tmp_path: Path) -> None:
    log = Log("mariadb")
    start = alter_in_phases(log, START_ALTER)
    alter_in_phases(log, START_ALTER)
    log.transaction()
    alter_in_phases(log, ROLLBACK_ALTER)
    end = log.position
    log.ddl("ALTER TABLE t ADD d INT")
    found = scanned(log, tmp_path, start)
    assert (found.end, found.transactions, found.ended) == (end, 4, ScanEnd.DDL)
    assert found.trail.added_to("", Flavour.MARIADB) == "0-7-4"
    assert scanned(log, tmp_path, end).ddl is not None


@FLAVOURS
def test_create_table_select_is_one_ddl_transaction_with_rows(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    start = log.begin()
    log.query("CREATE TABLE c (id INT) START TRANSACTION")
    log.change(None, order(1))
    log.xid()
    found = scanned(log, tmp_path, start)
    assert found.ddl is not None
    assert (found.ddl.start, found.ddl.end, found.ddl.rows) == (start, log.position, True)


def test_a_dummy_event_of_the_source_is_a_transaction_without_changes(tmp_path: Path) -> None:
    log = Log("mariadb")
    start = log.ddl("# Dummy event replacing event type 160 that slave cannot handle.")
    assert scanned(log, tmp_path, start).end == log.position


def test_rows_without_a_transaction_and_nested_transactions_are_malformed(tmp_path: Path) -> None:
    orphan = Log()
    position = orphan.table_map()
    with pytest.raises(MalformedEvent, match="outside"):
        scanned(orphan, tmp_path, position)

    nested = Log()
    start = nested.begin()
    nested.begin()
    with pytest.raises(MalformedEvent, match="inside another"):
        scanned(nested, tmp_path, start)


@pytest.mark.parametrize("size", [0, 18, 22])
def test_an_event_smaller_than_its_header_is_malformed(size: int, tmp_path: Path) -> None:
    log = Log()
    start = log.position
    log.data += struct.pack("<IBIIIH", 0, 16, 1, size, 0, 0) + bytes(20)
    with pytest.raises(MalformedEvent):
        scanned(log, tmp_path, start)


def test_a_file_shorter_than_published_is_torn(tmp_path: Path) -> None:
    log = Log()
    start, _ = log.transaction()
    assert scanned(log, tmp_path, start, size=log.position + 1000).ended is ScanEnd.FILE
    log.query("x" * 500)
    del log.data[-100:]
    assert scanned(log, tmp_path, start, size=log.position + 1000).ended is ScanEnd.TORN


@FLAVOURS
def test_the_relay_finds_the_last_boundary_after_any_events(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    log.transaction()
    log.ddl("ALTER TABLE t ADD c INT")
    log.gtid(standalone=True)
    if flavour == "mysql":
        log.add(40, b"a compressed transaction")
    else:
        log.query("CREATE TABLE t (a INT)", compressed=True)
    boundary = log.position
    log.begin()
    file = log.file(tmp_path)
    tail = last_boundary(file.path, file.size)
    assert tail is not None
    assert tail.position == boundary
    assert tail.gtid_set == (f"{UUID_OF_SOURCE}:1-3" if flavour == "mysql" else "0-7-3")


def test_a_file_without_a_format_event_has_no_boundary(tmp_path: Path) -> None:
    file = Log().file(tmp_path)
    assert last_boundary(file.path, 3) is None
    assert last_boundary(file.path, file.size - 1) is None
    (tmp_path / "foreign").write_bytes(b"PK\3\4" + bytes(200))
    with pytest.raises(UnsupportedFormat):
        last_boundary(str(tmp_path / "foreign"), 204)
