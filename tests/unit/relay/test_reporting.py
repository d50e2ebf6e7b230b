"""A relay reports its state and follows requests, in any state of its upstream."""

import socket
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import CONNECT_TIMEOUT_SECONDS
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.processes import this_process
from airflow_provider_dm.engine.relay.errors import RelayRunsElsewhere
from airflow_provider_dm.engine.relay.reporting import Reporter
from tests.waiting import wait_for

T = TypeVar("T")


@pytest.fixture
def silent_upstream() -> Iterator[Endpoint]:
    """A port where connections are neither taken nor refused."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        host, port = listener.getsockname()
        yield Endpoint("s", host, port, "user", Secret("password"))


def test_a_silent_upstream_does_not_delay_requests_of_users(
    silent_upstream: Endpoint, store: MetaStore, tmp_path: Path
) -> None:
    with Reporter("s", silent_upstream, store, tmp_path) as reporter:
        reporter.publish(Stage.RUNNING)
        first = in_time(lambda: store.relay_status("s"))
        store.set_relay_desired("s", Stage.PAUSED)
        obeyed = in_time(lambda: reporter.desired if reporter.desired is Stage.PAUSED else None)
        reporter.publish(obeyed)
        shown = in_time(lambda: paused(store.relay_status("s")))
    assert first.stage is Stage.RUNNING
    assert shown.master is None


def elsewhere(_directory: Path) -> RelayStatus:
    return RelayStatus("s", Stage.RUNNING, host="another", directory="/relay/s", pid=1)


def in_another_container(directory: Path) -> RelayStatus:
    """It shares the host name and the path, and counts its own pids: by chance it has ours."""
    boot, _, pid, born = this_process().split(" ")
    process = f"{boot} pid:[1] {pid} {born}"
    here = socket.gethostname()
    return RelayStatus("s", Stage.RUNNING, host=here, directory=str(directory), pid=int(pid), process=process)


@pytest.mark.parametrize("other_in", [elsewhere, in_another_container])
def test_a_relay_waits_for_an_old_report_and_ends_if_the_report_is_renewed(
    silent_upstream: Endpoint, store: MetaStore, tmp_path: Path, other_in: Callable[[Path], RelayStatus]
) -> None:
    other = other_in(tmp_path)

    def begin() -> Reporter:
        with Reporter("s", silent_upstream, store, tmp_path) as reporter:
            reporter.publish(Stage.RUNNING)
            in_time(lambda: now if (now := store.relay_status("s")) and now.process == this_process() else None)
        return reporter

    with ThreadPoolExecutor(1) as pool:
        store.put_relay_status(other)
        waiting = pool.submit(begin)
        store.put_relay_status(other)
        while not waiting.done():
            store.put_relay_status(other)
        with pytest.raises(RelayRunsElsewhere, match=f"process {other.pid} on {other.host} writes {other.directory}"):
            waiting.result()
        waiting = pool.submit(begin)
        with closing(sqlite3.connect(tmp_path / "meta.db")) as database, database:
            database.execute("UPDATE dm_relay SET heartbeat_at = 0")
        waiting.result()


def paused(status: RelayStatus | None) -> RelayStatus | None:
    return status if status is not None and status.stage is Stage.PAUSED else None


def in_time(look: Callable[[], T | None]) -> T:
    """Return the first value that `look` finds, before a connection attempt would have ended."""
    found = wait_for(look, seconds=CONNECT_TIMEOUT_SECONDS - 2)
    assert found is not None
    return found
