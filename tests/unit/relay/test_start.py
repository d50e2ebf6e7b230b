"""Where a relay begins or goes on."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.protocol import BinlogPurged, UpstreamLostTail
from airflow_provider_dm.engine.relay.service import pause_seconds
from airflow_provider_dm.engine.relay.writer import RelayWriter

BINLOGS = [BinlogSize(f"mysql-bin.{number:06d}", 1000) for number in (5, 6, 7)]
INFO = ServerInfo(Flavour.MARIADB, "10.11.6-MariaDB", 7, "0-7")
GIB = 1 << 30


def file(number: int) -> BinlogFile:
    return BinlogFile("mysql-bin", number)


def config(**keys: object) -> SourceConfig:
    return SourceConfig.model_validate({"source_id": "one", **keys})


def test_configured_then_needed_then_current() -> None:
    needed = Location("mysql-bin.000006", 500)
    assert start.first_file(config(relay_binlog_name="mysql-bin.000005"), needed, BINLOGS) == file(5)
    assert start.first_file(config(), needed, BINLOGS) == file(6)
    assert start.first_file(config(), None, BINLOGS) == file(7)


def test_what_the_upstream_has_is_available() -> None:
    start.check_available(file(5), 1000, BINLOGS)
    start.check_available(file(7), 0, BINLOGS)


def test_what_it_purged_is_named_with_what_it_has() -> None:
    with pytest.raises(BinlogPurged, match=r"mysql-bin\.000004:4.*mysql-bin\.000005 to mysql-bin\.000007"):
        start.check_available(file(4), 0, BINLOGS)


def test_a_log_longer_than_the_upstreams_is_an_error() -> None:
    with pytest.raises(UpstreamLostTail):
        start.check_available(file(7), 1001, BINLOGS)
    with pytest.raises(UpstreamLostTail):
        start.check_available(file(8), 4, BINLOGS)


def writer_at(root: Path, size: int, begun: int) -> RelayWriter:
    return RelayWriter(RelayDirectory(root), SubDir("0-7", 1), Flavour.MARIADB, file(5), size, begun)


def test_a_reconnect_asks_for_the_last_transaction_again(tmp_path: Path) -> None:
    assert start.resume_position(writer_at(tmp_path, 0, 4)) == 4
    assert start.resume_position(writer_at(tmp_path, 900, 700)) == 700


def test_a_position_beyond_32_bits_cannot_be_asked_for(tmp_path: Path) -> None:
    assert start.resume_position(writer_at(tmp_path, 5 * GIB, 5 * GIB - 100)) == 4


def test_an_empty_sub_directory_of_this_server_is_used_again(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    first = start.fresh_writer(directory, INFO, file(5))
    assert start.fresh_writer(directory, INFO, file(6)).sub_dir == first.sub_dir == SubDir("0-7", 1)


def test_a_directory_without_files_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    directory = RelayDirectory(tmp_path)
    assert start.held_writer(directory, INFO) is None
    directory.add("0-7")
    assert start.held_writer(directory, INFO) is None


def test_what_is_not_there_yet_is_refused() -> None:
    with pytest.raises(NotSupportedYet):
        start.refuse_unsupported(config(enable_gtid=True, relay_binlog_gtid="0-1-1"), Flavour.MARIADB)
    with pytest.raises(NotSupportedYet):
        start.refuse_unsupported(config(), Flavour.TIDB)


def test_pauses_grow_to_half_a_minute() -> None:
    assert 0.1 <= pause_seconds(1) <= 0.2
    assert 15 <= pause_seconds(50) <= 30
