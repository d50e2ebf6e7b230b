"""A detached run's successor: whose stop it withdraws, and whose it leaves alone."""

import threading

import pytest

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder, this_process
from airflow_provider_dm.launch.detached import wait_for_predecessor

MINE, OTHER = "airflow:d/r/t", "dmctl:me@here"


@pytest.fixture
def store(store: MetaStore) -> MetaStore:
    store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING)
    store.set_subtask_desired("shop", "one", Stage.STOPPED)
    return store


def begin(store: MetaStore, identity: str) -> None:
    store.start_run("r", task="shop", app="incremental_sync", holder=Holder(identity, "1", "h", this_process()))


def wish(store: MetaStore) -> Stage | None:
    return store.list_subtasks(task="shop")[0].desired


def test_a_cleared_task_waits_for_the_run_that_its_clearing_has_stopped(store: MetaStore) -> None:
    begin(store, MINE)
    ends = threading.Timer(1.0, store.finish_run, args=("r",), kwargs={"stage": Stage.STOPPED})
    ends.start()
    wait_for_predecessor(store, "shop", ["one"], MINE)
    run = store.get_run("r")
    assert run is not None
    assert run.stage is Stage.STOPPED
    assert wish(store) is Stage.RUNNING


@pytest.mark.parametrize("identity", [None, OTHER])
def test_a_users_stop_is_kept(store: MetaStore, identity: str | None) -> None:
    if identity is not None:
        begin(store, identity)
    wait_for_predecessor(store, "shop", ["one"], MINE)
    assert wish(store) is Stage.STOPPED
