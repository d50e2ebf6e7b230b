"""A Spark that does not start is reported with its master; workers that cannot start do not delay the end of an app."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from airflow_provider_dm.engine.errors import Reaction
from spark_apps import runner, workers
from spark_apps.errors import SparkNotStarted

MESSAGE = (
    "An error occurred while calling None.org.apache.api.java.JavaSparkContext.\n"
    ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was …"
)


def refuse(_conf: object) -> None:
    raise Py4JError(MESSAGE)


def test_a_spark_master_that_is_unreachable_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.master": "spark://nowhere:7077"}
    spark_conf = SimpleNamespace(get=conf.get)
    spark_conf.setIfMissing = lambda name, value: conf.setdefault(name, value) and spark_conf
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(runner, "SparkConf", lambda: spark_conf)
    monkeypatch.setattr(runner, "SparkContext", SimpleNamespace(getOrCreate=refuse))

    with pytest.raises(SparkNotStarted, match=r"spark://nowhere:7077: Cannot call methods on a stopped") as raised:
        runner.spark_context("app")
    assert raised.value.reaction is Reaction.RETRY


ENDS_WHILE_WORKERS_START = """
import threading, time
from spark_apps.runner import SparkRunner, spark_context
runner = SparkRunner(spark_context("app"))
threading.Thread(target=runner.run, args=(time.sleep, [600]), daemon=True).start()
tracker = runner.context.statusTracker()
while not any(tracker.getStageInfo(stage).numActiveTasks for stage in tracker.getActiveStageIds()):
    time.sleep(0.1)
print(runner.start_workers())
"""
"""Its only slot is taken, so no worker can start."""


DAEMONS = """
import os, signal, time
from pathlib import Path
from spark_apps.runner import SparkRunner, spark_context
from spark_apps.errors import TasksCrashed

def daemon_and_worker(_item):
    return os.getppid(), os.getpid()

def word(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(bytes(1))[3].decode()

runner = SparkRunner(spark_context("app", ["json"], early=True))
((first, worker),) = runner.run(daemon_and_worker, [0])
print(word(first), os.getpgid(first) != os.getpgid(0))
os.kill(first, signal.SIGKILL)
os.kill(worker, signal.SIGKILL)
while True:
    try:
        ((second, _),) = runner.run(daemon_and_worker, [0])
    except TasksCrashed:  # while Spark notices that the daemon is gone
        continue
    break
print(word(second))
runner.context.stop()
"""


def submitted(folder: Path, script: str) -> str:
    """Run a script by spark-submit. Return what it printed."""
    path, root = folder / "app.py", str(Path(runner.__file__).parent.parent)
    path.write_text(script)
    env = os.environ | {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable}
    command = [f"{Path(pyspark.__file__).parent}/bin/spark-submit", "--master", "local[1,4]", str(path)]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout


@pytest.mark.spark
def test_an_app_that_ends_does_not_wait_for_workers_that_cannot_start(tmp_path: Path) -> None:
    assert submitted(tmp_path, ENDS_WHILE_WORKERS_START).strip() == "False"


@pytest.mark.spark
def test_workers_come_from_the_early_process_and_after_its_death_from_a_new_daemon(tmp_path: Path) -> None:
    assert submitted(tmp_path, DAEMONS).split() == [workers.EARLY, "True", workers.TASKS]
