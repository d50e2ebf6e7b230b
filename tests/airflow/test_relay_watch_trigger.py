"""The trigger of a deferred relay: its events, and when it ends the relay."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_dm.engine.errors import NotSupportedYet, describe
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.health import GONE_SECONDS, RelayStart
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.operators.relay import DmRelayOperator
from airflow_provider_dm.triggers.relay import RelayWatchTrigger, next_event

HERE = Location("mysql-bin.000003", 500)
ERROR = {"ErrCode": "DM-4003", "Message": "no space"}
RUNS = RelayStatus("one", Stage.RUNNING, relay=HERE, pid=7, host="here", heartbeat_age_seconds=1.0)
ENDED = replace(RUNS, pid=None)
SILENT = replace(RUNS, heartbeat_age_seconds=GONE_SECONDS + 1)
NOW = 10_000.0


def event_of(
    status: RelayStatus | None, desired: Stage | None, goal: Location | None = None, *, ours: bool = True
) -> Any:
    event = next_event(status, desired, goal, RelayStart(NOW - 40, 2), NOW, ours=ours)
    return event and (event["status"], event.get("deaths"))


def test_the_end_of_the_relay_decides_the_event() -> None:
    assert event_of(RUNS, Stage.STOPPED) is None  # all states of a live relay are in unit/relay/test_health.py
    assert event_of(replace(ENDED, stage=Stage.STOPPED), Stage.STOPPED) == ("stopped", None)
    assert event_of(SILENT, Stage.STOPPED) == ("stopped", None)
    failed = replace(ENDED, stage=Stage.PAUSED, error=ERROR)
    assert event_of(failed, Stage.RUNNING) == ("failed", None)
    assert event_of(failed, Stage.RUNNING, ours=False) == ("gone", 0)  # another relay: the task starts its own
    assert event_of(SILENT, Stage.RUNNING) == ("gone", 3)
    assert event_of(replace(ENDED, stage=Stage.STOPPED), Stage.RUNNING) == ("gone", 3)
    assert event_of(replace(ENDED, stage=Stage.FINISHED), Stage.RUNNING) == ("gone", 0)  # another task's goal
    assert event_of(None, Stage.RUNNING) == ("gone", 3)


def test_the_watch_ends_at_its_goal_in_any_state_of_the_relay() -> None:
    for status in (RUNS, SILENT, replace(ENDED, stage=Stage.FINISHED), replace(ENDED, stage=Stage.PAUSED, error=ERROR)):
        assert event_of(status, Stage.RUNNING, HERE) == ("caught-up", None)
    assert event_of(RUNS, Stage.RUNNING, HERE.at(501)) is None


# With a metadata DB


def trigger(**parts: Any) -> RelayWatchTrigger:
    defaults = {
        "source_id": "one",
        "goal": None,
        "stop_on_kill": True,
        "began_at": time.time(),
        "deaths": 0,
        "dm_meta_conn_id": None,
        "poll_interval": 0.05,
    }
    return RelayWatchTrigger(**defaults | parts)


def say(status: RelayStatus, desired: Stage) -> None:
    with DmMetadataHook().get_store() as store:
        store.put_relay_status(status)
        store.set_relay_desired("one", desired)


def wanted() -> Stage | None:
    with DmMetadataHook().get_store() as store:
        return store.relay_desired("one")


def test_it_waits_until_the_relay_has_stopped(work_dir: Path) -> None:
    say(RUNS, Stage.STOPPED)

    async def first() -> Any:
        events = asyncio.ensure_future(anext(trigger().run()))
        await asyncio.sleep(0.5)
        assert not events.done()
        await asyncio.to_thread(say, replace(ENDED, stage=Stage.STOPPED), Stage.STOPPED)
        return (await events).payload

    assert asyncio.run(first()) == {"status": "stopped", "source": "one", "goal": None}


def test_an_unreachable_metadata_db_is_queried_again(
    work_dir: Path, monkeypatch: pytest.MonkeyPatch, connection: Any
) -> None:
    say(replace(ENDED, stage=Stage.STOPPED), Stage.STOPPED)
    unreachable = {"host": "127.0.0.1", "port": 1, "login": "x", "schema": "x"}
    connection("away", conn_type="dm_meta", **unreachable)

    async def first() -> Any:
        one = trigger(dm_meta_conn_id="away")
        events = asyncio.ensure_future(anext(one.run()))
        await asyncio.sleep(1.0)
        assert not events.done()
        one.dm_meta_conn_id = None
        return (await events).payload["status"]

    assert asyncio.run(first()) == "stopped"


class OfTask(RelayWatchTrigger):
    """A trigger whose task instance is in these states, one after the other."""

    states: tuple[str | None, ...] = ()

    async def _task_state(self) -> str | None:
        first, *rest = self.states
        self.states = (*rest,) if rest else (first,)
        return first


def killed(*states: str | None, **parts: Any) -> Stage | None:
    say(RUNS, Stage.RUNNING)
    one = OfTask(**trigger(**parts).serialize()[1])
    one.states = states
    asyncio.run(one.on_kill())
    return wanted()


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed", None, "scheduled", "queued"])
def test_a_stop_by_a_user_ends_the_relay(work_dir: Path, state: str | None) -> None:
    assert killed(state) is Stage.STOPPED


@pytest.mark.parametrize("state", ["deferred", "running"])
def test_a_trigger_that_was_moved_or_superseded_ends_nothing(work_dir: Path, state: str) -> None:
    assert killed(state) is Stage.RUNNING
    assert killed("queued", state) is Stage.RUNNING  # the next attempt began while the request was written


def test_the_relay_of_another_owner_is_left_running(work_dir: Path) -> None:
    assert killed("failed", stop_on_kill=False) is Stage.RUNNING


# On the worker


def test_the_reaction_of_an_error_decides_whether_airflow_retries(work_dir: Path) -> None:
    pull = DmRelayOperator(task_id="pull", source="one", deferrable=True)
    passing, lasting = (describe(one) for one in (ServerUnreachable("one", "refused"), NotSupportedYet("x", "y", "z")))
    with pytest.raises(AirflowException, match=r"^\[DM-2001 \w+\] the relay of source one stopped") as raised:
        pull.execute_complete({}, {"status": "failed", "source": "one", "error": passing})
    assert not isinstance(raised.value, AirflowFailException)
    with pytest.raises(AirflowFailException, match="DM-1900"):
        pull.execute_complete({}, {"status": "failed", "source": "one", "error": lasting})
    for event in ({"status": "error", "message": "x"}, {"status": "done"}, {}):
        with pytest.raises(AirflowException, match="ended with status"):
            pull.execute_complete({}, event)


def test_polls_share_the_connections_of_one_engine(work_dir: Path) -> None:
    """Each poll had an engine of its own: of hundreds of triggers, several a second."""
    say(RUNS, Stage.RUNNING)
    engines = []

    def note(connection: Any) -> None:
        engines.append(connection.engine)

    async def look(times: int) -> list[Any]:
        return [await trigger()._with_store(lambda store: store.relay_desired("one")) for _ in range(times)]

    sqlalchemy.event.listen(sqlalchemy.Engine, "engine_connect", note)
    try:
        assert asyncio.run(look(2)) == [Stage.RUNNING, Stage.RUNNING]
        ours = set(map(id, engines))
        say(RUNS, Stage.PAUSED)  # in an engine of its own, as another process would
        engines.clear()
        assert asyncio.run(look(2)) == [Stage.PAUSED, Stage.PAUSED]
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "engine_connect", note)
    assert len(ours) == 1
    assert ours == set(map(id, engines))
