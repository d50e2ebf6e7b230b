"""A file that was moved away from the middle of a relay log is pulled again, or stays missing and is missed."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.mysql.binlog_status import list_binlogs
from airflow_provider_dm.engine.mysql.connection import connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.protocol import DumpRequest, DumpStream, open_dump
from airflow_provider_dm.engine.relay.reader import RelayFileGone, RelayReader
from airflow_provider_dm.engine.relay.refill import Hole, Refiller
from airflow_provider_dm.engine.sync.log.damage import check_events
from testbed import Flavour, Server, ServerSpec, start_servers, stop_servers
from tests.integration.relay import accidents
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled, wait_for
from tests.integration.relay.test_gtid import held_files, rows
from tests.nursery import Nursery

BY_GTID: dict[str, Any] = {"enable_gtid": True}
FILES = 6
HELD = [(1, f"mysql-bin.{number:06d}") for number in range(1, FILES + 1)]
BEGIN = Location("mysql-bin.000001", 4)


@pytest.fixture(scope="module")
def own_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Flavour, Server]]:
    """The servers of this module, by flavour; whoever needs one puts it there."""
    servers: dict[Flavour, Server] = {}
    yield servers
    stop_servers(list(servers.values()), keep_logs=True)


@pytest.fixture
def kit(
    source: Server, own_servers: dict[Flavour, Server], tmp_path_factory: pytest.TempPathFactory, kit_of: KitOf
) -> RelayKit:
    """Make relays of a server whose log may be purged, reset and damaged: it begins anew with each test."""
    flavour = source.flavour
    if flavour not in own_servers:
        (own_servers[flavour],) = start_servers([ServerSpec("refill", flavour)], tmp_path_factory.mktemp(flavour))
    kit = kit_of(own_servers[flavour])
    kit.kill_dump_connections()
    kit.server.sql("SET GLOBAL binlog_checksum = 'CRC32'; DROP DATABASE IF EXISTS d")
    reset(kit)
    kit.server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); CREATE TABLE d.long (v LONGBLOB)")
    return kit


def hold(kit: RelayKit, long: int = 8, **config: Any) -> None:
    """A relay pulls six files and ends; the last but one has so many MB and comes in many pieces."""
    for number in range(FILES - 1):
        rows(kit.server, "d", number)
        if number == FILES - 2:
            kit.server.sql("; ".join(["INSERT INTO d.long VALUES (REPEAT('x', 1000000))"] * long))
        kit.server.sql("FLUSH BINARY LOGS")
    rows(kit.server, "d", FILES)
    wait_for(lambda: is_settled(kit.server))
    kit.catch_up(**config)
    assert held_files(kit) == HELD


def reset(kit: RelayKit) -> None:
    kit.server.sql("RESET MASTER" if kit.server.flavour == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def path_of(kit: RelayKit, number: int) -> Path:
    (folder,) = kit.root.glob("*.000001")
    return folder / f"mysql-bin.{number:06d}"


def take_away(kit: RelayKit, *numbers: int) -> None:
    """Move a file away, as one does with a damaged one."""
    for number in numbers:
        shutil.move(path_of(kit, number), kit.folder / f"away.{number}")


def hidden(kit: RelayKit) -> list[str]:
    return sorted(path.name for path in kit.root.glob("*/.*"))


def is_whole(kit: RelayKit) -> None:
    """The log is the upstream's, every checksum is right, and nothing is left over."""
    assert kit.differences() == []
    files = RelayReader(kit.root).files(BEGIN)
    assert [(file.suffix, file.name) for file in files] == held_files(kit)
    for file in files:
        check_events(file, Location(file.name, 4))
    assert hidden(kit) == []


def stays_missing(kit: RelayKit, number: int) -> None:
    assert held_files(kit) == [one for one in HELD if one != HELD[number - 1]]
    assert hidden(kit) == []
    with pytest.raises(RelayFileGone, match=f"mysql-bin.{number:06d} is missing"):
        RelayReader(kit.root).files(BEGIN)


@pytest.mark.parametrize(
    ("config", "checksum"), [({}, "CRC32"), (BY_GTID, "CRC32"), ({}, "NONE")], ids=["position", "gtid", "no checksums"]
)
def test_missing_files_are_pulled_again(kit: RelayKit, config: dict[str, Any], checksum: str) -> None:
    if checksum == "NONE":
        kit.server.sql("SET GLOBAL binlog_checksum = 'NONE'")
        reset(kit)  # from the first file on
    hold(kit, **config)
    meta = RelayMeta.read(path_of(kit, 1).parent)

    take_away(kit, 2, 4, 5)
    kit.catch_up(**config)
    assert held_files(kit) == HELD
    assert RelayMeta.read(path_of(kit, 1).parent) == meta
    for number in (2, 4, 5):
        assert f"{path_of(kit, number).parent.name}/mysql-bin.{number:06d} is missing between" in kit.log()
    is_whole(kit)

    rows(kit.server, "d", 7)
    kit.catch_up(**config)
    is_whole(kit)


def test_a_flipped_bit(kit: RelayKit) -> None:
    """A reader finds it, the file is moved away while the relay is paused, and the relay heals its log."""
    hold(kit)
    relay = kit.start()
    wait_for(lambda: kit.status().stage is Stage.RUNNING and kit.status().caught_up)
    damaged = path_of(kit, 3)
    content = bytearray(damaged.read_bytes())
    content[-30] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ChecksumMismatch):
        is_whole_for_readers(kit)

    kit.store.set_relay_desired(kit.source_id, Stage.PAUSED)
    wait_for(lambda: kit.status().stage is Stage.PAUSED)
    take_away(kit, 3)
    kit.store.set_relay_desired(kit.source_id, Stage.RUNNING)
    wait_for(damaged.exists)
    rows(kit.server, "d", 8)
    wait_for(lambda: kit.status().caught_up and kit.status().relay == kit.upstream())
    assert relay.stop() == 143
    is_whole(kit)


def is_whole_for_readers(kit: RelayKit) -> None:
    for file in RelayReader(kit.root).files(BEGIN):
        check_events(file, Location(file.name, 4))


RunInto = Callable[..., tuple[int, str]]


@pytest.fixture
def runs_into(relay_nursery: Nursery) -> RunInto:
    """Make `runs_into(kit, step)`: how a relay ends to which this happens as it pulls a file again; what it prints."""

    def run(kit: RelayKit, step: str, **config: Any) -> tuple[int, str]:
        spec, log = kit.folder / "spec.json", kit.folder / "accident.log"
        kit.spec("caught-up", **config).write(spec)
        with log.open("wb") as output:
            child = relay_nursery.start(
                f"{accidents.__name__}:main", [kit.meta_url, str(spec), step], os.environ, output.fileno()
            )
        return child.wait(120), log.read_text()

    return run


def test_a_connection_that_is_lost_in_the_middle(kit: RelayKit, runs_into: RunInto) -> None:
    """The next one begins the file anew; a relay that would have caught up otherwise has not before."""
    hold(kit, long=60)
    take_away(kit, 5)
    code, said = runs_into(kit, "cut in the middle")
    assert code == 0, said
    assert said.count("mysql-bin.000005 is missing between files that are held: pulled again") == 2
    is_whole(kit)


@pytest.mark.parametrize("step", ["in the middle", "before the rename", "behind the rename"])
def test_killed_while_it_pulls_a_file_again(kit: RelayKit, runs_into: RunInto, step: str) -> None:
    """kill -9 ends it: a file is there whole, or it is missing still, and what is left over is removed."""
    hold(kit, **BY_GTID)
    take_away(kit, 5)
    code, said = runs_into(kit, step, **BY_GTID)
    assert code == -signal.SIGKILL, said

    if step == "behind the rename":
        assert held_files(kit) == HELD
        assert hidden(kit) == []
    else:
        assert held_files(kit) == [one for one in HELD if one != HELD[4]]
        assert hidden(kit) == [".mysql-bin.000005.new"]
        size, whole = (path_of(kit, 5).parent / hidden(kit)[0]).stat().st_size, (kit.folder / "away.5").stat().st_size
        assert size == whole if step == "before the rename" else 0 < size < whole
        with pytest.raises(RelayFileGone):
            RelayReader(kit.root).files(BEGIN)
    kit.catch_up(**BY_GTID)
    is_whole(kit)


@pytest.mark.parametrize("config", [{}, BY_GTID], ids=["position", "gtid"])
def test_what_the_upstream_has_purged_stays_missing(kit: RelayKit, config: dict[str, Any]) -> None:
    """Said once; what it still has is filled, and the relay goes on."""
    hold(kit, **config)

    def purged() -> bool:
        kit.server.sql("PURGE BINARY LOGS TO 'mysql-bin.000004'")  # MariaDB waits for a checkpoint
        return bool(kit.server.sql("SHOW BINARY LOGS")[0][0] == "mysql-bin.000004")

    wait_for(purged)
    take_away(kit, 3, 5)
    relay = kit.start(**config)
    wait_for(lambda: path_of(kit, 5).exists() and kit.status().caught_up)
    for number in (10, 11):
        assert kit.kill_dump_connections()
        rows(kit.server, "d", number)
        wait_for(lambda: kit.status().relay == kit.upstream() and kit.status().error is None)
    assert relay.stop() == 143
    assert kit.log().count("the upstream has purged it: mysql-bin.000003. The relay goes on") == 1
    stays_missing(kit, 3)
    kit.first_file = "mysql-bin.000004"
    assert kit.differences() == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 60)


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_file_that_is_damaged_on_the_upstream_too(kit: RelayKit, damage: Callable[[Path], None]) -> None:
    """Nothing that is not whole gets a name, and the relay goes on."""
    hold(kit)
    take_away(kit, 4)
    damage(kit.server.datadir / "mysql-bin.000004")
    rows(kit.server, "d", 10)
    kit.catch_up()
    assert "mysql-bin.000004 stays missing until the relay is started again: " in kit.log()
    stays_missing(kit, 4)
    assert kit.status().relay == kit.upstream()


def test_another_log_with_the_same_names(kit: RelayKit) -> None:
    """Positions are the same, only bytes tell: the upstream was reset, and has all the files again, long enough."""
    hold(kit)
    take_away(kit, 2, 3)
    reset(kit)
    kit.server.sql("SELECT SLEEP(1.1)")  # a first event is known by its second
    for number in range(FILES):
        rows(kit.server, "d", number, number, number, number)
        kit.server.sql("FLUSH BINARY LOGS")
    assert kit.fails_with().code == "DM-4023"
    assert held_files(kit) == [one for one in HELD if one not in HELD[1:3]]
    assert hidden(kit) == []


def test_it_stops_when_it_is_told_to(kit: RelayKit) -> None:
    """It is told in the middle of a file: nothing of it is left, and there is still something to do."""
    hold(kit)
    take_away(kit, 5)
    directory = RelayDirectory(kit.root)
    sub_dir = directory.sub_dirs()[0]
    refiller, ticks = Refiller(directory), iter([True, True])
    with connected(Endpoint("test", kit.server.host, kit.server.port, kit.server.user)) as connection:
        flavour, binlogs = server_info(connection).flavour, list_binlogs(connection)

        @contextmanager
        def dump(file: BinlogFile) -> Iterator[DumpStream]:
            yield open_dump(
                connection, flavour, DumpRequest(str(file), 4, 4711, "5d3ac2bc-0000-0000-0000-000000000001")
            )

        assert not refiller.fill(sub_dir, flavour, binlogs, dump, lambda: next(ticks, False))
    assert refiller.pending
    assert refiller.holes(sub_dir) == (Hole(BinlogFile("mysql-bin", 5), BinlogFile("mysql-bin", 5)),)
    assert hidden(kit) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_waited_for(kit: RelayKit) -> None:
    kit.root.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", kit.root], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        hold(kit)
        take_away(kit, 5)
        subprocess.run(["mount", "-o", "remount,size=4m", kit.root], check=True)
        relay = kit.start(purge={"interval": 0})  # which would make room
        wait_for(lambda: kit.status().stage is Stage.PAUSED and (kit.status().error or {})["ErrCode"] == "DM-4003", 60)
        assert relay.alive()
        assert hidden(kit) == []
        stays_missing(kit, 5)
        subprocess.run(["mount", "-o", "remount,size=500m", kit.root], check=True)
        wait_for(lambda: path_of(kit, 5).exists() and kit.status().stage is Stage.RUNNING, 60)
        assert relay.stop() == 143
        is_whole(kit)
    finally:
        for process in kit.started:
            process.stop()
        subprocess.run(["umount", kit.root], check=True)
