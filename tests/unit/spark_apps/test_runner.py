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
from spark_apps import runner
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


@pytest.mark.spark
def test_an_app_that_ends_does_not_wait_for_workers_that_cannot_start(tmp_path: Path) -> None:
    script, root = tmp_path / "app.py", str(Path(runner.__file__).parent.parent)
    script.write_text(ENDS_WHILE_WORKERS_START)
    env = os.environ | {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable}
    command = [f"{Path(pyspark.__file__).parent}/bin/spark-submit", "--master", "local[1]", str(script)]

    ended = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=300, check=True)

    assert ended.stdout.strip() == "False"
