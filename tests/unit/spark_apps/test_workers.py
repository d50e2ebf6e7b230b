"""The process from which Spark forks its Python workers."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from spark_apps import workers
from tests.waiting import wait_for

WANTED = [
    "pyspark.worker",
    "airflow_provider_dm.engine.sync.write.tasks",
    "airflow_provider_dm.engine.binlog.kernels.rows",
]
NAMES = [*workers.ALWAYS, "nowhere.to_be_found", "sys:exit_there_is_none", *workers.WORKER_IMPORTS["incremental_sync"]]
PREPARED = f"""
import gc, json, os, sys
from {workers.__name__} import prepare
prepare({NAMES})
found = [name for name in {WANTED} if name in sys.modules]
alone = os.listdir("/proc/self/task") == [str(os.getpid())]
print(json.dumps([found, alone, gc.isenabled(), gc.get_freeze_count() > 0]))
"""


def test_the_worker_daemon_has_imported_the_modules_and_runs_no_thread() -> None:
    """Missing modules are left to the workers, whose error is visible."""
    done = subprocess.run([sys.executable, "-c", PREPARED], check=True, capture_output=True, text=True)

    found, alone, collects, frozen = json.loads(done.stdout)
    assert found == WANTED
    assert alone
    assert collects
    assert frozen
    assert "nowhere.to_be_found could not be imported in advance" in done.stderr
    assert "sys:exit_there_is_none could not be imported in advance" in done.stderr


def test_each_app_has_a_list_of_existing_modules_to_import() -> None:
    assert set(workers.WORKER_IMPORTS) == set(get_args(JobSpec.model_fields["app"].annotation))
    assert all(find_spec(name.partition(":")[0]) for names in workers.WORKER_IMPORTS.values() for name in names)


UNUSED = """
import os, sys
from spark_apps.workers import start_early
os.environ["PYSPARK_PYTHON"] = sys.executable
start_early(["json"])
print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
sys.stdin.read()
"""


def test_an_early_process_that_spark_does_not_need_ends_with_its_driver() -> None:
    command = [sys.executable, "-c", UNUSED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        early = int(driver.stdout.readline())
        os.kill(early, 0)
        driver.kill()
    wait_for(lambda: has_ended(early))


def test_an_early_process_that_dies_before_it_takes_over_replaces_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"dm-test-{os.getpid()}"
    monkeypatch.setenv(workers.ADDRESS, address)
    assert not workers._replaced()
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(f"\0{address}")
        listener.listen(1)
        replaced = pool.submit(workers._replaced)
        listener.accept()[0].close()
        assert not replaced.result()


def has_ended(pid: int) -> bool:
    """Return True if the process has ended, also if its parent has not read its exit code."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
