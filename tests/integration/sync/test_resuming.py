"""A sync resumes automatically after an outage of its servers, and reports meanwhile the server that it waits for."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.config.source import CheckerConfig
from airflow_provider_dm.engine.downstream.claim import claim_generation, current_generation
from airflow_provider_dm.engine.downstream.errors import Fenced, TargetUnreachable, TargetWentBack
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Stage, SubtaskStatus
from airflow_provider_dm.engine.sync.gate import Gate
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.resuming import run_sync_resuming
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from tests.integration.sync.app_process import AppProcess
from tests.integration.sync.app_process import until as app_until
from tests.integration.sync.conftest import HOLDER, SOURCE_ID, SyncKit, rows_of
from tests.waiting import wait_for

SECONDS = 240
IMPATIENT = Path(__file__).with_name("impatient_sync.py")


@dataclass
class Syncing:
    """A sync in a thread of its own, claimed once."""

    kit: SyncKit
    until: str = "forever"
    checker: dict[str, Any] = field(default_factory=dict)
    gate: Gate = field(default_factory=lambda: Gate(threading.Event()))
    progress: SyncProgress = field(default_factory=SyncProgress)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def claim(self) -> SyncSource:
        spec = self.kit.spec(self.until)
        (source,) = spec.sources
        checker = CheckerConfig.model_validate({"backoff-max": 1, **self.checker})
        config = source.config.model_copy(update={"checker": checker})
        spec = spec.model_copy(update={"sources": (source.model_copy(update={"config": config}),)})
        endpoint = spec.target.resolve()
        known = current_generation(target_connection(endpoint), self.kit.ref)
        holder = HOLDER
        lease = self.kit.store.acquire_lease("test", SOURCE_ID, holder, ttl_seconds=600, at_least=known)
        fence = Fence(self.kit.ref, lease.generation)
        claim_generation(endpoint, fence)
        return SyncSource.of(spec, fence)

    def start(self, source: SyncSource) -> Future[SyncResult]:
        store, progress, closed = self.kit.store, self.progress, self.gate.closed
        run = partial(run_sync, source, LocalRunner(), store, closed, progress=progress)
        return self.pool.submit(run_sync_resuming, source, store, self.gate, progress, run)

    def status(self) -> SubtaskStatus:
        (status,) = self.kit.store.list_subtasks(task="test", source=SOURCE_ID)
        return status

    def waits(self) -> bool:
        return self.pause() is not None

    def pause(self) -> SubtaskStatus | None:
        """Return the status of a sync that waits for its next attempt; None for one that does not wait."""
        status = self.status()
        return status if status.stage is Stage.PAUSED and self.progress.resuming else None


@pytest.fixture
def syncing(one_kit: SyncKit) -> Iterator[Syncing]:
    """A sync of a task that has begun. The target runs again when the test has ended."""
    one_kit.begin_with("plain")
    made = Syncing(one_kit)
    yield made
    made.gate.request(Stage.STOPPED)
    if not one_kit.target.alive():
        one_kit.target.start()
    made.pool.shutdown()


def test_a_sync_resumes_when_its_target_is_back(one_kit: SyncKit, syncing: Syncing) -> None:
    source = syncing.claim()
    one_kit.target.stop()
    sync = syncing.start(source)
    while (paused := syncing.pause()) is None:  # it soon tries again
        time.sleep(0.05)
    error = paused.error
    assert error is not None
    assert (error["ErrCode"], error["Reaction"]) == ("DM-6001", "retry")
    assert 0 < error[RESUMES_IN_SECONDS] <= 1
    wait_for(lambda: syncing.progress.resuming.startswith("DM-6001"))
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")

    one_kit.target.start()

    wait_for(lambda: syncing.progress.changes == 1)
    status = syncing.status()
    assert (status.stage, status.error) == (Stage.RUNNING, None)
    assert one_kit.differences() == []
    syncing.gate.request(Stage.STOPPED)
    assert not sync.result(SECONDS).finished


def test_a_stop_ends_the_wait_for_the_next_attempt(one_kit: SyncKit, syncing: Syncing) -> None:
    syncing.checker = {"backoff-min": 200, "backoff-max": 200}
    source = syncing.claim()
    one_kit.target.stop()
    sync = syncing.start(source)
    wait_for(syncing.waits)

    syncing.gate.request(Stage.STOPPED)

    with pytest.raises(TargetUnreachable):
        sync.result(SECONDS)
    error = syncing.status().error
    assert error is not None
    assert RESUMES_IN_SECONDS not in error


def test_a_run_replaced_during_a_pause_writes_nothing(one_kit: SyncKit, syncing: Syncing) -> None:
    syncing.checker = {"backoff-min": 5, "backoff-max": 5, "backoff-jitter": False}
    source = syncing.claim()
    one_kit.target.stop()
    sync = syncing.start(source)
    wait_for(syncing.waits)
    one_kit.target.start()
    claim_generation(source.target, Fence(one_kit.ref, source.fence.generation + 1))
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")

    with pytest.raises(Fenced):
        sync.result(SECONDS)

    assert rows_of(one_kit.target, one_kit.schema, "plain") == []
    error = syncing.status().error
    assert error is None or error["ErrCode"] == "DM-6001"  # it does not report the state of another run


def test_a_restored_older_target_stops_the_sync(one_kit: SyncKit, syncing: Syncing) -> None:
    """The frontier that a resumed sync reads is not all that it knows."""
    source = syncing.claim()
    frontier = f"`{one_kit.meta_schema}`.dm_frontier"
    ((older,),) = one_kit.target.sql(f"SELECT MIN(position) FROM {frontier}")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    sync = syncing.start(source)
    wait_for(lambda: syncing.progress.changes == 1)
    syncing.gate.request(Stage.STOPPED)
    sync.result(SECONDS)
    syncing.gate.request(Stage.RUNNING)
    one_kit.target.sql(f"UPDATE {frontier} SET position = '{older}'")

    again = syncing.start(source)

    with pytest.raises(TargetWentBack):
        again.result(SECONDS)


@pytest.mark.spark
def test_an_app_continues_after_an_outage_of_the_target(one_kit: SyncKit) -> None:
    """It is away for longer than a transaction is tried again (`impatient_sync`), while it was at work."""
    one_kit.begin_with("plain")
    app = AppProcess(one_kit.folder, one_kit.store, one_kit.spec("forever"), script=IMPATIENT)

    def status() -> SubtaskStatus:
        return one_kit.store.list_subtasks(task="test", source=SOURCE_ID)[0]

    try:
        one_kit.write("INSERT INTO plain VALUES (1, 'a')")
        app_until(lambda: app.applied() == 1, app)
        one_kit.target.stop()
        try:
            app_until(lambda: status().stage is Stage.PAUSED, app, SECONDS)
            one_kit.write("INSERT INTO plain VALUES (2, 'b')")
        finally:
            one_kit.target.start()
        app_until(lambda: app.applied() == 2, app)
        assert (status().stage, status().error) == (Stage.RUNNING, None)
        app.process.terminate()
        assert app.ends() == 143
    finally:
        if app.alive():
            app.kill()
    assert one_kit.differences() == []
