"""Two tasks on one relay, a relay that waits while its source continues, and a sync that a user lets wait."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.sync.gate import Gate
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.resuming import run_sync_resuming
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from testbed import Server, ServerSpec
from tests.conftest import FreshSchema, StartServers
from tests.integration.sync.conftest import SOURCE_ID, NewKit
from tests.integration.sync.tail_kit import TailKit
from tests.waiting import wait_for


@pytest.fixture
def kit(mysql_source: Server, mariadb_target: Server, new_kit: NewKit) -> TailKit:
    return new_kit(TailKit, mysql_source, mariadb_target, shared=True)


def test_two_tasks_read_one_relay_and_see_it_wait(kit: TailKit, fresh_schema: FreshSchema) -> None:
    other = replace(
        kit, task="other", schema=fresh_schema(kit.source, kit.target, suffix="_2"), progress=SyncProgress()
    )
    kits = (kit, other)

    def write(number: int) -> None:
        for one in kits:
            one.write(f"INSERT INTO plain VALUES ({number}, 'a')")

    def current() -> bool:
        return all(one.applied() and one.progress.lag_seconds() == 0 for one in kits)

    for one in kits:
        one.begin_with("plain")
    with ExitStack() as running:
        for one in kits:
            running.enter_context(one.syncing())
        write(1)
        wait_for(current)

        kit.store.set_relay_desired(SOURCE_ID, Stage.PAUSED)
        wait_for(lambda: kit.relay_status().stage is Stage.PAUSED)
        write(2)
        wait_for(lambda: all((one.progress.lag_seconds() or 0) > 0 for one in kits))
        in_a_while = time.time() + 100
        assert all((one.progress.lag_seconds(in_a_while) or 0) >= 90 for one in kits)
        assert not any(one.applied() for one in kits)

        kit.store.set_relay_desired(SOURCE_ID, Stage.RUNNING)
        wait_for(current)

    (stopped,) = kit.store.list_subtasks(task=kit.task)
    with other.syncing():
        other.write("INSERT INTO plain VALUES (3, 'a')")
        wait_for(other.applied)
    assert kit.store.oldest_needed(SOURCE_ID) == stopped.needed  # what one needs, the other does not give up
    kit.store.forget_subtask(kit.task, SOURCE_ID)
    needed = kit.store.oldest_needed(SOURCE_ID)
    assert needed is not None
    assert stopped.needed is not None
    assert needed.sort_key > stopped.needed.sort_key


def test_the_lag_grows_while_the_source_cannot_be_reached(
    start_own: StartServers, mariadb_target: Server, new_kit: NewKit
) -> None:
    """The relay works, tries again and again, and reports the end of the log that it knew before."""
    (own,) = start_own(ServerSpec("lost", "mysql"))
    kit = new_kit(TailKit, own, mariadb_target, shared=True)
    kit.begin_with("plain")
    kit.write("INSERT INTO plain VALUES (1, 'a')")
    with kit.syncing():
        wait_for(lambda: kit.applied() and kit.progress.lag_seconds() == 0)
        own.kill()
        wait_for(lambda: (kit.progress.lag_seconds() or 0) > 1)
        assert not kit.progress.to_json()["caught_up"]
        own.start()
        wait_for(lambda: kit.progress.lag_seconds() == 0)


def test_a_waiting_sync_continues_at_its_location(kit: TailKit) -> None:
    kit.begin_with("plain")
    gate = Gate(threading.Event())

    def stage() -> Stage:
        (status,) = kit.store.list_subtasks(task=kit.task)
        return status.stage

    spec = kit.spec("forever")
    run = partial(kit.run, spec, stop=gate.closed, progress=kit.progress)
    source = SyncSource.of(spec, Fence(kit.ref, 0))
    with ThreadPoolExecutor(1) as pool:
        syncing = pool.submit(run_sync_resuming, source, kit.store, gate, kit.progress, run)
        try:
            kit.write("INSERT INTO plain VALUES (1, 'a')")
            wait_for(kit.applied)
            gate.request(Stage.PAUSED)
            wait_for(lambda: stage() is Stage.PAUSED)
            kit.write("INSERT INTO plain VALUES (2, 'b')")
            wait_for(kit.caught_up)
            assert not kit.applied()

            gate.request(Stage.RUNNING)
            wait_for(kit.applied)
            assert stage() is Stage.RUNNING
        finally:
            gate.request(Stage.STOPPED)
    result = syncing.result()
    assert (result.finished, result.changes) == (False, 2)
