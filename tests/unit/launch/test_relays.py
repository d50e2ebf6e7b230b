"""The reaction of tasks to the end of a relay, and the directories of relay logs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.errors import Reaction, ReportedError
from airflow_provider_dm.engine.meta.records import Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory_lock import sole_writer
from airflow_provider_dm.engine.relay.keeper import EndedByCrash, EndedByError
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from airflow_provider_dm.launch.errors import RelayFailed, RelayKeepsDying
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import Relays, error_of, remove_private_logs, upstream_of
from airflow_provider_dm.launch.secrets import inherited
from airflow_provider_dm.launch.workdir import TaskDir


def upstream(
    tmp_path: Path, config: Mapping[str, object] | None = None, *, meta: Mapping[str, object] | None = None
) -> Upstream:
    instance = {"source-id": "one", **({"meta": meta} if meta else {})}
    task = {"name": "shop", "task-mode": "incremental" if meta else "all", "mysql-instances": [instance]}
    source = SourceConfig.model_validate({"source-id": "one", **(config or {})})
    endpoint = Endpoint("one", "127.0.0.1", 3306, "dm")
    return upstream_of(TaskConfig.model_validate(task), source, endpoint, TaskDir.of("shop", tmp_path))


def test_relays_inherit_their_launchers_environment_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = set(inherited())
    for name in ("NEW", "AIRFLOW_CONN_X", "DM_META_URL", "DM_PASSWORD_ONE"):
        monkeypatch.setenv(name, "x")
    relays = Relays([upstream(tmp_path)], meta_url=Secret("sqlite://"), log_dir=tmp_path)
    ((_, kept, _),) = relays._kept
    assert {name for name in kept.environment if not name.startswith("DM_SECRET_")} == {"NEW", *known}


def test_the_log_of_a_relay_that_always_dies_is_shown_without_secrets() -> None:
    tail = "before " * 1000 + "pass boom"
    error = error_of(
        "one", EndedByCrash(1, tail), deaths=9, log_path=Path("r.log"), masked=lambda text: text.replace("pass", "*")
    )
    assert isinstance(error, RelayKeepsDying)
    assert "crashed 9 times in a row. The end of its log (r.log):\n" in str(error)
    assert "before * boom\n" in str(error)


def test_a_relays_own_error_is_passed_on() -> None:
    gone = ReportedError("DM-4001", "", "upstream", "mysql-bin.000001 was purged.", "", Reaction.STOP)
    error = error_of("one", EndedByError(gone), deaths=0, log_path=Path("r.log"), masked=str)
    assert isinstance(error, RelayFailed)
    assert "[DM-4001 upstream] the relay of source one stopped: mysql-bin.000001 was purged." in str(error)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "tasks/shop/relay/one"),
        ({"enable-relay": True}, "relay/one"),
        ({"enable-relay": True, "relay-dir": "./relay-dir"}, "relay-dir/one"),
        ({"enable-relay": False, "relay-dir": "/elsewhere"}, "tasks/shop/relay/one"),
        ({"enable-relay": True, "relay-dir": "/var/lib/dm/one"}, "/var/lib/dm/one"),
    ],
)
def test_only_a_source_with_enable_relay_has_a_directory_of_its_own(
    config: dict[str, object], expected: str, tmp_path: Path
) -> None:
    assert upstream(tmp_path, config).relay_dir == tmp_path / expected


def test_a_private_log_is_bounded_and_a_shared_one_is_not(tmp_path: Path) -> None:
    assert upstream(tmp_path).spool == SpoolSpec(task="shop", limit_bytes=4 << 30)
    assert upstream(tmp_path, {"spool-limit-mb": 100}).spool == SpoolSpec(task="shop", limit_bytes=100 << 20)
    assert upstream(tmp_path, {"enable-relay": True}).spool is None
    spool = upstream(tmp_path, meta={"binlog-name": "bin.000007", "binlog-pos": 400}).spool
    assert spool is not None
    assert spool.start == Location("bin.000007", 400), "that of the task"


@pytest.mark.parametrize("shared", [False, True])
def test_finished_work_leaves_only_the_shared_log(tmp_path: Path, *, shared: bool) -> None:
    one = upstream(tmp_path, {"enable-relay": shared})
    assert one.fallback_dir is not None
    for path in (one.relay_dir, one.fallback_dir):
        path.mkdir(parents=True)

    remove_private_logs([one], [])

    assert one.relay_dir.exists() is shared
    assert not one.fallback_dir.exists()


@pytest.mark.parametrize(
    ("stage", "needed", "applied", "stays"),
    [
        (Stage.RUNNING, 400, 400, True),
        (Stage.PAUSED, 400, 400, True),
        (Stage.STOPPED, 400, None, True),
        (Stage.STOPPED, 100, 400, True),
        (Stage.STOPPED, 400, 400, False),
        (Stage.FINISHED, 400, 400, False),
    ],
)
def test_a_log_with_unread_rows_or_an_unknown_end_is_kept(
    tmp_path: Path, stage: Stage, needed: int, applied: int | None, *, stays: bool
) -> None:
    """The metadata DB was away when the sync ended: it may need older log than was noted last."""
    one = upstream(tmp_path)
    one.relay_dir.mkdir(parents=True)
    at = Location("bin.000007", 400)
    reached = at.at(applied) if applied else None
    status = SubtaskStatus("shop", one.source_id, Unit.SYNC, stage, at.at(needed), reached, datetime.now(UTC))

    remove_private_logs([one], [status])

    assert one.relay_dir.exists() is stays


def test_a_log_that_another_run_writes_is_kept(tmp_path: Path) -> None:
    one = upstream(tmp_path)
    one.relay_dir.mkdir(parents=True)
    with sole_writer(one.relay_dir):
        remove_private_logs([one], [])
    assert one.relay_dir.exists()
