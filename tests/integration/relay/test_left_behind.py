"""The upstream purged the file that the relay log ends in: an error; a private log that is not needed begins again."""

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.errors import RelayStartsTooLate, TaskFellBehind
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.service import run_relay
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.launch.relay_purge import purge_relay_log
from testbed import Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import StartServers
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled
from tests.integration.relay.test_gtid import held_files, rows
from tests.waiting import wait_for

HELD = [(1, f"mysql-bin.{number:06d}") for number in (1, 2, 3)]


@pytest.fixture
def kit(source: Server, start_own: StartServers, kit_of: KitOf) -> RelayKit:
    """Make relays of a server of its own, whose log it can purge."""
    (own,) = start_own(ServerSpec("behind", source.flavour))
    own.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT)")
    return kit_of(own)


def hold(kit: RelayKit, **config: Any) -> Location:
    """A relay pulls three files and ends. Returns where."""
    for number in range(2):
        rows(kit.server, "d", number)
        kit.server.sql("FLUSH BINARY LOGS")
    rows(kit.server, "d", 2)
    wait_for(lambda: is_settled(kit.server))
    kit.catch_up(**config)
    assert held_files(kit) == HELD
    return kit.upstream()


def leave_behind(kit: RelayKit) -> Location:
    """The source continues, and purges all before the file of the place that is returned, which is inside of it."""
    rows(kit.server, "d", 3)
    kit.server.sql("FLUSH BINARY LOGS")
    rows(kit.server, "d", 4)
    kit.server.sql("FLUSH BINARY LOGS")
    rows(kit.server, "d", 5)
    place = kit.upstream()
    rows(kit.server, "d", 6)
    kit.server.sql("FLUSH BINARY LOGS")
    rows(kit.server, "d", 7)
    purge_before(kit.server, place.file)
    return place


def contents(kit: RelayKit) -> dict[str, bytes]:
    return {str(path.relative_to(kit.root)): path.read_bytes() for path in kit.root.glob("*/*mysql-bin.*")}


def goes_on_from(kit: RelayKit, place: Location) -> None:
    """The relay log equals the upstream's from that file on; a reader of earlier files gets an error."""
    assert held_files(kit)[0] == (1, place.file)
    assert len(RelayDirectory(kit.root).sub_dirs()) == 1
    with pytest.raises(RelayStartsTooLate):
        RelayReader(kit.root).files(Location("mysql-bin.000003", 4))
    assert RelayReader(kit.root).files(place)[0].name == place.file
    kit.first_file = place.file
    assert kit.differences() == []
    status = kit.status()
    assert status.relay is not None
    assert (status.caught_up, status.error) == (True, None)
    assert status.relay.gtid_set == kit.upstream().gtid_set


def test_the_log_stays_until_it_is_moved_away(kit: RelayKit, tmp_path: Path) -> None:
    end = hold(kit)
    before, place = contents(kit), leave_behind(kit)
    kit.needs(place)
    kit.needs(kit.upstream(), task="new")

    error = kit.fails_with()
    assert error.code == "DM-4022"
    assert f"the upstream has purged {end}; it still has {place.file} to {kit.upstream().file}" in error.message
    assert "move the relay directory away" in error.workaround
    assert contents(kit) == before

    kept = purge_relay_log(kit.store, kit.source_id, PurgeOrder(Inactive(), preview=True)).kept
    assert kept.endswith(f"mysql-bin.000003 is the newest file; task shop (Stopped) needs {place}")

    kit.root.rename(tmp_path / "away")
    kit.catch_up()  # its relay-binlog-name, which is purged, does not count
    goes_on_from(kit, place)


def test_without_a_need_a_purged_name_is_removed_as_well(kit: RelayKit, tmp_path: Path) -> None:
    hold(kit)
    place = leave_behind(kit)
    kit.root.rename(tmp_path / "away")
    error = kit.fails_with()
    assert (error.code, kit.first_file in error.message) == ("DM-4022", True)
    assert "without a relay-binlog-name that is purged" in error.workaround
    kit.catch_up(relay_binlog_name="")
    assert held_files(kit)[0][1] > place.file


def test_a_private_log(kit: RelayKit) -> None:
    """Only its own task counts, and the start of that task: a log that ends before it is pulled anew."""
    end = hold(kit)
    before, place = contents(kit), leave_behind(kit)
    kit.needs(Location("mysql-bin.000001", 4), task="another")

    with pytest.raises(TaskFellBehind, match=str(end)):
        run_relay(private(kit, end), kit.store, threading.Event())
    assert contents(kit) == before

    run_relay(private(kit, place), kit.store, threading.Event())
    goes_on_from(kit, place)


def private(kit: RelayKit, start: Location) -> RelaySpec:
    spool = SpoolSpec(task="shop", limit_bytes=1 << 30, start=start)
    return kit.spec("caught-up").model_copy(update={"spool": spool})
