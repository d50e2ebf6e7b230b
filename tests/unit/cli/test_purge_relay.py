"""purge-relay: DM's documents, and that a doubt purges nothing."""

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory
from tests.metadata_db import new_meta_db
from tests.unit.relay.events import file_of

SOURCE = "mysql-replica-01"
FIRST, SECOND = "deb76a2b-09cc-11e9-9129-5242cf3bb246", "e4e0e8ab-09cc-11e9-9220-82cc35207219"
TREE = (
    f"{FIRST}.000001/mysql-bin.000001",
    f"{FIRST}.000001/mysql-bin.000002",
    f"{FIRST}.000001/mysql-bin.000003",
    f"{SECOND}.000002/mysql-bin.000001",
    f"{FIRST}.000003/mysql-bin.000001",
)


@dataclass
class Desk:
    """A work directory with the seed's relay log and a metadata DB."""

    work: Path
    store: MetaStore
    capsys: pytest.CaptureFixture[str]
    stderr: str = ""

    def __call__(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        assert main([*arguments, "--work-dir", str(self.work)]) == code
        printed = self.capsys.readouterr()
        self.stderr = printed.err
        found: dict[str, Any] = json.loads(printed.out)
        return found

    @property
    def root(self) -> Path:
        return self.work / "relay" / SOURCE

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob("*/mysql-bin.*"))

    def needs(self, file: str, suffix: int, task: str = "shop") -> None:
        here = Location(file, 4, suffix=suffix)
        self.store.put_subtask(task, SOURCE, unit=Unit.SYNC, stage=Stage.STOPPED, needed=here)

    def run(self, task: str = "shop") -> None:
        self.store.start_run("r1", task=task, app="incremental_sync", holder=Holder("dmctl", "1", "worker9"))


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    work = tmp_path / "work"
    root = work / "relay" / SOURCE
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(file_of(2)[0])
        (root / name).parent.joinpath("relay.meta").write_text("")
    (root / INDEX).write_text("".join(f"{name}\n" for name in dict.fromkeys(name.split("/")[0] for name in TREE)))
    with MetaStore.open(new_meta_db(work)) as store:
        store.put_relay_status(
            RelayStatus(SOURCE, Stage.RUNNING, sub_dir=f"{FIRST}.000003", host=socket.gethostname(), pid=1)
        )
        yield Desk(work, store, capsys)


def test_the_relay_directory_of_the_machine_overrides_that_of_the_source(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DM_RELAY_DIR", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    moved = desk.root.rename(tmp_path / "disk" / SOURCE)
    (tmp_path / "source.yaml").write_text(f"source-id: {SOURCE}\nrelay-dir: {desk.work}/relay\n")
    desk("purge-relay", "-s", SOURCE, "--inactive", "--source-file", str(tmp_path / "source.yaml"))
    assert [str(one.relative_to(moved)) for one in moved.glob("*/mysql-bin.*")] == [TREE[-1]]


def document(msg: str = "", *, result: bool = True) -> dict[str, Any]:
    answer = {"result": result, "msg": msg, "source": SOURCE, "worker": socket.gethostname()}
    return {"result": result, "msg": "", "sources": [answer]}


def test_the_seeds_first_example(desk: Desk) -> None:
    sub_dir = f"{SECOND}.000002"

    answer = desk("purge-relay", "-s", SOURCE, "--filename", "mysql-bin.000001", "--sub-dir", sub_dir)

    assert answer == document()
    assert list(answer) == ["result", "msg", "sources"]
    assert list(answer["sources"][0]) == ["result", "msg", "source", "worker"]
    assert desk.files() == sorted(TREE[3:])
    assert (desk.root / INDEX).read_text() == f"{SECOND}.000002\n{FIRST}.000003\n"
    assert not (desk.root / f"{FIRST}.000001").exists()


def test_the_seeds_second_example(desk: Desk) -> None:
    assert desk("purge-relay", "-s", SOURCE, "--filename", "mysql-bin.000001") == document()

    assert desk.files() == [TREE[4]]
    assert (desk.root / INDEX).read_text() == f"{FIRST}.000003\n"
    assert "removed 4 files" in desk.stderr


def test_a_dry_run_lists_the_files_and_removes_none(desk: Desk) -> None:
    answer = desk("purge-relay", "-s", SOURCE, "--filename", "mysql-bin.000001", "--dry-run")

    listed = answer["sources"][0].pop("files")
    assert answer == document()
    assert [f"{one['subDir']}/{one['filename']}" for one in listed] == list(TREE[:4])
    assert {one["bytes"] for one in listed} == {len(file_of(2)[0])}
    assert desk.files() == sorted(TREE)


def test_a_task_that_is_stopped_keeps_its_files_until_it_is_released(desk: Desk) -> None:
    desk.needs("mysql-bin.000002", 1)
    request = ("purge-relay", "-s", SOURCE, "--inactive")

    held = desk(*request)
    assert desk.files() == sorted(TREE[1:])
    assert "task shop (Stopped) needs mysql-bin.000002:4" in held["sources"][0]["msg"]

    assert desk("stop-task", "shop", "-s", SOURCE)["result"] is True
    desk(*request)
    assert desk.files() == [TREE[4]]


def test_by_time_the_local_clock_counts(desk: Desk) -> None:
    long_ago, tomorrow = "2001-01-01 00:00:00", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + 86400))

    desk("purge-relay", "-s", SOURCE, "--time", long_ago)
    assert desk.files() == sorted(TREE)
    desk("purge-relay", "-s", SOURCE, "--time", tomorrow)
    assert desk.files() == [TREE[4]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--filename", "mysql-bin.000001", "--sub-dir", "../.."), "is not a sub-directory"),
        (("--filename", "mysql-bin.000001", "--sub-dir", "/"), "is not a sub-directory"),
        (("--filename", "mysql-bin.000001", "--sub-dir", "*"), "is not a sub-directory"),
        (("--filename", "mysql-bin.000001", "--sub-dir", ""), "is not a sub-directory"),
        (("--filename", "mysql-bin.000001", "--sub-dir", f"{FIRST}.000004"), "is not a sub-directory"),
        (("--filename", "../../mysql-bin.000001"), "is not a file of"),
        (("--filename", "mysql-bin.000007"), "is not a file of"),
    ],
)
def test_a_missing_file_purges_nothing_and_gives_the_reason(desk: Desk, arguments: tuple[str, ...], why: str) -> None:
    answer = desk("purge-relay", "-s", SOURCE, *arguments, code=1)

    assert why in answer["sources"][0]["msg"]
    assert answer == document(answer["sources"][0]["msg"], result=False)
    assert desk.files() == sorted(TREE)


def test_a_task_that_has_not_reported_its_need_is_named(desk: Desk) -> None:
    desk.store.put_subtask("shop", SOURCE, unit=Unit.LOAD, stage=Stage.NEW, needed=None)

    answer = desk("purge-relay", "-s", SOURCE, "--inactive", code=1)

    assert "task shop (New) has not recorded" in answer["sources"][0]["msg"]
    assert desk.files() == sorted(TREE)


@pytest.mark.parametrize("how", [(), ("--dry-run",)], ids=["for real", "dry run"])
def test_without_a_known_relay_of_the_source_nothing_is_purged(desk: Desk, meta_url: str, how: tuple[str, ...]) -> None:
    answer = desk("purge-relay", "-s", SOURCE, "--inactive", "--meta-url", meta_url, *how, code=1)

    assert "has not been reported to this metadata DB" in answer["sources"][0]["msg"]
    assert desk.files() == sorted(TREE)


def test_a_metadata_db_that_cannot_be_reached_purges_nothing(desk: Desk) -> None:
    gone = "mysql+pymysql://dm@127.0.0.1:1/dm"

    assert main(["purge-relay", "-s", SOURCE, "--inactive", "--meta-url", gone, "--work-dir", str(desk.work)]) == 1
    assert desk.files() == sorted(TREE)


def test_one_file_name_means_one_source(desk: Desk) -> None:
    both = ["-s", SOURCE, "-s", "other"]

    assert main(["purge-relay", *both, "--filename", "mysql-bin.000001", "--work-dir", str(desk.work)]) == 1
    assert "for --filename, only one source can be given at a time" in desk.capsys.readouterr().err
    assert main(["purge-relay", "-s", SOURCE, "--inactive", "--sub-dir", "x", "--work-dir", str(desk.work)]) == 1
    assert "--sub-dir needs a file. Give the file with --filename." in desk.capsys.readouterr().err
    assert main(["purge-relay", *both, "--inactive", "--work-dir", str(desk.work)]) == 1
    answers = json.loads(desk.capsys.readouterr().out)["sources"]
    assert [answer["result"] for answer in answers] == [True, False]
    assert "DM-4055" in answers[1]["msg"]


@pytest.mark.parametrize(
    "arguments", [(), ("--inactive", "--filename", "a.000001"), ("--time", "yesterday")], ids=["none", "two", "no time"]
)
def test_contradictory_arguments_are_a_usage_error(desk: Desk, arguments: tuple[str, ...]) -> None:
    assert main(["purge-relay", "-s", SOURCE, *arguments]) == 2


def test_a_relay_log_elsewhere_is_found_by_the_sources_file(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    desk.root.rename(elsewhere)
    file = tmp_path / "source.yaml"
    file.write_text(f"source-id: {SOURCE}\nenable-relay: true\nrelay-dir: {elsewhere}\n")

    desk("purge-relay", "-s", SOURCE, "--inactive", "--source-file", str(file))

    directory = RelayDirectory(elsewhere)
    assert [len(directory.files(one)) for one in directory.sub_dirs()] == [1]
