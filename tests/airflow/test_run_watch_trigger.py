"""The requests that the trigger of a deferred run makes when a user ends its task."""

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.secrets.environment_variables import EnvironmentVariablesBackend

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.processes import Holder, this_process
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.launch.detached import _RequestedStages
from airflow_provider_dm.triggers.run import _ENDING, RunWatchTrigger

ME = this_process()


class OfFailedTask(RunWatchTrigger):
    async def _task_state(self) -> str | None:
        return "failed"


def trigger(deadline: float | None = None) -> RunWatchTrigger:
    named: dict[str, Any] = {"task_name": "shop", "sources": ["one"], "app": "incremental_sync", "run_id": "run-1"}
    times: dict[str, Any] = {"launched_at": time.time(), "poll_interval": 0.05}
    return OfFailedTask(dm_meta_conn_id=None, launcher=ME, deadline=deadline, **named, **times)


async def killed_as_airflow_does_it() -> None:
    """Airflow cancels a trigger's `on_kill` again while it runs, and its loop continues."""
    killing = asyncio.ensure_future(trigger().on_kill())
    await asyncio.sleep(0.5)
    killing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killing
    if _ENDING:
        await asyncio.wait(_ENDING)


async def out_of_time() -> None:
    assert await trigger(deadline=time.time())._wait() == {"status": "timeout", "run_id": "run-1"}


@pytest.mark.parametrize(
    "killed",
    [lambda: trigger().on_kill(), killed_as_airflow_does_it, out_of_time],
    ids=["once", "cancelled", "out of time"],
)
def test_a_pause_just_before_the_end_of_a_task_is_restored(work_dir: Path, killed: Any) -> None:
    """The launcher polled a moment ago, the run has not followed the pause, and the task fails or is late."""
    with DmMetadataHook().get_store() as store:
        holder = Holder("me", attempt="1", host="here", process=ME)
        store.start_run("run-1", task="shop", app="incremental_sync", holder=holder)
        store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING)
        store.set_subtask_desired("shop", "one", Stage.RUNNING)
        launcher, ended = _RequestedStages(store, "shop"), threading.Event()
        launcher.check()
        store.set_subtask_desired("shop", "one", Stage.PAUSED)

        asked: list[bool] = []

        def launched() -> None:
            """Look as a launcher does until the run has stopped."""
            while store.list_subtasks(task="shop")[0].desired is not Stage.STOPPED and not ended.wait(0.05):
                launcher.check()
            asked.append(store.list_subtasks(task="shop")[0].desired is Stage.STOPPED)
            store.finish_run("run-1", stage=Stage.STOPPED)
            launcher.restore()

        running = threading.Thread(target=launched)
        running.start()
        try:
            asyncio.run(killed())
        finally:
            ended.set()
            running.join()
        assert [one.desired for one in store.list_subtasks(task="shop")] == [Stage.PAUSED]
        found = store.get_run("run-1")
        assert found is not None
        assert found.stage is Stage.STOPPED
        assert asked == [True]


def test_a_task_that_a_user_ends_during_a_lookup_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow calls `on_kill` only for a cancellation with its message."""
    begun, ended = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        ended.wait()

    monkeypatch.setattr(EnvironmentVariablesBackend, "get_connection", slow)

    async def message() -> object:
        run = asyncio.ensure_future(anext(trigger().run()))
        await asyncio.to_thread(begun.wait)
        run.cancel("by a user")
        try:
            return await run
        except asyncio.CancelledError as error:
            return error.args
        finally:
            ended.set()

    assert asyncio.run(message()) == ("by a user",)
