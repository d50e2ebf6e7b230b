"""The relay's own purge: its times, the files that it removes, and that no error ends it."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.housekeeping import Housekeeper
from airflow_provider_dm.engine.relay.purge import BeforeFile, BeforeTime, FreeSpace, Inactive
from airflow_provider_dm.engine.relay.purge_files import sole_purger
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from airflow_provider_dm.launch.errors import PurgeNotReported, RelayFailed
from airflow_provider_dm.launch.relay_purge import purge_relay_log
from tests.jobs import relay_spec, source_spec
from tests.unit.relay.events import file_of
from tests.waiting import wait_for

SOURCE, SUB_DIR = "replica-01", "0-1.000001"
WANTS_SPACE: Mapping[str, int] = MappingProxyType({"remain_space": 1 << 30})
"""So many GB are never free: every check removes all files that it may."""


ELSEWHERE = RelayStatus(SOURCE, Stage.RUNNING, sub_dir=SUB_DIR, pid=1, host="another-machine")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "relay" / SUB_DIR
    folder.mkdir(parents=True)
    for number in range(1, 6):
        (folder / f"bin.{number:06d}").write_bytes(file_of(number)[0])
    return folder.parent


def keeper(
    root: Path, store: MetaStore, purge: Mapping[str, int] = WANTS_SPACE, spool: SpoolSpec | None = None
) -> Housekeeper:
    return Housekeeper(relay_spec(source_spec(SOURCE, relay_dir=root, purge=purge), spool=spool), store)


def needs(store: MetaStore, file: str, task: str = "shop", stage: Stage = Stage.STOPPED) -> None:
    store.put_subtask(task, SOURCE, unit=Unit.SYNC, stage=stage, needed=Location(file, 4))


def files(root: Path) -> list[int]:
    return [one.file.number for one in RelayDirectory(root).files(RelayDirectory(root).sub_dirs()[0])]


def test_it_purges_periodically_what_no_task_needs(root: Path, store: MetaStore) -> None:
    needs(store, "bin.000003")
    with keeper(root, store, {**WANTS_SPACE, "interval": 1}):
        wait_for(lambda: files(root) == [3, 4, 5])
        needs(store, "bin.000005")
        wait_for(lambda: files(root) == [5])


def test_a_relay_that_ends_before_its_first_check_purges_at_its_end(root: Path, store: MetaStore) -> None:
    """Not before the first task, which may need every file, and not if it ends by an error."""
    with keeper(root, store):
        pass
    assert files(root) == [1, 2, 3, 4, 5]
    needs(store, "bin.000003")
    with pytest.raises(LookupError), keeper(root, store):
        raise LookupError
    with keeper(root, store):
        assert files(root) == [1, 2, 3, 4, 5]
    assert files(root) == [3, 4, 5]


def test_the_tasks_that_need_kept_files_are_logged_once(
    root: Path, store: MetaStore, caplog: pytest.LogCaptureFixture
) -> None:
    needs(store, "bin.000001")
    housekeeper = keeper(root, store)

    with caplog.at_level(logging.WARNING):
        assert [housekeeper.purge_now() for _ in range(3)] == [0, 0, 0]

    (message,) = caplog.messages
    assert "0-1.000001/bin.000001 stays: task shop (Stopped) needs bin.000001:4" in message


@pytest.mark.parametrize("off", [{"interval": 0}, {"remain_space": 0}], ids=["interval: 0", "no reason is left"])
def test_a_disabled_purge_removes_nothing(root: Path, store: MetaStore, off: dict[str, int]) -> None:
    with keeper(root, store, {**WANTS_SPACE, **off}) as housekeeper:
        assert housekeeper.purge_now() == 0
        assert housekeeper._every == 0

    assert files(root) == [1, 2, 3, 4, 5]


def test_an_unknown_need_purges_nothing(root: Path, store: MetaStore, caplog: pytest.LogCaptureFixture) -> None:
    store.put_subtask("shop", SOURCE, unit=Unit.LOAD, stage=Stage.NEW, needed=None)

    assert keeper(root, store).purge_now() == 0

    assert files(root) == [1, 2, 3, 4, 5]
    assert "DM-4052" in caplog.text


def test_without_a_metadata_db_nothing_is_purged(
    root: Path, store: MetaStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "meta.db").write_bytes(b"not a database, but what is left of one" * 100)

    assert keeper(root, store).purge_now() == 0

    assert files(root) == [1, 2, 3, 4, 5]
    assert "nothing could be purged" in caplog.text


def test_another_purge_delays_it_until_the_next_check(root: Path, store: MetaStore) -> None:
    housekeeper = keeper(root, store)

    with sole_purger(root):
        assert housekeeper.purge_now() == 0
    assert housekeeper.purge_now() == sum(len(file_of(number)[0]) for number in range(1, 5))


def test_housekeeping_first_restores_files_hidden_by_a_crashed_purge(root: Path, store: MetaStore) -> None:
    (root / SUB_DIR / "bin.000001").rename(root / SUB_DIR / ".bin.000001.purged")

    with keeper(root, store):
        assert files(root) == [1, 2, 3, 4, 5]


def test_a_private_directory_keeps_only_what_its_own_task_needs(root: Path, store: MetaStore) -> None:
    needs(store, "bin.000001", task="other")
    spool = SpoolSpec(task="shop", limit_bytes=1)
    housekeeper = keeper(root, store, {"interval": 0}, spool)

    assert housekeeper.purge_now() == 0, "the task has not reported its location"
    needs(store, "bin.000004", stage=Stage.RUNNING)
    with housekeeper:
        wait_for(lambda: files(root) == [4, 5])


@pytest.mark.parametrize(
    ("order", "gone"),
    [
        (PurgeOrder(Inactive(), preview=True), []),
        (PurgeOrder(Inactive()), [1, 2]),
        (PurgeOrder(BeforeFile("bin.000002", SUB_DIR)), [1]),
        (PurgeOrder(BeforeTime(4_000_000_000.0)), [1, 2]),
        (PurgeOrder(FreeSpace(1)), [1]),
        (PurgeOrder(PurgeConfig(remain_space=1 << 30)), [1, 2]),
        (PurgeOrder(PurgeConfig(interval=0)), []),
    ],
    ids=str,
)
def test_a_relay_carries_out_what_another_machine_has_ordered(
    root: Path, store: MetaStore, order: PurgeOrder, gone: list[int]
) -> None:
    needs(store, "bin.000003")
    store.put_relay_status(replace(ELSEWHERE, directory=str(root)))
    with keeper(root, store, {"interval": 0}):
        report = purge_relay_log(store, SOURCE, order)
    assert files(root) == [one for one in range(1, 6) if one not in gone]
    planned = [1, 2] if order.preview else gone
    assert [one.filename for one in report.files] == [f"bin.{number:06d}" for number in planned]
    if order.wanted == Inactive():
        assert report.kept == f"{SUB_DIR}/bin.000003 stays: task shop (Stopped) needs bin.000003:4"


def test_files_that_a_relay_cannot_purge_are_reported(root: Path, store: MetaStore) -> None:
    store.put_relay_status(ELSEWHERE)
    with (
        keeper(root, store, {"interval": 0}),
        pytest.raises(RelayFailed, match=r"DM-4050 .*on another-machine has purged nothing"),
    ):
        purge_relay_log(store, SOURCE, PurgeOrder(BeforeFile("bin.000009", SUB_DIR)))


def test_a_purge_order_of_another_release_purges_nothing(root: Path, store: MetaStore) -> None:
    store.put_relay_status(replace(ELSEWHERE, directory=str(root)))
    store.order_purge(SOURCE, "1", {"wanted": {"older_than": 3600}, "preview": False})
    with keeper(root, store, {"interval": 0}):
        wait_for(lambda: store.purge_report(SOURCE, "1") is not None)
    report = store.purge_report(SOURCE, "1")
    assert report is not None
    assert "Run the same release" in str(report["error"])
    assert files(root) == [1, 2, 3, 4, 5]


def test_an_unread_purge_order_is_withdrawn(root: Path, store: MetaStore) -> None:
    store.put_relay_status(ELSEWHERE)
    with pytest.raises(PurgeNotReported, match="has not reported the purge within 0 s; the order is withdrawn"):
        purge_relay_log(store, SOURCE, PurgeOrder(Inactive()), seconds=0.1)
    with keeper(root, store, {"interval": 0}) as housekeeper:
        housekeeper._obey()
    assert files(root) == [1, 2, 3, 4, 5]
