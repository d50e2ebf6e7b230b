"""The location at which a relay begins or continues."""

from dataclasses import replace
from errno import EIO
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import CheckerConfig, SourceConfig
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.backoff import FIRST_PAUSE_SECONDS, pause_seconds
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.errors import BinlogPurged, RelayDiskFailed, UpstreamLogDiffers, UpstreamSwitched
from airflow_provider_dm.engine.relay.open_writer import WriterOpener, held_writer
from airflow_provider_dm.engine.relay.writer import RelayWriter

BINLOGS = [BinlogSize(f"mysql-bin.{number:06d}", 1000) for number in (5, 6, 7)]
INFO = ServerInfo(Flavour.MARIADB, "10.11.6-MariaDB", 7, "0-7")
GIB = 1 << 30


def file(number: int) -> BinlogFile:
    return BinlogFile("mysql-bin", number)


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(text, Flavour.MARIADB)


def config(**keys: object) -> SourceConfig:
    return SourceConfig.model_validate({"source_id": "one", **keys})


NEEDED = Location("mysql-bin.000006", 500, "0-7-9", suffix=2)
OURS, OTHERS = (replace(NEEDED, server_uuid=uuid) for uuid in ("0-7", "0-8"))
OTHER_NAME = BinlogFile("other-bin", 5)
GTID = {"enable_gtid": True}


@pytest.mark.parametrize(
    ("keys", "needed", "last_known", "begins"),
    [
        ({}, None, "", (start.Latest(), 1)),
        ({"relay_binlog_name": "mysql-bin.000005"}, None, "", (start.ByName(file(5)), 1)),
        ({"relay_binlog_name": "mysql-bin.000005"}, NEEDED, "", (start.ByName(file(6)), 2)),
        ({"relay_binlog_name": "mysql-bin.000005"}, NEEDED, "0-7.000002", (start.ByName(file(6)), 2)),
        ({"relay_binlog_name": "mysql-bin.000007"}, NEEDED, "0-7.000002", (start.ByName(file(7)), 2)),
        ({"relay_binlog_name": "other-bin.000005"}, NEEDED, "", (start.ByName(OTHER_NAME), 2)),
        ({**GTID, "relay_binlog_name": "mysql-bin.000005"}, NEEDED, "", (start.ByName(file(5)), 3)),
        ({**GTID, "relay_binlog_gtid": "1-1-5"}, NEEDED, "", (start.ByGtid(gtids("1-1-5")), 3)),
        ({**GTID, "relay_binlog_gtid": "0-7-5"}, NEEDED, "", (start.ByGtid(gtids("0-7-9")), 3)),
        ({**GTID, "relay_binlog_gtid": "0-7-5"}, OURS, "", (start.ByName(file(6)), 2)),
        ({**GTID, "relay_binlog_gtid": "0-7-10"}, OURS, "", (start.ByGtid(gtids("0-7-10")), 2)),
        ({**GTID, "relay_binlog_gtid": "0-1-5"}, None, "", (start.ByGtid(gtids("0-1-5")), 1)),
        ({"relay_binlog_gtid": "0-1-5"}, None, "", (start.ByGtid(gtids("0-1-5")), 1)),
        ({"relay_binlog_gtid": "0-7-5"}, NEEDED, "", (start.ByName(file(6)), 2)),
        (
            {"relay_binlog_gtid": "0-1-5", "relay_binlog_name": "mysql-bin.000005"},
            *(None, "", (start.ByName(file(5)), 1)),
        ),
        ({}, NEEDED, "", (start.ByName(file(6)), 2)),
        (GTID, NEEDED, "0-7.000002", (start.ByName(file(6)), 2)),
        (GTID, NEEDED, "0-8.000002", (start.ByGtid(gtids("0-7-9")), 3)),
        (GTID, NEEDED, "0-7.000001", (start.ByGtid(gtids("0-7-9")), 3)),
        (GTID, NEEDED, "", (start.ByGtid(gtids("0-7-9")), 3)),
        (GTID, OURS, "", (start.ByName(file(6)), 2)),
        (GTID, OURS, "0-8.000002", (start.ByName(file(6)), 2)),
        (GTID, OTHERS, "0-7.000002", (start.ByGtid(gtids("0-7-9")), 3)),
        ({}, OURS, "0-8.000002", (start.ByName(file(6)), 2)),
    ],
)
def test_a_later_need_then_configured_then_an_earlier_need_then_current(
    keys: dict[str, object], needed: Location | None, last_known: str, begins: tuple[start.FirstPosition, int]
) -> None:
    assert start.first_start(config(**keys), INFO, needed, last_known) == begins


@pytest.mark.parametrize("keys", [{}, {"relay_binlog_name": "mysql-bin.000005"}])
def test_a_position_of_another_server_is_refused(keys: dict[str, object]) -> None:
    with pytest.raises(UpstreamSwitched):
        start.first_start(config(**keys), INFO, NEEDED, "0-8.000002")
    with pytest.raises(UpstreamSwitched):
        start.first_start(config(**keys), INFO, OTHERS, "0-7.000002")


def test_locations_in_existing_binlogs_are_available() -> None:
    start.check_available(file(5), 1000, BINLOGS)
    start.check_available(file(7), 0, BINLOGS)


def test_the_error_names_the_purged_and_the_available_files() -> None:
    with pytest.raises(BinlogPurged, match=r"mysql-bin\.000004:4.*mysql-bin\.000005 to mysql-bin\.000007"):
        start.check_available(file(4), 0, BINLOGS)


def test_a_log_longer_than_the_upstreams_is_an_error() -> None:
    with pytest.raises(UpstreamLogDiffers):
        start.check_available(file(7), 1001, BINLOGS)
    with pytest.raises(UpstreamLogDiffers):
        start.check_available(file(8), 4, BINLOGS)


def writer_at(root: Path, size: int, begun: int) -> RelayWriter:
    return RelayWriter(RelayDirectory(root), SubDir("0-7", 1), Flavour.MARIADB, file(5), size, begun)


def test_a_reconnect_requests_the_last_transaction_again(tmp_path: Path) -> None:
    assert start.resume_position(writer_at(tmp_path, 0, 4), by_gtid=False) == 4
    assert start.resume_position(writer_at(tmp_path, 900, 700), by_gtid=False) == 700


def test_a_position_beyond_32_bits_cannot_be_requested(tmp_path: Path) -> None:
    writer = writer_at(tmp_path, 5 * GIB, 5 * GIB - 100)
    assert start.resume_position(writer, by_gtid=False) == 4
    assert start.resume_position(writer, by_gtid=True) == 4  # MariaDB has one dump command only
    writer.flavour = Flavour.MYSQL
    assert start.resume_position(writer, by_gtid=True) == 5 * GIB - 100


@pytest.mark.parametrize("index", [True, False], ids=["after its line in the index", "before"])
def test_a_directory_without_files_has_no_writer_to_continue(tmp_path: Path, index: bool) -> None:
    """A writer that dies in `add` leaves an empty sub-directory."""
    directory = RelayDirectory(tmp_path)
    assert held_writer(directory, INFO.flavour) is None
    directory.add("0-7")
    if not index:
        (tmp_path / INDEX).unlink()
    assert held_writer(directory, INFO.flavour) is None
    assert directory.sub_dirs() == ()  # as if nothing had begun


def test_a_location_that_does_not_exist_yet_is_refused() -> None:
    with pytest.raises(NotSupportedYet):
        start.refuse_unsupported(config(), Flavour.TIDB)


def test_another_flavor_than_the_configured_one_is_refused() -> None:
    start.refuse_unsupported(config(flavor="mysql"), Flavour.MYSQL)
    with pytest.raises(InvalidInput, match="has the flavor mariadb, but a mysql server answers"):
        start.refuse_unsupported(config(flavor="mariadb"), Flavour.MYSQL)


def test_pauses_grow_by_the_checkers_keys() -> None:
    checker = CheckerConfig.model_validate({"backoff-min": "2s", "backoff-max": "30s", "backoff-factor": 3})
    for failures, longest in ((1, FIRST_PAUSE_SECONDS), (2, 2), (3, 6), (4, 18), (5, 30), (5000, 30)):
        found = {pause_seconds(checker, failures) for _ in range(20)}
        assert longest / 2 <= min(found) < max(found) <= longest
    steady = CheckerConfig.model_validate({"backoff-factor": 1, "backoff-jitter": False})
    assert pause_seconds(steady, 5000) == 1


@pytest.mark.parametrize(("number", "behind"), [(4, True), (5, False), (7, False), (8, False)])
def test_a_file_is_left_behind_if_the_upstreams_log_begins_later(number: int, behind: bool) -> None:
    assert start.is_left_behind(file(number), BINLOGS) is behind
    assert not start.is_left_behind(file(number), [])
    assert not start.is_left_behind(BinlogFile("log", number), BINLOGS)


def test_a_log_that_cannot_be_removed_is_an_error_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise OSError(EIO, "broken", str(folder))

    directory = RelayDirectory(tmp_path)
    opener = WriterOpener(config(), directory, lambda: None, str)
    opener.writer = RelayWriter(directory, directory.add("0-7"), Flavour.MARIADB, file(5))
    assert not opener.give_up(Location("mysql-bin.000005", 4))
    monkeypatch.setattr("shutil.rmtree", fail)
    with pytest.raises(RelayDiskFailed):
        opener.give_up(NEEDED)
