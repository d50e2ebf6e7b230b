"""What is done about a relay that ended, and where relay logs lie."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import (
    DEATHS_ALLOWED,
    LONGEST_PAUSE_SECONDS,
    STAND_BY_SECONDS,
    DoWithout,
    GiveUp,
    RelayFailed,
    RelayKeepsDying,
    RelayStopped,
    Restart,
    StandBack,
    after_end,
    forget_private,
    relay_directory,
    upstream_of,
)
from airflow_provider_dm.launch.workdir import TaskDir

GONE = ReportedError.read({"ErrCode": "DM-4001", "ErrScope": "upstream", "Message": "mysql-bin.000001 was purged."})
LOCKED = ReportedError.read({"ErrCode": "DM-4005", "ErrScope": "internal", "Message": "another relay writes."})


def decide(
    exit_code: int, *, reported: ReportedError | None = None, deaths: int = 1, replaceable: bool = False
) -> Restart | StandBack | GiveUp | DoWithout:
    return after_end(
        "one",
        exit_code=exit_code,
        reported=reported,
        deaths=deaths,
        log_path=Path("r.log"),
        tail="boom",
        replaceable=replaceable,
    )


def upstream(
    tmp_path: Path, config: Mapping[str, object] | None = None, *, meta: Mapping[str, object] | None = None
) -> Upstream:
    instance = {"source-id": "one", **({"meta": meta} if meta else {})}
    task = {"name": "shop", "task-mode": "incremental" if meta else "all", "mysql-instances": [instance]}
    source = SourceConfig.model_validate({"source-id": "one", **(config or {})})
    endpoint = Endpoint("one", "127.0.0.1", 3306, "dm")
    return upstream_of(TaskConfig.model_validate(task), source, endpoint, TaskDir.of("shop", tmp_path))


def test_a_killed_relay_is_started_again_with_growing_pauses() -> None:
    pauses = [decide(-9, deaths=deaths) for deaths in range(1, DEATHS_ALLOWED + 1)]

    seconds = [one.after_seconds for one in pauses if isinstance(one, Restart)]
    assert len(seconds) == DEATHS_ALLOWED
    assert seconds == sorted(seconds)
    assert seconds[0] <= 1
    assert seconds[-1] == LONGEST_PAUSE_SECONDS


def test_one_that_did_as_it_was_told_is_over_whatever_another_wrote_into_the_log() -> None:
    """Two of one source write one log; the one that stands by does so again and again."""
    assert isinstance(decide(2, reported=LOCKED), StandBack)
    ended = decide(0, reported=LOCKED)
    assert isinstance(ended, GiveUp)
    assert isinstance(ended.error, RelayStopped)


def test_a_relay_that_always_dies_is_given_up_with_the_end_of_its_log() -> None:
    decision = decide(1, deaths=DEATHS_ALLOWED + 1)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayKeepsDying)
    assert "boom" in str(decision.error)


def test_a_typed_error_is_not_answered_by_a_restart() -> None:
    decision = decide(2, reported=GONE)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayFailed)
    assert "[DM-4001 upstream] mysql-bin.000001 was purged." in str(decision.error)


def test_another_writer_of_the_directory_is_waited_for() -> None:
    assert decide(2, reported=LOCKED, deaths=99) == StandBack(STAND_BY_SECONDS)


def test_a_relay_that_ended_on_request_is_not_started_against_that_wish() -> None:
    decision = decide(0)

    assert isinstance(decision, GiveUp)
    assert isinstance(decision.error, RelayStopped)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "tasks/shop/relay/one"),
        ({"enable-relay": True}, "relay/one"),
        ({"enable-relay": True, "relay-dir": "./relay-dir"}, "relay-dir/one"),
        ({"enable-relay": False, "relay-dir": "/elsewhere"}, "tasks/shop/relay/one"),
    ],
)
def test_only_a_source_with_enable_relay_has_a_directory_of_its_own(
    config: dict[str, object], expected: str, tmp_path: Path
) -> None:
    source = SourceConfig.model_validate({"source-id": "one", **config})

    assert relay_directory(source, TaskDir.of("shop", tmp_path)) == tmp_path / expected


def test_a_named_relay_dir_is_used_as_it_is(tmp_path: Path) -> None:
    source = SourceConfig.model_validate({"source-id": "one", "enable-relay": True, "relay-dir": "/var/lib/dm/one"})

    assert relay_directory(source, TaskDir.of("shop", tmp_path)) == Path("/var/lib/dm/one")


@pytest.mark.parametrize(
    ("exit_code", "reported", "deaths"), [(2, GONE, 1), (0, None, 1), (1, None, DEATHS_ALLOWED + 1)]
)
def test_what_readers_can_do_without_is_tried_again_later(
    exit_code: int, reported: ReportedError | None, deaths: int
) -> None:
    needed = decide(exit_code, reported=reported, deaths=deaths)
    assert isinstance(needed, GiveUp)

    decision = decide(exit_code, reported=reported, deaths=deaths, replaceable=True)

    assert isinstance(decision, DoWithout)
    assert type(decision.error) is type(needed.error)
    assert decision.look_again_after_seconds == LONGEST_PAUSE_SECONDS
    assert decide(-9, replaceable=True) == decide(-9)
    assert decide(2, reported=LOCKED, replaceable=True) == StandBack(STAND_BY_SECONDS)


def test_a_private_log_is_bounded_and_a_shared_one_is_not(tmp_path: Path) -> None:
    assert upstream(tmp_path).spool == SpoolSpec(task="shop", limit_bytes=4 << 30)
    assert upstream(tmp_path, {"spool-limit-mb": 100}).spool == SpoolSpec(task="shop", limit_bytes=100 << 20)
    assert upstream(tmp_path, {"enable-relay": True}).spool is None


def test_a_private_log_begins_where_its_task_is_told_to(tmp_path: Path) -> None:
    spool = upstream(tmp_path, meta={"binlog-name": "bin.000007", "binlog-pos": 400}).spool

    assert spool is not None
    assert spool.start == Location("bin.000007", 400)


@pytest.mark.parametrize("shared", [False, True])
def test_finished_work_leaves_only_the_shared_log(tmp_path: Path, *, shared: bool) -> None:
    one = upstream(tmp_path, {"enable-relay": shared})
    assert one.fallback_dir is not None
    for path in (one.relay_dir, one.fallback_dir):
        path.mkdir(parents=True)

    forget_private([one])

    assert one.relay_dir.exists() is shared
    assert not one.fallback_dir.exists()
