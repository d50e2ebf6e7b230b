"""The demo's DAG ends verified although its processes are killed with -9 on the way, one of each kind.

The oracle is the demo's own: an independent comparison of every row.
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import sync_playwright

from demo.run import Outcome, copied_rows, run_dag
from demo.world import DAG_ID, SOURCES, World, fill_shards, start_world_airflow, start_world_servers
from tests.airflow.support import log_in, trigger
from tests.conftest import REQUIRED

pytestmark = [pytest.mark.e2e, pytest.mark.server, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 120_000
WRITES_PER_SECOND = 40
Kill = Callable[[World, str], int]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home: Path = tmp_path_factory.mktemp("demo")
    servers = start_world_servers(home, keep=False)
    fill_shards(servers, ROWS)
    world = World(home, servers, start_world_airflow(home, servers, keep=False), ROWS)
    yield world
    world.stop()


def wait_until(condition: Callable[[], object], what: str, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(0.1)


def pids_of(world: World, *words: str) -> list[int]:
    """Processes of this Airflow whose command line holds every word."""
    found = []
    for pid in world.airflow.processes():
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if all(word in argv for word in words):
            found.append(pid)
    return found


def kill_relay(world: World, run_id: str) -> int:
    """The relay process of the MySQL source, while rows are being copied."""
    wait_until(lambda: copied_rows(world) > 0, "rows are being copied")
    (pid,) = [pid for pid in pids_of(world, "engine.relay") if has_open(pid, f"/{SOURCES[1]}/")]
    os.kill(pid, signal.SIGKILL)
    return pid


def has_open(pid: int, part: str) -> bool:
    """Tell whether a process has a file open whose path holds `part`."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if part in str(descriptor.readlink()):
                return True
    return False


def kill_driver(world: World, run_id: str) -> int:
    """The Python driver of the full migration, when a part of the rows has been committed."""
    wait_until(lambda: copied_rows(world) > 0, "rows are being copied")
    pid = next(
        pid for pid in pids_of(world, "full_migration.py") if "java" not in Path(f"/proc/{pid}/exe").readlink().name
    )
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_task_process(world: World, run_id: str) -> int:
    """The Airflow process that runs the sync task; its Spark driver must not outlive it for long."""
    wait_until_sync_has_claimed(world)
    task = world.airflow.api.task(DAG_ID, run_id, "incremental_sync")
    assert task.pid is not None
    os.kill(task.pid, signal.SIGKILL)
    return task.pid


KILLS: Final[tuple[Kill, ...]] = (kill_relay, kill_driver, kill_task_process)
"""In the order in which a run comes to them."""


def wait_until_sync_has_claimed(world: World) -> None:
    """Wait until the sync app has taken its generation of both sources, just before it applies changes."""
    wait_until(
        lambda: [unit for unit, _ in subtasks(world)] == ["sync", "sync"], "the load of both sources is complete"
    )
    loaded = max(generation for _, generation in subtasks(world))
    wait_until(lambda: all(generation > loaded for _, generation in subtasks(world)), "the sync holds its generation")


def subtasks(world: World) -> list[tuple[str, int]]:
    """(unit, generation) of every source."""
    if not copied_rows(world):
        return []
    return [
        (unit, generation) for unit, generation in world.target.sql("SELECT unit, generation FROM dm_meta.dm_subtask")
    ]


def by_the_form(world: World) -> str:
    """Press Trigger in Airflow's UI."""
    chromium = shutil.which("chromium")
    if chromium is None and not REQUIRED:
        return world.airflow.api.trigger(DAG_ID)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = log_in(browser, world.airflow, world.airflow.user, world.airflow.password)
        return trigger(context.new_page(), world.airflow, DAG_ID)


def test_the_migration_ends_verified_although_all_are_killed(world: World) -> None:
    killed: list[int] = []

    outcome: Outcome = run_dag(
        world,
        writes_per_second=WRITES_PER_SECOND,
        trigger=by_the_form,
        during=lambda world, run_id: killed.extend(kill(world, run_id) for kill in KILLS),
    )

    assert outcome.verified, f"{outcome.state}: {outcome.report}"
    assert len(killed) == len(KILLS)
    assert [lock["life"][-1]["phase"] for lock in outcome.ddl_locks] == ["resolved"]
    assert not [pid for pid in killed if Path(f"/proc/{pid}").exists()]
    # A dead relay is started again by the task that watches it; the others are retried.
    retried = {task.task_id for task in outcome.tasks if task.try_number > 1}
    assert {"full_migration", "incremental_sync"} <= retried, "the kill hit nothing"
