"""The relay files that may be purged: DM's examples, the reasons, and the law that no needed file is purged."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import SubDir
from airflow_provider_dm.engine.relay.errors import NeedUnknown, PurgeRefused
from airflow_provider_dm.engine.relay.purge import (
    GIGABYTE,
    BeforeFile,
    BeforeTime,
    FreeSpace,
    HeldFile,
    Inactive,
    LogNeed,
    PurgePlan,
    PurgeRequest,
    RelayLog,
    first_kept,
    needs_of,
    plan_purge,
    requests_of,
)
from airflow_provider_dm.engine.relay.purge_files import check_reported

FIRST, SECOND = "deb76a2b-09cc-11e9-9129-5242cf3bb246", "e4e0e8ab-09cc-11e9-9220-82cc35207219"
SEED = (
    f"{FIRST}.000001/mysql-bin.000001",
    f"{FIRST}.000001/mysql-bin.000002",
    f"{FIRST}.000001/mysql-bin.000003",
    f"{SECOND}.000002/mysql-bin.000001",
    f"{FIRST}.000003/mysql-bin.000001",
)


def held(name: str, size: int = 100, ended_at: float = 0.0) -> HeldFile:
    sub_dir, _, file = name.partition("/")
    return HeldFile(SubDir.parse(sub_dir), BinlogFile.parse(file), size, ended_at)


def log_of(*files: HeldFile) -> RelayLog:
    return RelayLog("mysql-replica-01", Path("/relay"), files)


def numbered(count: int) -> RelayLog:
    return log_of(*(held(f"0-1.000001/bin.{number:06d}", 100, 1000.0 * number) for number in range(1, count + 1)))


def need(
    file: str, suffix: int = 1, task: str = "shop", stage: Stage = Stage.STOPPED, server_uuid: str = ""
) -> LogNeed:
    return LogNeed(task, Location(file, 4, suffix=suffix, server_uuid=server_uuid), stage)


def gone(plan: PurgePlan) -> list[str]:
    return [str(file) for file in plan.delete]


# By time, by space, all; by name: the two examples of DM in unit/cli/test_purge_relay.py


def test_by_time_stops_at_the_first_newer_file() -> None:
    files = [held(f"0-1.000001/bin.{number:06d}", ended_at=at) for number, at in enumerate((10, 20, 99, 20, 20), 1)]

    assert len(plan_purge(log_of(*files), (), BeforeTime(50)).delete) == 2


@pytest.mark.parametrize(("size", "files"), [(0, 0), (-5, 0), (1, 1), (100, 1), (101, 2), (10_000, 4)])
def test_by_space_as_many_of_the_oldest_as_are_needed(size: int, files: int) -> None:
    assert len(plan_purge(numbered(5), (), FreeSpace(size)).delete) == files


def test_the_newest_file_is_never_purged() -> None:
    plan = plan_purge(numbered(3), (), Inactive())

    assert gone(plan) == ["0-1.000001/bin.000001", "0-1.000001/bin.000002"]
    assert plan.report.kept == "0-1.000001/bin.000003 stays: 0-1.000001/bin.000003 is the newest file"


def test_of_several_goals_the_furthest_counts() -> None:
    assert len(plan_purge(numbered(9), (), FreeSpace(150), BeforeTime(4500.0)).delete) == 4
    assert plan_purge(numbered(9), ()).delete == ()


@pytest.mark.parametrize(
    ("config", "free", "requests"),
    [
        ({}, 20 * GIGABYTE, ()),
        ({}, 5 * GIGABYTE, (FreeSpace(10 * GIGABYTE),)),
        ({"interval": 0, "expires": 1}, 0, ()),
        ({"remain_space": 0, "expires": 2}, 0, (BeforeTime(10_000.0 - 7200.0),)),
        ({"remain_space": 1, "expires": 2}, 0, (FreeSpace(GIGABYTE), BeforeTime(10_000.0 - 7200.0))),
    ],
)
def test_the_relay_options_of_source_yaml(
    config: dict[str, int], free: int, requests: tuple[PurgeRequest, ...]
) -> None:
    assert requests_of(PurgeConfig(**config), free_bytes=free, now=10_000.0) == requests


# What tasks need


def status(task: str, stage: Stage, needed: Location | None, unit: Unit = Unit.SYNC) -> SubtaskStatus:
    return SubtaskStatus(task, "mysql-replica-01", unit, stage, needed, None, datetime(2026, 1, 1, tzinfo=UTC))


def test_the_task_that_needs_a_file_is_named() -> None:
    needs = (need("bin.000002"), need("bin.000003", task="archive", stage=Stage.RUNNING))

    plan = plan_purge(numbered(5), needs, BeforeFile("bin.000004"))

    assert gone(plan) == ["0-1.000001/bin.000001"]
    assert plan.report.kept == "0-1.000001/bin.000002 stays: task shop (Stopped) needs bin.000002:4"
    both = (needs[0], need("bin.000002", task="archive", stage=Stage.RUNNING))
    kept = plan_purge(numbered(5), both, BeforeFile("bin.000004")).report.kept
    assert kept.endswith("task shop (Stopped) needs bin.000002:4; task archive (Running) needs bin.000002:4")


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.FINISHED])
@pytest.mark.parametrize("unit", [Unit.LOAD, Unit.SYNC])
def test_the_file_of_a_need_stays_whatever_the_task_is_doing(stage: Stage, unit: Unit) -> None:
    needs = needs_of([status("shop", stage, Location("bin.000002", 4), unit), status("ended", Stage.FINISHED, None)])

    assert first_kept(numbered(5).files, needs) == 1
    assert needs_of([status("shop", Stage.FINISHED, Location("bin.000001", 4))]) == ()


def test_a_task_that_has_not_reported_its_need_stops_every_purge() -> None:
    known = status("other", Stage.RUNNING, Location("bin.000004", 4))

    with pytest.raises(NeedUnknown, match=r"nothing is purged: task shop \(New\)"):
        needs_of([known, status("shop", Stage.NEW, None)])


def test_in_a_private_directory_only_its_task_counts() -> None:
    statuses = [status("shop", Stage.RUNNING, Location("bin.000004", 4)), status("other", Stage.NEW, None)]

    assert [one.task for one in needs_of(statuses, only_task="shop")] == ["shop"]


@pytest.mark.parametrize(
    "needs",
    [
        (need("other-bin.000001"),),
        (need("bin.000001", suffix=7),),
        (need("bin.000001"), need("other-bin.000001", suffix=1, task="b")),
        (need("bin.000001", server_uuid="0-1"), need("bin.000003", task="b", server_uuid="0-2")),
    ],
    ids=["another name", "a sub-directory to come", "two names", "another server"],
)
def test_a_need_of_another_log_stops_every_purge(needs: tuple[LogNeed, ...]) -> None:
    with pytest.raises(PurgeRefused, match="cannot be compared with"):
        plan_purge(numbered(5), needs, Inactive())


# A metadata DB that knows nothing of this log


@pytest.mark.parametrize("sub_dir", [None, f"{SECOND}.000005"])
def test_the_metadata_db_of_another_user_is_refused(sub_dir: str | None) -> None:
    status = RelayStatus("mysql-replica-01", Stage.RUNNING, sub_dir=sub_dir) if sub_dir else None

    with pytest.raises(PurgeRefused, match="has not been reported to this metadata DB"):
        check_reported(log_of(*map(held, SEED)), status)


def test_the_relays_metadata_db_is_used() -> None:
    check_reported(log_of(*map(held, SEED)), RelayStatus("mysql-replica-01", Stage.PAUSED, sub_dir=f"{FIRST}.000003"))


# The law


@st.composite
def logs(draw: st.DrawFn) -> RelayLog:
    """Several sub-directories, each with a row of files from some number on; any ages and sizes."""
    files = []
    first = draw(st.integers(1, 3))
    for suffix in range(first, first + draw(st.integers(1, 3))):
        begin = draw(st.integers(1, 4))
        for number in range(begin, begin + draw(st.integers(1, 4))):
            size, ended = draw(st.integers(4, 500)), draw(st.floats(0, 100))
            files.append(HeldFile(SubDir(FIRST, suffix), BinlogFile("bin", number), size, ended))
    return log_of(*files)


def places(log: RelayLog) -> st.SearchStrategy[Location]:
    numbers = st.builds(BinlogFile, st.just("bin"), st.integers(1, 9)).map(str)
    return st.builds(Location, numbers, st.integers(4, 99), suffix=st.integers(1, log.files[-1].sub_dir.suffix))


def requests(log: RelayLog) -> st.SearchStrategy[PurgeRequest]:
    named = st.sampled_from(log.files).map(lambda file: BeforeFile(str(file.file), str(file.sub_dir)))
    by_time = st.builds(BeforeTime, st.floats(-10, 1e12))  # a clock may say anything
    return st.one_of(named, by_time, st.builds(FreeSpace, st.integers(-5, 5000)), st.just(Inactive()))


@given(st.data())
def test_no_file_that_a_task_needs_is_ever_purged(data: st.DataObject) -> None:
    log = data.draw(logs())
    stages = st.sampled_from([stage for stage in Stage if stage is not Stage.FINISHED])
    needs = data.draw(st.lists(st.builds(LogNeed, st.sampled_from("abc"), places(log), stages), max_size=4))

    plan = plan_purge(log, needs, *data.draw(st.lists(requests(log), max_size=3)))

    assert plan.delete == log.files[: len(plan.delete)], "what is left has no hole"
    assert log.files[-1] not in plan.delete
    for file in plan.delete:
        for one in needs:
            assert (file.sub_dir.suffix, file.file.number) < (one.at.suffix, BinlogFile.parse(one.at.file).number)
    assert plan.report.stays is None or plan.report.stays not in plan.report.files
