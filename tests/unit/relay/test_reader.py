"""The files that a reader gets of a relay log with several servers, and the GTID set at a location."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import LocationNotInLog
from airflow_provider_dm.engine.downstream.subtask import Subtask
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location
from airflow_provider_dm.engine.relay.directory import INDEX
from airflow_provider_dm.engine.relay.errors import RelayStartsTooLate
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.sync.errors import EarlierLogMissing
from airflow_provider_dm.engine.sync.log.locations import check_numbers, location_at, with_gtid_set
from tests.unit.binlog.failovers import A, B, T, World, set_of

FLAVOURS = pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
OLD = [T(A, number) for number in range(1, 8)]
NEW = [T(B, number) for number in range(8, 11)]


@pytest.fixture
def failed_over(flavour: str, tmp_path: Path) -> World:
    """Two servers; the second one's first file begins with what the first one has in its second."""
    world = World(tmp_path, flavour)
    world.add(A, OLD[:3])
    world.add(A, OLD[3:], before=set_of(OLD[:3], flavour), number=2)
    world.add(B, [*OLD[3:], *NEW], before=set_of(OLD[:3], flavour))
    (tmp_path / INDEX).write_text("".join(f"{one}\n" for one in dict.fromkeys(folder_of(world, n) for n in (0, 2))))
    return world


def folder_of(world: World, index: int) -> str:
    return Path(world.files[index].path).parent.name


def remove(world: World, *indexes: int) -> None:
    for index in indexes:
        Path(world.files[index].path).unlink()


@FLAVOURS
def test_files_of_later_servers_follow(failed_over: World, tmp_path: Path) -> None:
    reader = RelayReader(tmp_path)
    assert reader.files(failed_over.first) == failed_over.files
    assert reader.files(Location(failed_over.files[1].name, 4)) == failed_over.files[1:]


@FLAVOURS
def test_a_missing_file_is_ignored_if_the_gtid_set_covers_it(failed_over: World, flavour: str, tmp_path: Path) -> None:
    reader, last = RelayReader(tmp_path), failed_over.files[1]
    end = Location(last.name, last.size, set_of(OLD, flavour))
    remove(failed_over, 1)
    with pytest.raises(RelayStartsTooLate):
        reader.files(Location(last.name, 4))
    remove(failed_over, 0)
    for _ in range(2):
        assert reader.files(end) == failed_over.files[2:]
        for known in ("", set_of(OLD[:2], flavour)):
            with pytest.raises(RelayStartsTooLate):
                reader.files(replace(end, gtid_set=known))
        if (tmp_path / folder_of(failed_over, 0)).exists():
            (tmp_path / folder_of(failed_over, 0)).rmdir()


@FLAVOURS
def test_a_later_file_without_its_previous_gtids_yet(failed_over: World, flavour: str, tmp_path: Path) -> None:
    first = failed_over.files[2]
    remove(failed_over, 0, 1)
    data = Path(first.path).read_bytes()
    for size in (0, 3, 60, 130):
        Path(first.path).write_bytes(data[:size])
        assert RelayReader(tmp_path).files(Location("bin-10.000002", 900, set_of(OLD, flavour))) == []


@FLAVOURS
def test_the_current_log_of_a_server_is_in_the_newest_or_next_sub_directory(failed_over: World, tmp_path: Path) -> None:
    reader = RelayReader(tmp_path)
    of_a, of_b = (folder_of(failed_over, index).rpartition(".")[0] for index in (0, 2))
    assert reader.suffix_now(of_a) == 3
    assert (reader.suffix_now(of_b), reader.suffix_now("0-99"), reader.newest_suffix()) == (2, 3, 2)
    assert RelayReader(tmp_path / "none").suffix_now(of_a) is None
    assert (reader.base_of(1), reader.base_of(2), reader.base_of(3)) == ("bin-10", "bin-11", None)


# The set of a location


@FLAVOURS
def test_a_gtid_set_is_computed_from_the_log(failed_over: World, flavour: str, tmp_path: Path) -> None:
    reader = RelayReader(tmp_path)
    noted = replace(failed_over.first, gtid_set="")
    last, newest = failed_over.files[1:]
    end = Location(last.name, last.size)
    assert reader.gtid_set_after(noted, end) == reader.own_gtid_set_at(end) == set_of(OLD, flavour)
    there = Location(newest.name, newest.size, suffix=2)
    assert reader.gtid_set_after(noted, there) == set_of([*OLD, *NEW], flavour)
    assert reader.own_gtid_set_at(there) == set_of([*OLD, *NEW], flavour)
    assert reader.own_gtid_set_at(replace(there, position=BINLOG_HEADER_SIZE)) == set_of(OLD[:3], flavour)
    assert reader.gtid_set_after(noted, replace(there, position=newest.size + 1)) is None
    assert reader.own_gtid_set_at(replace(there, position=newest.size + 1)) is None
    with pytest.raises(LocationNotInLog):
        reader.own_gtid_set_at(replace(there, position=newest.size - 1))


def subtask(noted: Location, start: Location) -> Subtask:
    return Subtask("t", "s", 1, "sync", 64, 1, "", start, None, noted)


@FLAVOURS
def test_the_gtid_set_of_a_crashed_sync_includes_the_older_servers_log(
    failed_over: World, flavour: str, tmp_path: Path
) -> None:
    """It is inside the repeated transactions, where the new server's log alone is not sufficient."""
    reader = RelayReader(tmp_path)
    repeated = World(tmp_path / "other", flavour)
    repeated.folder.mkdir()
    repeated.add(B, OLD[3:5], before=set_of(OLD[:3], flavour))
    lo = Location(failed_over.files[2].name, repeated.files[0].size, suffix=2)
    noted = Location(failed_over.files[0].name, failed_over.files[0].size, set_of(OLD[:3], flavour))
    assert reader.own_gtid_set_at(lo) == set_of(OLD[:5], flavour)
    assert with_gtid_set(lo, subtask(noted, failed_over.first), reader) == replace(lo, gtid_set=set_of(OLD, flavour))
    again = location_at(lo.sort_key, noted, reader.base_of)
    assert again == lo


@FLAVOURS
def test_nothing_is_guessed_after_a_failover(failed_over: World, flavour: str, tmp_path: Path) -> None:
    reader, lo = RelayReader(tmp_path), Location(failed_over.files[2].name, failed_over.files[2].size, suffix=2)
    noted = Location(failed_over.files[0].name, failed_over.files[0].size, set_of(OLD[:3], flavour))
    remove(failed_over, 0, 1)
    with pytest.raises(EarlierLogMissing, match="is unknown, because"):
        with_gtid_set(
            lo, subtask(replace(noted, gtid_set=set_of(OLD[:2], flavour)), failed_over.first), reader, seconds=0
        )
    old = replace(failed_over.first, position=noted.position - 1)
    with pytest.raises(EarlierLogMissing, match="is unknown, because"):
        with_gtid_set(old, subtask(noted, failed_over.first), reader, seconds=0)
    yet_to_begin = RelayReader(tmp_path / "none")
    assert with_gtid_set(old, subtask(noted, failed_over.first), yet_to_begin, seconds=0) == old


@FLAVOURS
def test_a_private_log_shows_what_is_applied(failed_over: World, flavour: str, tmp_path: Path) -> None:
    """The relay has lost it, or never had it."""
    first, begin = failed_over.files[0], failed_over.first
    lo = replace(begin, position=first.size)
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    Path(first.path).parent.rename(pulled / Path(first.path).parent.name)
    relay, known = RelayReader(tmp_path), subtask(replace(begin, gtid_set=""), begin)
    found = with_gtid_set(lo, known, relay, seconds=0, elsewhere=(RelayReader(pulled),))
    assert found.gtid_set == set_of(OLD[:3], flavour)


@FLAVOURS
def test_a_task_that_begins_on_the_new_server_trusts_its_log(failed_over: World, flavour: str, tmp_path: Path) -> None:
    """Not that of a busy server, which names transactions after the location, or forgets some before it."""
    reader = RelayReader(tmp_path)
    start = Location(failed_over.files[2].name, failed_over.files[2].size, set_of([*OLD, *NEW, T(B, 99)], flavour), 2)
    assert with_gtid_set(start, subtask(start, start), reader).gtid_set == set_of([*OLD, *NEW], flavour)
    lacking = replace(start, gtid_set="")
    assert with_gtid_set(lacking, subtask(lacking, lacking), reader).gtid_set == set_of([*OLD, *NEW], flavour)


def test_a_server_without_gtids_has_no_gtid_set(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.add(A, [T(A, number, kind="anonymous") for number in (1, 2)])
    lo = Location(log.name, log.position)
    for noted in (lo, world.first):
        assert with_gtid_set(lo, subtask(noted, world.first), RelayReader(tmp_path)) == lo


def test_a_relay_that_is_behind_the_location(tmp_path: Path) -> None:
    lo = Location("mysql-bin.000003", 900, f"{A}:1-4")
    reader = RelayReader(tmp_path)
    assert with_gtid_set(lo, subtask(lo, lo), reader) == lo
    behind = replace(lo, position=1000, gtid_set="")
    assert with_gtid_set(behind, subtask(lo, lo), reader) == behind


def test_damage_before_the_start_location_does_not_stop_a_task(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(A, OLD)
    file = world.files[0]
    lo = Location(file.name, file.size, set_of(OLD[:-1], "mysql"))
    data = bytearray(Path(file.path).read_bytes())
    data[300:400] = bytes(100)
    Path(file.path).write_bytes(data)
    assert with_gtid_set(lo, subtask(lo, lo), RelayReader(tmp_path)) == lo


def test_a_recreated_relay_log_is_not_the_old_log(tmp_path: Path) -> None:
    reader = RelayReader(tmp_path)
    here = Location("mysql-bin.000001", 4, suffix=2)
    for newest in (None, 2, 3):
        check_numbers(here, reader, newest)
    with pytest.raises(EarlierLogMissing, match="sub-directory 2"):
        check_numbers(here, reader, 1)
