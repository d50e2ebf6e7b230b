"""An epoch is made of whole transactions, ends where it must, and never costs more than it covers."""

import logging
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import BrokenFileChain, ChangeNotInLog, LocationNotInLog, MalformedEvent
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import UUID_OF_SOURCE, Log, order

HUGE = 1 << 40


def plan(
    files: list[LogFile],
    lo: Location,
    *,
    goal: Location | None = None,
    max_bytes: int = HUGE,
    range_bytes: int = HUGE,
    until_time: int | None = None,
) -> Planned:
    return plan_epoch(
        files, lo, EpochLimits(goal=goal, max_bytes=max_bytes, range_bytes=range_bytes, until_time=until_time)
    )


def epoch(planned: Planned) -> Epoch:
    assert isinstance(planned, Epoch)
    return planned


def test_ranges_start_at_transactions_and_cover_the_epoch(tmp_path: Path) -> None:
    log = Log()
    spans = [log.transaction(("insert", [order(number)])) for number in range(10)]
    size = spans[0][1] - spans[0][0]
    planned = epoch(plan([log.file(tmp_path)], Location(log.name, spans[0][0]), range_bytes=2 * size + 1))
    assert [(one.start, one.end) for one in planned.ranges] == [
        (spans[i][0], spans[min(i + 2, 9)][1]) for i in range(0, 10, 3)
    ]
    assert (planned.transactions, planned.bytes) == (10, spans[-1][1] - spans[0][0])


def test_an_epoch_ends_with_the_transaction_that_crosses_its_size(tmp_path: Path) -> None:
    log = Log()
    spans = [log.transaction() for _ in range(5)]
    size = spans[0][1] - spans[0][0]
    files, here, seen = [log.file(tmp_path)], Location(log.name, spans[0][0]), []
    while isinstance(planned := plan(files, here, max_bytes=size + 1), Epoch):
        seen.append(planned.transactions)
        here = planned.hi
    assert seen == [2, 2, 1]
    assert here.position == log.position


def test_the_goal_is_reached_at_the_first_boundary_at_or_after_it(tmp_path: Path) -> None:
    log = Log()
    spans = [log.transaction() for _ in range(5)]
    files, lo = [log.file(tmp_path)], Location(log.name, 4)
    at = epoch(plan(files, lo, goal=Location(log.name, spans[2][1])))
    inside = epoch(plan(files, lo, goal=Location(log.name, spans[2][1] - 1)))
    assert at.hi.position == inside.hi.position == spans[2][1]
    assert plan(files, at.hi, goal=Location(log.name, spans[2][1])) == UpToDate(at.hi)


@pytest.mark.parametrize("range_bytes", [HUGE, 1])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 40, 1), (40, 1, 1, 1, 1, 1)])
def test_an_epoch_ends_with_the_first_transaction_of_a_time(
    tmp_path: Path, sizes: tuple[int, ...], range_bytes: int
) -> None:
    log = Log()
    times = (1000, 1010, 900, 1059, 1060, 1005)
    spans = [
        log.transaction(("insert", [order(1)] * size), timestamp=time) for size, time in zip(sizes, times, strict=True)
    ]
    files, lo = [log.file(tmp_path)], Location(log.name, spans[0][0])

    ends = {time: epoch(plan(files, lo, range_bytes=range_bytes, until_time=time)).transactions for time in (0, *times)}

    assert ends == {0: 1, 1000: 1, 1010: 2, 900: 1, 1059: 4, 1060: 5, 1005: 2}
    assert epoch(plan(files, lo, until_time=1061)).transactions == 6


def test_ddl_closes_the_epoch_and_is_the_next_plan(tmp_path: Path) -> None:
    log = Log("mariadb")
    start, end = log.transaction()
    log.ddl("ALTER TABLE t COMMENT 'é'")
    ddl_end = log.position
    log.transaction()
    files = [log.file(tmp_path)]

    first = epoch(plan(files, Location(log.name, start, "0-7-0")))
    assert first.hi == Location(log.name, end, "0-7-1")

    ddl = plan(files, first.hi)
    assert isinstance(ddl, DdlStatement)
    assert (ddl.at, ddl.end) == (first.hi, Location(log.name, ddl_end, "0-7-2"))
    assert (ddl.schema, ddl.sql, ddl.undecoded, ddl.rows) == ("shop", "ALTER TABLE t COMMENT 'é'", None, None)

    assert epoch(plan(files, ddl.end)).hi == Location(log.name, log.position, "0-7-3")


def test_a_temporary_table_does_not_hide_the_rows_and_statements_beside_it(tmp_path: Path) -> None:
    log = Log("mariadb")
    start = log.gtid()
    log.change(None, order(1))
    log.query("DROP TEMPORARY TABLE IF EXISTS `shop`.`m`")
    log.query("SET STATEMENT max_statement_time=9 FOR INSERT INTO t VALUES ('TEMPORARY')")
    log.query("DROP TEMPORARY TABLE n")
    log.xid()

    ddl = plan([log.file(tmp_path)], Location(log.name, start))

    assert isinstance(ddl, DdlStatement)
    assert ddl.sql.startswith("SET STATEMENT"), "the one that decides"
    rows = ddl.rows_epoch()
    assert rows is not None
    assert [(one.start, one.end) for one in rows.ranges] == [(start, log.position)]


def test_a_statement_in_an_unreadable_charset_keeps_its_bytes(tmp_path: Path) -> None:
    to_come = b"\x04" + (9999).to_bytes(2, "little") * 3
    log = Log()
    start = log.gtid()
    log.query("ALTER TABLE t COMMENT '中'".encode("gbk"), variables=to_come)
    ddl = plan([log.file(tmp_path)], Location(log.name, start))
    assert isinstance(ddl, DdlStatement)
    assert ddl.undecoded == "ALTER TABLE t COMMENT '中'".encode("gbk")


def test_a_plan_spans_files_and_ends_at_the_beginning_of_the_next_file(tmp_path: Path) -> None:
    first, second, third = (Log(name=f"mysql-bin.{number:06d}") for number in (1, 2, 3))
    first.transaction()
    first.rotate(second.name)
    second.sequence = 1
    second.transaction()
    second.rotate(third.name)
    files = [first.file(tmp_path, last=False), second.file(tmp_path, last=False), third.file(tmp_path)]
    planned = epoch(plan(files, Location(first.name, 4)))
    assert [one.file for one in planned.ranges] == [first.name, second.name]
    assert planned.hi == Location(third.name, third.position, f"{UUID_OF_SOURCE}:1-2")

    only = epoch(plan(files[:2], Location(first.name, 4), max_bytes=1))
    assert only.hi.file == first.name

    rest = plan([first.file(tmp_path, last=False), second.file(tmp_path)], Location(first.name, first.position))
    assert epoch(rest).lo.file == first.name


def test_passing_a_file_without_transactions_moves_the_location(tmp_path: Path) -> None:
    first, second = Log(), Log(name="mysql-bin.000002")
    first.rotate(second.name)
    planned = plan([first.file(tmp_path, last=False), second.file(tmp_path)], Location(first.name, 4))
    assert planned == UpToDate(Location(second.name, second.position))


def test_a_transaction_that_its_source_never_finished_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Log(), Log(name="mysql-bin.000002")
    first.transaction()
    first.begin()
    first.table_map()
    second.transaction()
    with caplog.at_level(logging.WARNING):
        planned = epoch(plan([first.file(tmp_path, last=False), second.file(tmp_path)], Location(first.name, 4)))
    assert planned.transactions == 2
    assert "dropped" in caplog.text


def test_an_incomplete_event_in_a_finished_file_is_malformed(tmp_path: Path) -> None:
    first, second = Log(), Log(name="mysql-bin.000002")
    _, end = first.transaction()
    first.transaction()
    del first.data[-3:]
    files = [first.file(tmp_path, last=False), second.file(tmp_path)]
    assert epoch(plan(files, Location(first.name, 4))).hi.position == end
    with pytest.raises(MalformedEvent):
        plan(files, Location(first.name, end))


def test_a_torn_tail_of_the_growing_file_is_awaited(tmp_path: Path) -> None:
    log = Log()
    start, _ = log.transaction()
    file = log.file(tmp_path)
    torn = LogFile(file.path, 1, file.name, file.size - 1, last=True)
    assert plan([torn], Location(log.name, start)) == UpToDate(Location(log.name, start))
    assert epoch(plan([file], Location(log.name, start))).transactions == 1


def test_an_error_is_raised_after_everything_before_it_is_planned(tmp_path: Path) -> None:
    first, second = Log(), Log(name="mysql-bin.000002")
    first.transaction()
    first.rotate(second.name)
    second.begin()
    second.query("DELETE FROM t")
    files = [first.file(tmp_path, last=False), second.file(tmp_path)]
    planned = epoch(plan(files, Location(first.name, 4)))
    assert planned.hi.file == second.name
    with pytest.raises(ChangeNotInLog, match="logged as a statement"):
        plan(files, planned.hi)


def test_a_missing_file_breaks_the_chain(tmp_path: Path) -> None:
    first, third = Log(), Log(name="mysql-bin.000003")
    files = [first.file(tmp_path, last=False), third.file(tmp_path)]
    with pytest.raises(BrokenFileChain):
        plan(files, Location(first.name, 4))


def test_a_new_sub_directory_may_begin_with_any_file(tmp_path: Path) -> None:
    first, other = Log(), Log(name="binlog.000042")
    first.transaction()
    other.before(f"{UUID_OF_SOURCE}:1")
    (tmp_path / "2").mkdir()
    files = [first.file(tmp_path, last=False), other.file(tmp_path / "2", suffix=2)]
    hi = epoch(plan(files, Location(first.name, 4))).hi
    assert (hi.suffix, hi.file) == (2, other.name)


def test_a_missing_location_is_refused(tmp_path: Path) -> None:
    log = Log()
    file = log.file(tmp_path)
    with pytest.raises(LocationNotInLog):
        plan([file], Location("mysql-bin.000007", 4))
    with pytest.raises(LocationNotInLog):
        plan([LogFile(file.path, 1, file.name, file.size, last=False)], Location(log.name, file.size + 1))
    beyond = Location(log.name, file.size + 1)
    assert plan([file], beyond) == UpToDate(beyond)  # the relay may still come so far


def test_an_unknown_gtid_set_stays_unknown_until_a_file_has_it(tmp_path: Path) -> None:
    log = Log()
    start, _ = log.transaction()
    files = [log.file(tmp_path)]
    assert epoch(plan(files, Location(log.name, start))).hi.gtid_set == ""
    assert epoch(plan(files, Location(log.name, 4))).hi.gtid_set == f"{UUID_OF_SOURCE}:1"


def test_the_newest_commit_is_remembered(tmp_path: Path) -> None:
    log = Log()
    for timestamp in (100, 300, 200):
        log.transaction(timestamp=timestamp)
    assert epoch(plan([log.file(tmp_path)], Location(log.name, 4))).newest_timestamp == 300


def test_a_plan_reads_only_the_format_before_its_start(tmp_path: Path) -> None:
    log = Log()
    log.transaction()
    start, _ = log.transaction()
    head = len(Log().data)
    file = log.file(tmp_path)
    data = bytearray(Path(file.path).read_bytes())
    data[head:start] = b"\0" * (start - head)
    Path(file.path).write_bytes(data)
    assert epoch(plan([file], Location(log.name, start))).transactions == 1
