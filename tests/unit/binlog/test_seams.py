"""A transaction larger than a range is cut between its statements, and every part can be read for itself."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import ORDERS, Log, order

OTHER = TableName("shop", "others")


def statement(log: Log, *numbers: int, last: bool = True) -> tuple[int, int]:
    """An INSERT of several rows events; (start, end)."""
    start = log.table_map()
    for index, number in enumerate(numbers):
        log.rows("insert", [order(number)], last=last and index == len(numbers) - 1)
    return start, log.position


def planned(log: Log, folder: Path, start: int, range_bytes: int) -> Epoch:
    found = plan_epoch([log.file(folder)], Location(log.name, start), EpochLimits(range_bytes=range_bytes))
    assert isinstance(found, Epoch)
    return found


def edges(ranges: Sequence[ByteRange]) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in ranges]


def numbers_in(ranges: Sequence[ByteRange], skip_until: str = "") -> list[bytes | None]:
    """The keys of inserted rows, in order; every range decoded apart from the others."""
    wanted = WantedTables([WantedTable(ORDERS, skip_until)])
    changes = [change for one in ranges for change in decode_range(one, wanted)]
    return [change.after[0] for change in changes if change.after]


@pytest.mark.parametrize("server", ["mysql-5.7", "mysql-9.7", "mariadb-10.1", "mariadb-11.8"])
def test_a_transaction_is_cut_after_statements_and_before_table_maps(server: str, tmp_path: Path) -> None:
    log = Log(server=server)
    start = log.begin()
    spans = [statement(log, *range(5 * n, 5 * n + 5)) for n in range(6)]
    log.xid()
    one = spans[0][1] - spans[0][0]

    every = planned(log, tmp_path, start, one)
    assert edges(every.ranges) == [(start, spans[0][1]), *spans[1:5], (spans[5][0], log.position)]
    assert [(part.inside, part.closes) for part in every.ranges] == [
        (False, log.position),
        *[(True, log.position)] * 4,
        (True, 0),
    ]
    assert (every.transactions, every.bytes, every.hi.position) == (1, log.position - start, log.position)

    second = planned(log, tmp_path, start, 2 * one)
    assert [len(edges(second.ranges)), numbers_in(second.ranges)] == [3, [b"%d" % n for n in range(30)]]


@pytest.mark.parametrize("table_maps", [True, False])
def test_a_statement_is_not_cut(table_maps: bool, tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    statement(log, *range(50))
    if not table_maps:
        log.rows("insert", [order(2)])  # no server writes this
    log.xid()
    assert edges(planned(log, tmp_path, start, 1).ranges) == [(start, log.position)]


def test_no_range_is_only_the_end_of_a_transaction(tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    statement(log, 1)
    _, seam = statement(log, 2)
    log.query("SAVEPOINT `s`")
    log.add(29, b"\0the text of a statement")
    statement(log, 3)
    log.query("SAVEPOINT `t`")
    log.xid()
    parts = planned(log, tmp_path, start, seam - start).ranges
    assert edges(parts) == [(start, seam), (seam, log.position)]
    assert numbers_in(parts) == [b"1", b"2", b"3"]


def test_rows_that_do_not_end_their_statement_keep_it_together(tmp_path: Path) -> None:
    log = Log()
    start = log.begin()
    log.table_map()
    log.table_map(OTHER, number=10)
    log.rows("insert", [order(1)], last=False)
    log.rows("insert", [order(2)], number=10, last=True)
    seam = log.position
    log.table_map()
    log.table_map(OTHER, number=10)
    log.rows("insert", [order(3)], number=10, last=False)
    log.rows("insert", [order(4)], last=True)
    log.xid()
    parts = planned(log, tmp_path, start, 1).ranges
    assert edges(parts) == [(start, seam), (seam, log.position)]
    assert numbers_in(parts) == [b"1", b"4"]


@given(
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=1, max_size=5),
    range_bytes=st.integers(1, 3000),
    max_bytes=st.integers(1, 5000),
)
def test_the_rows_do_not_depend_on_the_cuts(
    sizes: list[list[int]], range_bytes: int, max_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log, number = Log(), 0
    for statements in sizes:
        log.begin()
        for rows in statements:
            statement(log, *range(number, number + rows))
            number += rows
        log.xid()
    files, here, seen = [log.file(tmp_path_factory.mktemp("log"))], Location(log.name, 4), []
    while not isinstance(
        found := plan_epoch(files, here, EpochLimits(max_bytes=max_bytes, range_bytes=range_bytes)), UpToDate
    ):
        assert isinstance(found, Epoch)
        assert not found.ranges[0].inside
        assert found.ranges[-1].closes == 0
        seen += numbers_in(found.ranges)
        here = found.hi
    assert seen == [b"%d" % n for n in range(number)]


# What must not be seen


def test_a_transaction_that_is_not_complete_gives_no_range(tmp_path: Path) -> None:
    log = Log()
    start, end = log.transaction(("insert", [order(0)]))
    log.begin()
    for number in range(1, 9):
        statement(log, number)
    assert edges(planned(log, tmp_path, start, 1).ranges) == [(start, end)]
    log.xid()
    assert len(planned(log, tmp_path, start, 1).ranges) == 9


def test_a_large_transaction_that_was_rolled_back_has_no_range(tmp_path: Path) -> None:
    log = Log()
    start, end = log.transaction(("insert", [order(0)]))
    rolled_back = log.begin()
    for number in range(1, 9):
        statement(log, number)
    log.query("ROLLBACK")
    assert edges(planned(log, tmp_path, start, 1).ranges) == [(start, end)]
    with pytest.raises(ChangeNotInLog, match=f"the transaction at {log.name}:{rolled_back} was rolled back"):
        planned(log, tmp_path, end, 1)


def test_rows_beside_ddl_are_cut_as_well(tmp_path: Path) -> None:
    log = Log("mariadb")
    start = log.begin()
    spans = [statement(log, number) for number in range(4)]
    log.query("DROP TEMPORARY TABLE n")
    log.xid()
    found = plan_epoch([log.file(tmp_path)], Location(log.name, start), EpochLimits(range_bytes=1))
    assert isinstance(found, DdlStatement)
    rows = found.rows_epoch()
    assert rows is not None
    assert edges(rows.ranges) == [(start, spans[0][1]), *spans[1:3], (spans[3][0], log.position)]
    assert numbers_in(rows.ranges) == [b"0", b"1", b"2", b"3"]


# Leaving out what is before a location


@pytest.fixture
def around(tmp_path: Path) -> tuple[list[ByteRange], dict[str, int], Callable[[int], str]]:
    """Three transactions, of which the second is cut; the ends of each; how a location is written."""
    log = Log()
    ends = {"start": log.position}
    log.transaction(("insert", [order(1)]))
    ends["first"] = log.position
    log.begin()
    for number in (2, 3, 4):
        statement(log, number)
    ends["inside"] = log.position
    log.xid()
    ends["second"] = log.position
    log.transaction(("insert", [order(5)]))
    ends["third"] = log.position
    epoch = planned(log, tmp_path, ends["start"], 1)
    assert len(epoch.ranges) == 5
    return list(epoch.ranges), ends, lambda position: Location(log.name, position).sort_key


@pytest.mark.parametrize(("skipped", "seen"), [("start", 5), ("first", 4), ("inside", 4), ("second", 1), ("third", 0)])
def test_a_cut_transaction_is_left_out_as_a_whole_or_not_at_all(
    around: tuple[list[ByteRange], dict[str, int], Callable[[int], str]], skipped: str, seen: int
) -> None:
    ranges, ends, key = around
    assert len(numbers_in(ranges, key(ends[skipped]))) == seen
    assert len(numbers_in(ranges, key(ends[skipped] + 1))) == seen
    before = key(ends[skipped] - 1)
    expected = {"start": 5, "first": 5, "inside": 4, "second": 4, "third": 1}[skipped]
    assert len(numbers_in(ranges, before)) == expected


def test_files_over_4_gib_are_planned_and_decoded(tmp_path: Path) -> None:
    log = Log()
    head, far = len(log.data), (4 << 30) - 150
    start = log.begin()
    for number in range(20):
        statement(log, number)
    log.xid()
    log.transaction(("insert", [order(20)]))
    path = tmp_path / log.name
    with path.open("wb") as file:  # sparse: nothing lies between
        file.write(log.data[:head])
        file.seek(far)
        file.write(log.data[head:])
    size = far + len(log.data) - head
    files = [LogFile(str(path), 1, log.name, size, last=True)]
    found = plan_epoch(files, Location(log.name, far + start - head), EpochLimits(range_bytes=200))
    assert isinstance(found, Epoch)
    assert (found.hi.position, found.transactions) == (size, 2)
    assert found.ranges[0].start < 1 << 32 < found.ranges[-1].start
    assert numbers_in(found.ranges) == [b"%d" % n for n in range(21)]
    assert numbers_in(found.ranges, Location(log.name, size - 1).sort_key) == [b"20"]
