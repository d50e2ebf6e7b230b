"""`docker/local up`, then the demo in what it has started: the DAG ends verified although its processes are killed with
-9 on the way, one of each kind.

The oracle is the demo's own: an independent comparison of every row.
"""

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from demo import __main__ as demo
from demo.run import Outcome, copied_rows, run_dag
from demo.world import DAG_ID, SOURCES, World
from tests import waiting

pytestmark = [pytest.mark.e2e, pytest.mark.server, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(2400)]

wait_for = partial(waiting.wait_for, seconds=600, every=0.2)  # each query logs in
ROWS = 120_000
WRITES_PER_SECOND = 10
Kill = Callable[[World, str], int]


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
    wait_for(lambda: copied_rows(world) > 0)
    (pid,) = [pid for pid in pids_of(world, "engine.relay") if has_open(pid, f"/{SOURCES[1]}/")]
    os.kill(pid, signal.SIGKILL)
    return pid


def has_open(pid: int, part: str) -> bool:
    """Return True if a process has a file open whose path holds `part`."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if part in str(descriptor.readlink()):
                return True
    return False


def kill_driver(world: World, run_id: str) -> int:
    """The Python driver of the full migration, when a part of the rows has been committed."""
    wait_for(lambda: copied_rows(world) > 0)
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
"""In the order of the tasks of a run."""


def wait_until_sync_has_claimed(world: World) -> None:
    """Wait until the sync app has taken its generation of both sources, just before it applies changes."""
    wait_for(lambda: [unit for unit, _ in subtasks(world)] == ["sync", "sync"])
    loaded = max(generation for _, generation in subtasks(world))
    wait_for(lambda: all(generation > loaded for _, generation in subtasks(world)))


def subtasks(world: World) -> list[tuple[str, int]]:
    """(unit, generation) of every source."""
    if not copied_rows(world):
        return []
    return [
        (unit, generation) for unit, generation in world.target.sql("SELECT unit, generation FROM dm_meta.dm_subtask")
    ]


@pytest.fixture
def worlds(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """What the demo's commands start: `up` does, and `demo` continues in that. It is in a folder of this test."""
    found: list[World] = []
    start, home = demo.start, tmp_path_factory.mktemp("demo")

    def started(*arguments: Any, **options: Any) -> tuple[World, int]:
        if not found:
            found.append(start(*arguments, **{**options, "keep": False})[0])  # a killed test leaves nothing running
        return found[0], ROWS

    monkeypatch.setattr(demo, "start", started)
    monkeypatch.setattr(demo, "_kept_home", lambda: home)
    monkeypatch.setattr(demo, "_end_by_exception_on_sigterm", lambda: None)  # it would outlive the test
    monkeypatch.setattr(tempfile, "tempdir", str(home.parent))
    yield found
    for world in found:
        world.stop()


def test_the_migration_ends_verified_although_all_are_killed(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main(["up", "--rows", str(ROWS)]) == 0
    dm_page = f"DM page: {worlds[0].airflow.url}/plugin/dm"
    assert dm_page in capsys.readouterr().err
    assert demo.main(["up"]) == 1, "it is up already"
    assert dm_page in capsys.readouterr().err

    killed: list[int] = []
    outcomes: list[Outcome] = []

    def run(world: World, **options: Any) -> Outcome:
        def during(world: World, run_id: str) -> None:
            killed.extend(kill(world, run_id) for kill in KILLS)

        outcomes.append(run_dag(world, during=during, **options))
        return outcomes[0]

    monkeypatch.setattr(demo, "run_dag", run)
    code = demo.main(["--writes-per-second", str(WRITES_PER_SECOND)])

    (outcome,) = outcomes
    assert outcome.verified, f"{outcome.state}: {outcome.report}"
    assert code == 0
    assert len(killed) == len(KILLS)
    assert [lock["life"][-1]["phase"] for lock in outcome.ddl_locks] == ["resolved"]
    assert not [pid for pid in killed if Path(f"/proc/{pid}").exists()]
    # A dead relay is started again by the task that watches it; the others are retried.
    retried = {task.task_id for task in outcome.tasks if task.try_number > 1}
    assert {"full_migration", "incremental_sync"} <= retried, "the kill hit nothing"

    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["verified"] is True
    closing = printed.err.splitlines()[-1]
    assert closing.startswith("The page DM showed this: docs/how-to/airflow-ui.md")
    assert demo.main(["down"]) == 0, "nothing is up"
