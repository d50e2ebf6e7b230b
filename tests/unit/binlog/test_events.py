"""Each of the 256 event codes: applied, or stopped at its location, never passed over without a reason."""

from pathlib import Path

import pytest
from pymysqlreplication.constants import BINLOG

from airflow_provider_dm.engine.binlog import events
from airflow_provider_dm.engine.binlog.events import DO, EVENTS, Do, Kind, UnknownEvent, every_code
from airflow_provider_dm.engine.binlog.planner import Epoch, plan_epoch
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import Log

STOPPING = [kind.code for kind in EVENTS if kind.do is Do.STOP]
PASSED = [kind.code for kind in EVENTS if kind.do is Do.PASS]


def test_every_code_has_an_entry_and_stop_is_what_a_forgotten_one_does() -> None:
    assert [kind.code for kind in EVENTS] == list(range(256))
    assert int(Do.STOP) == 0
    assert list(DO) == [kind.do for kind in EVENTS]


def test_every_stop_and_every_pass_says_why() -> None:
    assert [kind.name for kind in EVENTS if kind.do in (Do.STOP, Do.PASS) and not kind.why] == []


def test_only_these_codes_are_passed_over() -> None:
    names = {EVENTS[code].name for code in PASSED}
    assert names == {
        "ANNOTATE_ROWS",
        "BINLOG_CHECKPOINT",
        "HEARTBEAT",
        "HEARTBEAT_V2",
        "ROWS_QUERY",
        "TRANSACTION_CONTEXT",
        "VIEW_CHANGE",
    }


def test_a_code_is_declared_once_and_with_its_reason() -> None:
    with pytest.raises(ValueError, match="twice"):
        every_code([Kind(2, "A", Do.SQL), Kind(2, "B", Do.SQL)])
    with pytest.raises(ValueError, match="why"):
        every_code([Kind(2, "A", Do.STOP)])


def test_the_codes_are_those_of_mysql_replication() -> None:
    ours = {
        events.QUERY: BINLOG.QUERY_EVENT,
        events.ROTATE: BINLOG.ROTATE_EVENT,
        events.FORMAT_DESCRIPTION: BINLOG.FORMAT_DESCRIPTION_EVENT,
        events.XID: BINLOG.XID_EVENT,
        events.TABLE_MAP: BINLOG.TABLE_MAP_EVENT,
        events.WRITE_ROWS_V1: BINLOG.WRITE_ROWS_EVENT_V1,
        events.UPDATE_ROWS_V1: BINLOG.UPDATE_ROWS_EVENT_V1,
        events.DELETE_ROWS_V1: BINLOG.DELETE_ROWS_EVENT_V1,
        events.WRITE_ROWS: BINLOG.WRITE_ROWS_EVENT_V2,
        events.UPDATE_ROWS: BINLOG.UPDATE_ROWS_EVENT_V2,
        events.DELETE_ROWS: BINLOG.DELETE_ROWS_EVENT_V2,
        events.GTID: BINLOG.GTID_LOG_EVENT,
        events.ANONYMOUS_GTID: BINLOG.ANONYMOUS_GTID_LOG_EVENT,
        events.PREVIOUS_GTIDS: BINLOG.PREVIOUS_GTIDS_LOG_EVENT,
        events.MARIADB_GTID: BINLOG.MARIADB_GTID_EVENT,
        events.MARIADB_GTID_LIST: BINLOG.MARIADB_GTID_GTID_LIST_EVENT,
    }
    assert [(code, theirs) for code, theirs in ours.items() if code != theirs] == []


def plan(log: Log, folder: Path, start: int) -> object:
    file = log.file(folder)
    return plan_epoch([file], Location(file.name, start), goal=None, max_bytes=1 << 30, range_bytes=1 << 20)


@pytest.mark.parametrize("code", STOPPING, ids=lambda code: EVENTS[code].name)
def test_a_stopping_event_stops_at_its_location_and_what_lies_before_is_applied_first(
    code: int, tmp_path: Path
) -> None:
    log = Log()
    start, end = log.transaction()
    log.begin()
    log.table_map()
    position = log.add(code, b"\0" * 40)
    log.xid()

    before = plan(log, tmp_path, start)
    assert isinstance(before, Epoch)
    assert before.hi.position == end

    with pytest.raises(UnknownEvent) as raised:
        plan(log, tmp_path, end)
    assert raised.value.at == f"{log.name}:{position}"
    assert EVENTS[code].why in str(raised.value)


@pytest.mark.parametrize("flags", [0, 0x80], ids=["plain", "ignorable"])
def test_the_ignorable_flag_does_not_help_an_unknown_event(flags: int, tmp_path: Path) -> None:
    log = Log()
    position = log.add(99, b"what is this", flags=flags)
    with pytest.raises(UnknownEvent) as raised:
        plan(log, tmp_path, position)
    assert raised.value.at == f"{log.name}:{position}"


@pytest.mark.parametrize("code", PASSED, ids=lambda code: EVENTS[code].name)
def test_a_passed_event_changes_nothing_inside_and_between_transactions(code: int, tmp_path: Path) -> None:
    log = Log()
    log.add(code, b"x" * 30)
    start = log.begin()
    log.add(code, b"x" * 30)
    log.xid()
    log.add(code, b"x" * 30)
    planned = plan(log, tmp_path, 4)
    assert isinstance(planned, Epoch)
    assert (planned.transactions, planned.hi.position) == (1, log.position)
    assert start < planned.hi.position
