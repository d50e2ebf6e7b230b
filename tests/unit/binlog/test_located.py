"""The event at a position, and its transaction."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.located import Events
from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import UUID_OF_SOURCE, Log, order


def range_of(log: Log, folder: Path) -> ByteRange:
    planned = plan_epoch([log.file(folder)], Location(log.name, 4))
    assert isinstance(planned, Epoch)
    (one,) = planned.ranges
    return one


def a_log(flavour: str) -> tuple[Log, list[int]]:
    """Three transactions, and where the rows events of the second are."""
    log = Log(flavour)
    positions = []
    log.transaction(("insert", [order(1), order(2)]))
    log.begin()
    log.table_map()
    positions.append(log.rows("update", [order(1), order(1, b"y")]))
    log.table_map()
    positions.append(log.rows("delete", [order(1, b"y" * 100)]))
    log.xid()
    log.transaction()
    return log, positions


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_an_event_has_its_end_its_server_and_its_transaction(flavour: str, tmp_path: Path) -> None:
    log, positions = a_log(flavour)
    with Events(range_of(log, tmp_path)) as events:
        found = [events.at(position) for position in (positions[0], positions[0], positions[1])]
    assert [event.gtid for event in found] == ["0-7-2" if flavour == "mariadb" else f"{UUID_OF_SOURCE}:2"] * 3
    assert [event.position for event in found] == [positions[0], positions[0], positions[1]]
    assert {(event.server_id, event.timestamp) for event in found} == {(7, 1_700_000_000)}
    assert found[2].end - positions[1] == 19 + 6 + 2 + (2 if flavour == "mysql" else 0) + 2 + 6 + 100 + 4


def test_a_range_with_its_bytes_is_decoded_like_the_file(tmp_path: Path) -> None:
    log, positions = a_log("mysql")
    one = range_of(log, tmp_path)
    data = Path(one.path).read_bytes()[one.start : one.end]
    with Events(one) as there, Events(replace(one, path="/nowhere", data=data)) as here:
        assert here.at(positions[1]) == there.at(positions[1])


def test_a_range_that_begins_inside_a_transaction_has_its_gtid(tmp_path: Path) -> None:
    log, positions = a_log("mysql")
    whole = range_of(log, tmp_path)
    with Events(whole) as events:
        cut = events.at(positions[0]).end
    first, middle, last = (
        replace(whole, end=cut),
        replace(whole, start=cut, end=positions[1], inside=True),
        replace(whole, start=positions[1], inside=True),
    )
    known = f"{UUID_OF_SOURCE}:2"
    with Events(first) as events:
        assert events.last_gtid() == known
    with Events(middle, known) as events:
        assert events.last_gtid() == known
    with Events(last, known) as events:
        assert events.at(positions[1]).gtid == known
        assert events.last_gtid() == f"{UUID_OF_SOURCE}:3"


def test_a_transaction_without_an_id_has_none(tmp_path: Path) -> None:
    log = Log()
    log.transaction()
    log.add(34, bytes(42))  # ANONYMOUS_GTID
    log.query("BEGIN")
    log.table_map()
    at = log.rows("insert", [order(1)])
    log.xid()
    with Events(range_of(log, tmp_path)) as events:
        assert events.at(at).gtid is None


def test_a_position_between_events_and_a_file_cut_short_are_errors(tmp_path: Path) -> None:
    log, positions = a_log("mysql")
    one = range_of(log, tmp_path)
    with Events(one) as events, pytest.raises(MalformedEvent, match="no event begins here"):
        events.at(positions[0] + 1)
    Path(one.path).write_bytes(log.data[:-10])
    with Events(one) as events, pytest.raises(MalformedEvent, match="ends within"):
        events.at(len(log.data) - 5)
